"""Tiles of a slide through a net: the same scores however the slide is cut, also for tiles of few pixels."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from aspirate.core.geometry import Size, TileGrid
from aspirate.engines.torch_engine import TorchEngine
from aspirate.nn.tile_net import TileNet, seeded
from aspirate.slides.reader import open_slide
from aspirate.synth.cohort import make_cohort
from aspirate.synth.settings import SynthSettings
from aspirate.workflow import screen
from aspirate.workflow.cascade import cells_of
from aspirate.workflow.screen import score_cells, score_tiles


class Pixels:
    """An engine that says where it was: the mean of each tile."""

    name = "pixels"

    def score(self, tiles: NDArray[np.uint8]) -> NDArray[np.float32]:
        return np.asarray(tiles.mean((1, 2, 3)), np.float32)

    def outputs(self, tiles: NDArray[np.uint8]) -> NDArray[np.float32]:
        return self.score(tiles)[:, None]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """1,500 × 1,100 pixels: no whole number of tiles, nor of blocks."""
    folder = tmp_path_factory.mktemp("cohort")
    make_cohort(SynthSettings(slides=2, size=(1500, 1100), seed=1, readers=0, sites=1), folder)
    return min((folder / "slides").iterdir())


@pytest.mark.parametrize("mpp", [0.25, 0.21, 0.5])
def test_cells_read_in_blocks_are_the_cells_read_one_by_one(path: Path, mpp: float) -> None:
    """Exactly where a level has their resolution; to the last rounding of the filter where they are resampled."""
    with open_slide(path) as slide:
        grid = cells_of(TileGrid.cover(slide.size_px0, 0.25, side_px=64, mpp=mpp), 4)
        in_blocks, alone = (way(slide, grid, Pixels()) for way in (score_cells, score_tiles))
    assert in_blocks.shape == (len(grid),) and alone.std() > 1
    np.testing.assert_allclose(in_blocks, alone, atol=0 if mpp != 0.21 else 1.0)


@pytest.mark.parametrize("chunk_bytes", [1, 100_000, 2**30])
def test_scores_do_not_depend_on_how_a_slide_is_cut(
    path: Path, chunk_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = TorchEngine(seeded(0, lambda: TileNet("scout", 16)), batch=7)
    told: list[float] = []
    with open_slide(path) as slide:
        grid = cells_of(TileGrid.cover(slide.size_px0, 0.25, side_px=64), 4)
        expected = engine.score(slide.read_squares(grid.corners_px0(), grid.side_px0, grid.side_px))
        monkeypatch.setattr(screen, "CHUNK_BYTES", chunk_bytes)
        found = score_cells(slide, grid, engine, told.append)
        np.testing.assert_allclose(score_tiles(slide, grid, engine), expected, atol=1e-5)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert sum(told) == pytest.approx(1)


def test_cells_are_the_same_tiles_with_fewer_pixels() -> None:
    grid = TileGrid.cover(Size(1500, 1100), 0.25)
    cells = cells_of(grid, 4)
    np.testing.assert_array_equal(cells.corners_px0(), grid.corners_px0())
    assert (cells.side_px, cells.side_px0) == (32, 128)
