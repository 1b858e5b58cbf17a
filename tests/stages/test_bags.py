"""The rivals: what a step shows them, how a slide is scored, and that each of them learns what can be learned."""

from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from aspirate.core.errors import SlideError
from aspirate.core.records import SlideEntry
from aspirate.learning.augment import as_batch, coloured
from aspirate.learning.device import Compute
from aspirate.learning.settings import AugmentSettings
from aspirate.learning.slide_training import train_slides
from aspirate.learning.tile_bank import TileBank
from aspirate.nn.pooling import POOLS
from aspirate.nn.tile_net import TileNet
from aspirate.stages.bags import BagLearner, BagSettings

CPU = Compute("cpu", 1, bf16=False)
SIDE = 16
PLAIN = AugmentSettings(turn=False, strength=0, hue=0, light=0, focus=0)
COUNTS = [1, 5, 40, 20]
ENTRIES = [
    SlideEntry("s0", Path("x"), malignant=True, bethesda=6),
    SlideEntry("s1", Path("x"), malignant=False),
    SlideEntry("s2", Path("x"), bethesda=4),
    SlideEntry("s3", Path("x")),
]


@pytest.fixture
def bank(tmp_path: Path) -> TileBank:
    """Red says the slide, green the row."""
    made = TileBank(tmp_path / "bank")
    for number, count in enumerate(COUNTS):
        tiles = np.zeros((count, SIDE, SIDE, 3), np.uint8)
        tiles[..., 0], tiles[..., 1] = number, np.arange(count)[:, None, None]
        made.add(f"s{number}.kept", tiles)
    return made


def learner(bank: TileBank, **changes: object) -> BagLearner:
    settings = BagSettings.of({"augment": PLAIN, "bags": 3, "tiles": 8} | changes)
    return BagLearner(bank, ENTRIES, ENTRIES[:2], "kept", SIDE, settings, seed=0)


def test_a_step_shows_some_tiles_of_some_labelled_slides_each_once(bank: TileBank) -> None:
    one = learner(bank)
    seen = set()
    for step in range(20):
        pixels, bag, ranks = coloured(one.batch(step))
        assert bag.max() == 2 and len(ranks["Y"]) == len(ranks["S"]) == 3
        for number in range(3):
            slides, rows = set(pixels[bag == number, 0, 0, 0].tolist()), pixels[bag == number, 1, 0, 0].tolist()
            (slide,) = slides
            assert len(rows) == len(set(rows)) == min(8, COUNTS[slide])
            assert (int(ranks["Y"][number]), int(ranks["S"][number])) == {0: (1, 4), 1: (0, -1), 2: (-1, 2)}[slide]
            seen.add(slide)
    assert seen == {0, 1, 2}, "a slide without labels teaches nothing"
    assert torch.equal(coloured(one.batch(5))[0], coloured(learner(bank).batch(5))[0])


def test_an_epoch_shows_as_many_tiles_as_stage_2(bank: TileBank) -> None:
    assert learner(bank, tiles_per_slide=80).steps_per_epoch == 10  # 3 slides · 80 / (3 · 8)


@pytest.mark.parametrize("pool", POOLS)
def test_a_slide_is_scored_from_all_its_tiles(bank: TileBank, pool: str) -> None:
    one = learner(bank, pool=pool)
    tiles = bank.stack("s2.kept")
    net = one.module.eval()
    with torch.no_grad():
        features = net.tiles(as_batch(np.array(tiles)))
        expected = net.head(features, torch.zeros(40, dtype=torch.long))
    found = one.exceeds(ENTRIES[2])
    for label, size in (("Y", 1), ("S", 4)):
        assert found[label].shape == (size,)
        np.testing.assert_allclose(found[label], expected[label][0], rtol=1e-3, atol=1e-4)
    assert one.slide_score(ENTRIES[2]) == pytest.approx(float(found["Y"][0]))


def test_a_slide_without_tiles_is_refused_by_its_name(bank: TileBank) -> None:
    """To learn from, to validate on, or to be asked about."""
    bank.add("bare.kept", np.empty((0, SIDE, SIDE, 3), np.uint8))
    bare, told = SlideEntry("bare", Path("x"), malignant=True), "bare: has no tile in its bag; leave the slide out"
    for sides in ((ENTRIES, [bare]), ([bare], ENTRIES)):
        with pytest.raises(SlideError, match=told):
            BagLearner(bank, *sides, "kept", SIDE, BagSettings(), seed=0)
    with pytest.raises(SlideError, match=told):
        learner(bank).exceeds(bare)


def test_learning_may_start_from_another_nets_encoder(bank: TileBank) -> None:
    first = TileNet("vgg11-quarter", SIDE)
    one = BagLearner(bank, ENTRIES, ENTRIES, "kept", SIDE, BagSettings(), 0, start=first)
    for name, tensor in first.encoder.state_dict().items():
        assert torch.equal(one.module.tiles.encoder.state_dict()[name], tensor)


def stained(rng: np.random.Generator, count: int, dark: int) -> NDArray[np.uint8]:
    """Tiles of which the first `dark` have a dark square."""
    tiles = rng.integers(200, 220, (count, SIDE, SIDE, 3)).astype(np.uint8)
    tiles[:dark, 4:12, 4:12] = 60
    return tiles


@pytest.mark.parametrize("pool", POOLS)
def test_every_rival_learns_that_dark_tiles_make_a_slide_malignant(tmp_path: Path, pool: str) -> None:
    """Half of a malignant slide's tiles are dark, none of a benign one's; TBS goes with it."""
    rng = np.random.default_rng(0)
    bank = TileBank(tmp_path / "bank")
    entries = [SlideEntry(f"s{n}", Path("x"), malignant=n % 2 == 1, bethesda=2 + 4 * (n % 2)) for n in range(16)]
    for n, entry in enumerate(entries):
        bank.add(f"{entry.slide_id}.kept", stained(rng, 12, 6 * (n % 2)))
    settings = BagSettings.of(
        {"pool": pool, "augment": PLAIN, "tiles": 8, "epochs": 3, "tiles_per_slide": 60, "learning_rate": 0.003}
    )
    one = BagLearner(bank, entries[:10], entries[10:], "kept", SIDE, settings, seed=0)
    history = train_slides(one, tmp_path / "run", CPU, lambda _step, _loss: None)
    assert max(row["auc"] for row in history) == 1.0
    malignant, benign = ([one.slide_score(e) for e in entries[10:] if e.malignant == kind] for kind in (True, False))
    assert min(malignant) > max(benign)
    assert history[-1]["loss"] < history[0]["loss"]
