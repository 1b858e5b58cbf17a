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
from aspirate.slides.yardsticks import decode_all, decode_all_in_cache, openslide_one_by_one

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

    All take turns; seconds are medians, ratios are medians of the ratios within a turn. OpenSlide reads
    at least `openslide_tiles` tiles and its seconds are scaled to all of them: whole rows, in order, spread
    over the slide, so that its cache serves it as it would on the whole slide. `raw_decode` gives every
    tile of the file an array of its own; `cached_decode` overwrites one that never leaves the CPU's cache,
    and so leaves out what handing pixels on must cost.
    """
    with open_slide(path, threads=threads) as slide:
        if not isinstance(slide, DirectSlide):
            raise SlideError(f"{slide.name}: {slide.vendor} files are read by OpenSlide: nothing to compare")
        # Level-0 pixels are all that counts here, whatever their resolution.
        grid = TileGrid(slide.size_px0, side_px, side_px, slide_mpp=1.0)
        bands = _bands(grid, slide.levels[0].tile_px.height)
        sample = _sample(bands, openslide_tiles)
        out = np.empty((max(map(len, bands)), side_px, side_px, 3), np.uint8)

        def direct() -> None:
            for xy_px0 in bands:
                slide.read_squares(xy_px0, side_px, side_px, out[: len(xy_px0)])

        contestants: dict[str, Callable[[], None]] = {
            "direct": direct,
            "raw_decode": lambda: decode_all(slide),
            "cached_decode": lambda: decode_all_in_cache(slide),
            "openslide": lambda: openslide_one_by_one(slide.path, sample, side_px, slide.threads),
        }
        direct()  # warms the page cache, for all alike
        turns = [{name: _seconds(run) for name, run in contestants.items()} for _ in range(repeats)]
    for turn in turns:
        turn["openslide"] *= len(grid) / len(sample)
    seconds = {name: median(turn[name] for turn in turns) for name in contestants}
    rivals = [name for name in contestants if name != "direct"]
    return {
        "slide": slide.name,
        "tiles": len(grid),
        "side_px": side_px,
        "mpx": slide.size_px0.width * slide.size_px0.height / 1e6,
        "threads": slide.threads,
        "repeats": repeats,
        "tiles_openslide": len(sample),
        "tiles_per_second": len(grid) / seconds["direct"],
        **{f"seconds_{name}": value for name, value in seconds.items()},
        **{f"ratio_{name}": median(turn[name] / turn["direct"] for turn in turns) for name in rivals},
    }


def _seconds(work: Callable[[], None]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _bands(grid: TileGrid, file_tile_px: int) -> list[NDArray[np.int64]]:
    """Corners of whole rows of tiles, about `TILES_PER_CALL` at a time.

    Where they can, bands end where a row of the file's tiles ends, so that none is decoded for two bands.
    """
    step = lcm(file_tile_px, grid.side_px0) // grid.side_px0
    rows = max(1, TILES_PER_CALL // grid.columns)
    if step <= TALLEST_BAND:
        rows = max(step, rows // step * step)
    corners_px0 = grid.corners_px0()
    tiles = rows * grid.columns
    return [corners_px0[start : start + tiles] for start in range(0, len(grid), tiles)]


def _sample(bands: list[NDArray[np.int64]], at_least: int) -> NDArray[np.int64]:
    """As many whole bands as hold that many tiles, evenly spread."""
    wanted = min(len(bands), -(-at_least // min(len(band) for band in bands[:-1] or bands)))
    chosen = (np.arange(wanted) + 0.5) * len(bands) / wanted
    return np.concatenate([bands[int(i)] for i in chosen])
