"""How fast slides are read, as ratios that are measured in one run."""

import time
from collections.abc import Callable
from math import lcm
from pathlib import Path
from statistics import median

import numpy as np
from numpy.typing import NDArray

from aspirate.core.errors import SlideError
from aspirate.core.geometry import DEFAULT_SIDE_PX, TileGrid
from aspirate.slides.direct import DirectSlide
from aspirate.slides.reader import open_slide
from aspirate.slides.yardsticks import decode_only, openslide_one_by_one

TILES_PER_CALL = 4096
TALLEST_BAND = 64


def measure(
    path: Path,
    side_px: int = DEFAULT_SIDE_PX,
    threads: int | None = None,
    repeats: int = 5,
    openslide_tiles: int = 4096,
) -> dict[str, float | int | str]:
    """Read every tile of level 0 once, and compare with OpenSlide and with decoding alone.

    The three take turns; seconds are medians, ratios are medians of the ratios within a turn. OpenSlide
    reads at least `openslide_tiles` tiles and its seconds are scaled to all; they are whole rows, in
    order, spread over the slide, so that its cache serves it as it would on the whole slide.
    """
    with open_slide(path, threads=threads) as slide:
        if not isinstance(slide, DirectSlide):
            raise SlideError(f"{slide.name}: its {slide.vendor} file is read by OpenSlide: nothing to compare")
        # Levels and sides are all that counts here; no resolution is needed.
        grid = TileGrid(slide.size_px0, side_px, side_px, slide_mpp=1.0)
        bands = _bands(grid, slide.levels[0].tile_px.height)
        sample = _sample(bands, openslide_tiles)
        share = len(sample) / len(grid)
        out = np.empty((max(map(len, bands)), side_px, side_px, 3), np.uint8)

        def direct() -> None:
            for xy_px0 in bands:
                slide.read_squares(xy_px0, side_px, side_px, out[: len(xy_px0)])

        def usual() -> None:
            openslide_one_by_one(slide.path, sample, side_px, slide.threads)

        direct()  # warms the page cache and touches `out`, for all three alike
        turns = [
            (_seconds(direct), _seconds(usual) / share, _seconds(lambda: decode_only(slide))) for _ in range(repeats)
        ]
        seconds_direct, seconds_openslide, seconds_raw = (median(column) for column in zip(*turns, strict=True))
        return {
            "slide": slide.name,
            "tiles": len(grid),
            "side_px": side_px,
            "mpx": slide.size_px0.width * slide.size_px0.height / 1e6,
            "threads": slide.threads,
            "repeats": repeats,
            "tiles_openslide": len(sample),
            "seconds_direct": seconds_direct,
            "seconds_openslide": seconds_openslide,
            "seconds_raw_decode": seconds_raw,
            "tiles_per_second": len(grid) / seconds_direct,
            "ratio_openslide": median(usual_s / direct_s for direct_s, usual_s, _ in turns),
            "ratio_raw_decode": median(raw_s / direct_s for direct_s, _, raw_s in turns),
        }


def _seconds(work: Callable[[], None]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _bands(grid: TileGrid, file_tile_px: int) -> list[NDArray[np.int64]]:
    """Corners of whole rows of tiles, about `TILES_PER_CALL` at a time.

    Where they can, bands end where a row of the file's tiles ends: none is decoded for two bands.
    """
    step = lcm(file_tile_px, grid.side_px0) // grid.side_px0
    rows = max(1, TILES_PER_CALL // grid.columns)
    if step <= TALLEST_BAND:
        rows = max(step, rows // step * step)
    corners_px0 = grid.corners_px0()
    return [corners_px0[start : start + rows * grid.columns] for start in range(0, len(grid), rows * grid.columns)]


def _sample(bands: list[NDArray[np.int64]], at_least: int) -> NDArray[np.int64]:
    """Enough whole bands, evenly spread."""
    every = sum(map(len, bands))
    wanted = min(len(bands), -(-at_least * len(bands) // every) + 1)
    chosen = np.unique(np.linspace(0, len(bands) - 1, wanted + 2).round().astype(int)[1:-1])
    return np.concatenate([bands[i] for i in chosen])
