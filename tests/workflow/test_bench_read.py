"""The benchmark reads what it says it reads, and its figures fit together."""

import json
from pathlib import Path

import numpy as np
import pytest
import tifffile

from aspirate.core.errors import SlideError
from aspirate.core.geometry import Size, TileGrid
from aspirate.workflow.bench_read import _batches, _spread, measure


@pytest.fixture
def tiff(tmp_path: Path) -> Path:
    pixels = np.random.default_rng(0).integers(0, 256, (1100, 1500, 3), np.uint8)
    path = tmp_path / "slide.tiff"
    tifffile.imwrite(path, pixels, tile=(256, 256), compression="jpeg", photometric="rgb", metadata=None)
    return path


def test_figures(tiff: Path) -> None:
    figures = measure(tiff, threads=2, repeats=3, openslide_tiles=30)
    assert figures["tiles"] == 12 * 9
    assert figures["mpx"] == pytest.approx(1.65)
    assert (figures["threads"], figures["repeats"], figures["side_px"]) == (2, 3, 128)
    assert 30 <= int(figures["tiles_openslide"]) <= 108
    assert float(figures["tiles_per_second"]) == pytest.approx(108 / float(figures["seconds_direct"]))
    assert float(figures["ratio_openslide"]) > 1
    assert all(float(value) > 0 for key, value in figures.items() if key.startswith(("seconds_", "ratio_")))
    assert json.loads(json.dumps(figures)) == figures


def test_real_slide_is_read_far_faster_than_by_openslide(shared_data: Path) -> None:
    """With room for a busy machine; the figures themselves are in benchmarks/RESULTS.md."""
    figures = measure(shared_data / "slides" / "CMU-1-Small-Region.svs", repeats=3)
    assert figures["tiles"] == figures["tiles_openslide"] == 18 * 24
    assert float(figures["ratio_openslide"]) > 3
    assert float(figures["ratio_raw_decode"]) > 0.3


def test_what_openslide_reads_has_nothing_to_compare(tmp_path: Path) -> None:
    path = tmp_path / "slide.tiff"
    tifffile.imwrite(path, np.zeros((300, 300, 3), np.uint8), tile=(256, 256), photometric="rgb", metadata=None)
    with pytest.raises(SlideError, match=r"slide\.tiff: .*OpenSlide"):
        measure(path)


@pytest.mark.parametrize(
    ("file_tile_px", "rows", "columns"), [(Size(256, 256), 8, 16), (Size(240, 240), 15, 15), (Size(1008, 64), 8, 16)]
)
def test_batches_hold_every_tile_once_and_end_with_the_files_tiles(file_tile_px: Size, rows: int, columns: int) -> None:
    grid = TileGrid(Size(7000, 5100), 128, 128, slide_mpp=1.0)
    batches = _batches(grid, file_tile_px)
    together = np.concatenate(batches)
    np.testing.assert_array_equal(together[np.lexsort(together.T)], grid.corners_px0())
    assert len(batches[0]) == rows * columns
    for batch in batches:
        assert batch[0, 1] % file_tile_px.height == 0
        assert batch[0, 0] % file_tile_px.width == 0 or file_tile_px.width == 1008  # coarser than a batch


def test_sample_is_whole_batches_spread_over_the_slide() -> None:
    batches = [np.full((10, 2), i) for i in range(20)]
    assert [batch[0, 0] for batch in _spread(batches, 35)] == [2, 7, 12, 17]
    assert _spread(batches, 10_000) == batches
