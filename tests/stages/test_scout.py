"""The scout learns what r_φ would say, from tiles of slides to learn from, and goes on after an interruption."""

from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image

from aspirate.core.geometry import TileGrid
from aspirate.core.logits import logit
from aspirate.engines.torch_engine import TorchEngine
from aspirate.learning.augment import coloured
from aspirate.learning.device import Compute
from aspirate.learning.settings import AugmentSettings
from aspirate.learning.tile_bank import TileBank
from aspirate.slides.reader import open_slide
from aspirate.stages.scout import CELLS, ScoutLearner, collect_cells, tiles_to_learn, train_scout
from aspirate.stages.settings import ScoutSettings

CPU = Compute("cpu", 1, bf16=False)
SETTINGS = ScoutSettings(
    batch=24, epochs=2, steps_per_epoch=20, best_per_slide=20, drawn_per_slide=40, augment=AugmentSettings(hue=0.0)
)


def planted(seed: int, count: int = 60, cell: int = 8) -> tuple[NDArray[np.uint8], NDArray[np.float64]]:
    """Cells with a dark spot are what r_φ looks for; the first third has one, as the best come first."""
    rng = np.random.default_rng(seed)
    cells = rng.integers(180, 256, (count, cell, cell, 3), np.uint8)
    spots = np.arange(count) < count // 3
    for i in np.flatnonzero(spots):
        y, x = rng.integers(0, cell - 4, 2)
        cells[i, y : y + 4, x : x + 4] = rng.integers(20, 80)
    return cells, np.where(spots, 4.0, -6.0) + rng.normal(0, 0.5, count)


@pytest.fixture
def bank(tmp_path: Path) -> TileBank:
    bank = TileBank(tmp_path / "cache")
    for number in range(6):
        bank.add(f"slide-{number}.{CELLS}", planted(number)[0])
    return bank


def learner(bank: TileBank, settings: ScoutSettings = SETTINGS) -> ScoutLearner:
    logits = {f"slide-{number}": planted(number)[1] for number in range(6)}
    train, validation = dict(list(logits.items())[:4]), dict(list(logits.items())[4:])
    return ScoutLearner(bank, train, validation, 0.5, 8, settings, seed=0)


def test_the_logit_is_the_inverse_of_what_was_written_down() -> None:
    r = np.array([-16.0, -3.0, 0.0, 5.0])
    p = 1 / (1 + np.exp(-r))
    np.testing.assert_allclose(logit(p), r, atol=1e-6)
    assert logit(np.array([0.0, 1.0])).tolist() == [-17.0, 17.0]


def test_the_most_informative_tiles_come_first_then_some_others() -> None:
    p = np.random.default_rng(0).permutation(500) / 500
    tiles = tiles_to_learn(p, SETTINGS, seed=1)
    assert p[tiles[:20]].tolist() == sorted(p, reverse=True)[:20]
    assert len(set(tiles.tolist())) == 60 and p[tiles[20:]].max() < p[tiles[:20]].min()
    assert tiles.tolist() == tiles_to_learn(p, SETTINGS, seed=1).tolist()
    assert len(tiles_to_learn(p[:30], SETTINGS, seed=1)) == 30


def test_cells_are_tiles_read_so_much_coarser(tmp_path: Path) -> None:
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (128, 128, 3), np.uint8)).save(tmp_path / "a.png")
    bank = TileBank(tmp_path / "cache")
    with open_slide(tmp_path / "a.png", mpp=0.25, name="a") as slide:
        grid = TileGrid.cover(slide.size_px0, 0.25, side_px=32)
        collect_cells(slide, grid, np.array([5, 0]), bank, SETTINGS)
        expected = slide.read_squares(grid.corners_px0()[[5, 0]], 32, 8)
    np.testing.assert_array_equal(bank.stack("a.cells"), expected)


def test_a_third_of_a_batch_is_to_be_kept_though_few_tiles_are(bank: TileBank) -> None:
    made = learner(bank)
    _, r = coloured(made.batch(0))
    kept = (r >= 0.5).sum()
    assert len(r) == 24 and kept == 12, "the best are all to be kept here: what is left are those and the drawn"
    cells, again = coloured(made.batch(7))
    torch.testing.assert_close(coloured(made.batch(7))[0], cells)
    torch.testing.assert_close(coloured(made.batch(7))[1], again)


def test_the_loss_by_hand(bank: TileBank) -> None:
    s, r = torch.tensor([[1.5], [-2.0]]), torch.tensor([3.0, -6.0])
    loss = learner(bank).loss(lambda _: s, (torch.empty(0), r))  # type: ignore[arg-type]
    p, q = 1 / (1 + np.exp(-(s[:, 0].numpy() - 0.5) / 2)), 1 / (1 + np.exp(-(r.numpy() - 0.5) / 2))
    assert float(loss) == pytest.approx(float(-(q * np.log(p) + (1 - q) * np.log(1 - p)).mean()), abs=1e-6)


def test_it_learns_to_tell_them_apart_on_slides_not_trained_on(bank: TileBank, tmp_path: Path) -> None:
    made = learner(bank)
    before = made.validate(made.module.eval())["auc"]
    net = train_scout(made, tmp_path / "scout", CPU, lambda _step, _loss: None)
    assert made.validate(net.eval())["auc"] > max(0.98, before)
    s = TorchEngine(net).score(bank.stack("slide-5.cells"))
    assert s[:20].mean() > 0.5 > s[20:].mean(), "on the scale of r_φ"


def test_an_interrupted_training_ends_with_the_same_weights(bank: TileBank, tmp_path: Path) -> None:
    def stop(step: int, loss: float) -> None:
        if step == 27:
            raise KeyboardInterrupt

    whole = train_scout(learner(bank), tmp_path / "whole", CPU, lambda _step, _loss: None)
    with pytest.raises(KeyboardInterrupt):
        train_scout(learner(bank), tmp_path / "parts", CPU, stop)
    steps: list[int] = []
    parts = train_scout(learner(bank), tmp_path / "parts", CPU, lambda step, _loss: steps.append(step))
    assert steps[0] == 21, "from the end of the first epoch"
    for name, tensor in whole.state_dict().items():
        torch.testing.assert_close(parts.state_dict()[name], tensor)
