"""Stage 2: what a batch carries, which slides it is drawn from, and that Y and S may disagree."""

from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from aspirate.core.errors import ConfigError
from aspirate.core.records import SlideEntry
from aspirate.engines.torch_engine import TorchEngine
from aspirate.learning.augment import coloured
from aspirate.learning.device import Compute
from aspirate.learning.settings import AugmentSettings
from aspirate.learning.slide_labels import ranks_of
from aspirate.learning.slide_training import train_slides
from aspirate.learning.tile_bank import TileBank
from aspirate.nn.ordinal import UNKNOWN
from aspirate.nn.tile_net import TileNet
from aspirate.stages.malignancy import MalignancyLearner, MarkedTile
from aspirate.stages.settings import MalignancySettings

CPU = Compute("cpu", 1, bf16=False)
SIDE = 32
PLAIN = AugmentSettings(turn=False, strength=0, hue=0, light=0, focus=0)
LABEL_SETS = ("Y", "S", "V", "YS", "YV", "SV", "YSV")


def slide(number: int, malignant: bool | None, bethesda: int | None) -> SlideEntry:
    return SlideEntry(f"s{number}", Path("x"), malignant=malignant, bethesda=bethesda)


def coded(bank: TileBank, name: str, slide_number: int, count: int, blue: int, side: int = SIDE) -> None:
    """Red says the slide, green the row, blue the kind of stack."""
    tiles = np.empty((count, side, side, 3), np.uint8)
    tiles[..., 0], tiles[..., 1], tiles[..., 2] = slide_number, np.arange(count)[:, None, None], blue
    bank.add(name, tiles)


ENTRIES = [slide(0, True, 6), slide(1, False, 2), slide(2, None, 4), slide(3, True, None), slide(4, None, None)]
COUNTS = [1, 5, 60, 20, 9]
MARKED = [MarkedTile("s0.marked", 1, 2, 0), MarkedTile("s2.marked", 0, 1, 2), MarkedTile("s4.marked", 3, 0, 4)]


@pytest.fixture
def bank(tmp_path: Path) -> TileBank:
    made = TileBank(tmp_path / "bank")
    for number, count in enumerate(COUNTS):
        coded(made, f"s{number}.kept", number, count, blue=10)
    for number in (0, 2, 4):
        coded(made, f"s{number}.marked", number, 4, blue=200, side=40)
    return made


def learner(bank: TileBank, seed: int = 0, **changes: object) -> MalignancyLearner:
    settings = MalignancySettings.of({"batch": 40, "augment": PLAIN} | changes)
    return MalignancyLearner(bank, ENTRIES, ENTRIES, MARKED, SIDE, settings, seed)


def test_ranks_of_slides() -> None:
    ranks = ranks_of([*ENTRIES, slide(5, False, 1)])
    assert ranks["Y"].tolist() == [1, 0, -1, 1, -1, 0]
    assert ranks["S"].tolist() == [4, 0, 2, -1, -1, -1], "TBS 1 says nothing of malignancy"


@pytest.mark.parametrize("labels", LABEL_SETS)
def test_every_tile_carries_what_is_known_of_its_slide_and_of_itself(bank: TileBank, labels: str) -> None:
    y, s = {0: 1, 1: 0, 3: 1}, {0: 4, 1: 0, 2: 2}
    useful = {n for n in range(5) if ("Y" in labels and n in y) or ("S" in labels and n in s)} or set(range(5))
    grade_of = {(0, 1): 2, (2, 0): 1, (4, 3): 0}
    graded = 8 if "V" in labels else 0  # a fifth of 40
    seen: set[int] = set()
    for step in range(30):
        tiles, ranks = coloured(learner(bank, labels=labels).batch(step))
        assert tuple(ranks) == tuple(labels)
        assert tiles.shape == (40, 3, SIDE, SIDE)
        code = tiles[:, :, 5, 5].numpy().astype(int)
        marked = code[:, 2] == 200
        assert marked.sum() == graded
        seen |= set(code[~marked, 0].tolist())
        for i, (number, row, _) in enumerate(code.tolist()):
            if "Y" in labels:
                assert ranks["Y"][i] == y.get(number, UNKNOWN)
            if "S" in labels:
                assert ranks["S"][i] == s.get(number, UNKNOWN)
            if "V" in labels:
                assert ranks["V"][i] == (grade_of[number, row] if marked[i] else UNKNOWN)
    assert seen == useful, "slides that lack every label in use teach nothing and are not drawn"


def test_slides_are_drawn_alike_whatever_their_tiles_and_tiles_alike_within(bank: TileBank) -> None:
    one = learner(bank, labels="YS")
    code = np.concatenate([coloured(one.batch(step))[0][:, :2, 0, 0].numpy() for step in range(100)]).astype(int)
    by_slide = np.bincount(code[:, 0], minlength=5)
    assert by_slide[4] == 0
    assert np.abs(by_slide[:4] - 1000).max() < 5 * np.sqrt(1000)
    rows = np.bincount(code[code[:, 0] == 3, 1], minlength=20)
    assert np.abs(rows - by_slide[3] / 20).max() < 5 * np.sqrt(by_slide[3] / 20)


def test_weighted_tiles_are_drawn_and_averaged_by_their_weight(bank: TileBank) -> None:
    u = {f"s{n}": np.linspace(0, 1, count) if count > 1 else np.ones(1) for n, count in enumerate(COUNTS)}
    settings = MalignancySettings.of({"batch": 40, "augment": PLAIN})
    one = MalignancyLearner(bank, ENTRIES, ENTRIES, [], SIDE, settings, 0, u)
    code = np.concatenate([coloured(one.batch(step))[0][:, :2, 0, 0].numpy() for step in range(100)]).astype(int)
    assert np.abs(np.bincount(code[:, 0], minlength=5)[:4] - 1000).max() < 5 * np.sqrt(1000), "slides still alike"
    rows = np.bincount(code[code[:, 0] == 1, 1], minlength=5)
    expected = rows.sum() * u["s1"] / u["s1"].sum()
    assert rows[0] == 0, "no weight, never drawn"
    assert (np.abs(rows - expected) <= 5 * np.sqrt(expected)).all()

    class Row(torch.nn.Module):
        def forward(self, tiles: torch.Tensor) -> torch.Tensor:
            return tiles[:, 1, 0, :1].float()

    for number, count in enumerate(COUNTS):
        by_hand = sum(u[f"s{number}"] * np.arange(count)) / sum(u[f"s{number}"])
        assert one._slide_score(Row(), ENTRIES[number]) == pytest.approx(by_hand)


def test_a_batch_depends_on_seed_and_step_alone(bank: TileBank) -> None:
    changes = {"labels": "YSV", "augment": AugmentSettings()}
    first = learner(bank, seed=2, **changes)
    tiles, ranks = coloured(first.batch(9))
    first.batch(0)
    again = coloured(learner(bank, seed=2, **changes).batch(9))
    assert torch.equal(again[0], tiles) and all(torch.equal(again[1][label], ranks[label]) for label in "YSV")
    assert not torch.equal(coloured(learner(bank, seed=3, **changes).batch(9))[0], tiles)
    assert not torch.equal(coloured(first.batch(10))[0], tiles)


def test_an_epoch_shows_so_many_tiles_of_each_useful_slide(bank: TileBank) -> None:
    assert learner(bank, labels="YS", tiles_per_slide=15).steps_per_epoch == 2  # 4 slides · 15 tiles / 40
    assert learner(bank, labels="Y", tiles_per_slide=16).steps_per_epoch == 2  # 3 · 16 / 40 = 1.2


def test_validation_orders_slides_by_their_mean_score(bank: TileBank) -> None:
    """With the score of a tile given by its row: means are (count − 1) / 2, by brute force over pairs."""

    class Row(torch.nn.Module):
        def forward(self, tiles: torch.Tensor) -> torch.Tensor:
            return tiles[:, 1, 0, :1].float()

    means = {n: (count - 1) / 2 for n, count in enumerate(COUNTS)}  # 0, 2, 29.5, 9.5, 4
    figures = learner(bank).validate(Row())
    positive, negative = [means[0], means[3]], [means[1]]
    assert figures["auc"] == np.mean([p > n for p in positive for n in negative]) == 0.5
    pairs = [(a, b) for a in (0, 1, 2) for b in (0, 1, 2) if {0: 4, 1: 0, 2: 2}[a] > {0: 4, 1: 0, 2: 2}[b]]
    assert figures["concordance_bethesda"] == pytest.approx(np.mean([means[a] > means[b] for a, b in pairs]))
    assert figures["judged"] == pytest.approx((figures["auc"] + figures["concordance_bethesda"]) / 2)
    without = MalignancyLearner(bank, ENTRIES, ENTRIES[1:3], [], SIDE, MalignancySettings(), 0).validate(Row())
    assert np.isnan(without["auc"]) and without["judged"] == without["concordance_bethesda"] == 1.0


def test_learning_may_start_from_another_nets_encoder(bank: TileBank) -> None:
    first = TileNet("vgg11-quarter", SIDE)
    settings = MalignancySettings()
    one = MalignancyLearner(bank, ENTRIES, ENTRIES, [], SIDE, settings, 0, start=first)
    fresh = MalignancyLearner(bank, ENTRIES, ENTRIES, [], SIDE, settings, 0)
    for name, tensor in first.encoder.state_dict().items():
        assert torch.equal(one.module.net.encoder.state_dict()[name], tensor)
    assert torch.equal(one.module.net.last.weight, fresh.module.net.last.weight), "the rest is the seed's"


@pytest.mark.parametrize(
    ("labels", "two_heads"),
    [*((labels, False) for labels in LABEL_SETS), ("YS", True), ("YV", True), ("YSV", True)],
)
def test_every_label_set_trains(bank: TileBank, tmp_path: Path, labels: str, two_heads: bool) -> None:
    changes = {"labels": labels, "two_heads": two_heads, "batch": 10, "epochs": 2, "tiles_per_slide": 5}
    one = learner(bank, 0, **changes)
    before = {name: tensor.clone() for name, tensor in one.module.state_dict().items()}
    losses: list[float] = []
    history = train_slides(one, tmp_path / "run", CPU, lambda _step, loss: losses.append(loss))
    assert len(history) == 2 and np.isfinite(losses).all() and len(losses) == 2 * one.steps_per_epoch
    assert one.module.net.last.out_features == 1 + two_heads
    expected = {"S": 4, "V": 2}
    for label in labels:
        assert len(one.module.objective.cuts_of(label)) == expected.get(label, 1)
    changed = {name for name, tensor in one.module.state_dict().items() if not torch.equal(tensor, before[name])}
    weights = {name for name, _ in one.module.named_parameters() if not name.endswith(".bias")}
    assert weights <= changed, "every weight and every cut learns"


@pytest.mark.parametrize("labels", ["Y", "S", "V", "SV"])
def test_two_heads_need_both_kinds_of_labels(labels: str) -> None:
    """The score of a slide is the first head's, which only Y teaches."""
    with pytest.raises(ConfigError, match="two_heads"):
        MalignancySettings.of({"labels": labels, "two_heads": True})


def spotted(rng: np.random.Generator, count: int, spots: int, colour: tuple[int, int, int]) -> NDArray[np.uint8]:
    """Tiles with so many dark spots (what S is read from) of a colour (what Y depends on besides)."""
    tiles = rng.normal(225, 8, (count, SIDE, SIDE, 3))
    for tile in tiles:
        for place in rng.choice(16, spots, replace=False):
            row, column = divmod(int(place), 4)
            tile[row * 8 + 1 : row * 8 + 7, column * 8 + 1 : column * 8 + 7] += np.array(colour) - 225
    return np.clip(tiles, 0, 255).astype(np.uint8)


VIOLET, BLUE = (130, 70, 150), (70, 110, 180)


def test_where_S_is_equal_and_Y_is_not_the_malignant_slides_score_higher(tmp_path: Path) -> None:
    """TBS 3 beside TBS 3: half malignant. S alone cannot tell them, Y and S together can, and S still counts."""
    rng = np.random.default_rng(0)
    bank = TileBank(tmp_path / "bank")
    kinds = [(False, 2, 2, BLUE), (False, 3, 7, BLUE), (True, 3, 7, VIOLET), (True, 6, 13, VIOLET)] * 6
    entries = [slide(n, malignant, tbs) for n, (malignant, tbs, _, _) in enumerate(kinds)]
    for entry, (_, _, spots, colour) in zip(entries, kinds, strict=True):
        bank.add(f"{entry.slide_id}.kept", spotted(rng, 8, spots, colour))
    settings = MalignancySettings.of(
        {"labels": "YS", "batch": 32, "epochs": 4, "tiles_per_slide": 40, "learning_rate": 0.02, "augment": PLAIN}
    )
    held = entries[:8]
    one = MalignancyLearner(bank, entries[8:], held, [], SIDE, settings, seed=0)
    history = train_slides(one, tmp_path / "run", CPU, lambda _step, _loss: None)
    engine = TorchEngine(one.module.net)
    score = {e.slide_id: float(engine.score(bank.stack(f"{e.slide_id}.kept")).mean()) for e in held}
    benign_2, benign_3, malignant_3, malignant_6 = (
        [score[e.slide_id] for e in held if (e.malignant, e.bethesda) == kind]
        for kind in ((False, 2), (False, 3), (True, 3), (True, 6))
    )
    assert max(benign_2) < min(benign_3) < max(benign_3) < min(malignant_3) < max(malignant_3) < min(malignant_6)
    assert max(row["judged"] for row in history) == 1.0
    beta = one.module.objective.cuts_of("S").tolist()
    assert beta == sorted(beta)
    assert np.mean(benign_2) < beta[0] < np.mean(benign_3), "and the cuts fall between the categories"
