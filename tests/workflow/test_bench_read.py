"""The benchmark reads what it says it reads, and its figures fit together."""

import json
from pathlib import Path

import numpy as np
import pytest
import tifffile

from aspirate.core.errors import SlideError
from aspirate.core.geometry import Size, TileGrid
from aspirate.workflow import bench_read
from aspirate.workflow.bench_read import _bands, _sample, measure


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


@pytest.mark.parametrize(("side_px", "file_tile_px", "rows"), [(128, 256, 2), (128, 240, 15), (100, 64, 16)])
def test_bands_hold_every_tile_once_and_end_with_the_files_tiles(
    side_px: int, file_tile_px: int, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench_read, "TILES_PER_CALL", 60)
    grid = TileGrid(Size(2500, 5100), side_px, side_px, slide_mpp=1.0)
    bands = _bands(grid, file_tile_px)
    np.testing.assert_array_equal(np.concatenate(bands), grid.corners_px0())
    for band in bands[1:]:
        assert band[0, 1] % file_tile_px == 0
    assert {len(band) % (rows * grid.columns) for band in bands[:-1]} == {0}


def test_sample_is_whole_bands_spread_over_the_slide() -> None:
    bands = [np.full((10, 2), i) for i in range(20)]
    np.testing.assert_array_equal(np.unique(_sample(bands, 35)), [2, 7, 12, 17])
    assert len(_sample(bands, 10_000)) == 200
