"""How fast slides are read, as ratios that are measured in one run."""

import time
from collections.abc import Callable
from math import lcm
from pathlib import Path
from statistics import median

import numpy as np
from numpy.typing import NDArray

from aspirate.core.errors import SlideError
from aspirate.core.geometry import DEFAULT_SIDE_PX, Size, TileGrid
from aspirate.slides.direct import DirectSlide
from aspirate.slides.reader import open_slide
from aspirate.slides.threads import available_threads, for_parts
from aspirate.slides.yardsticks import decode_all, decode_all_in_cache, openslide_one_by_one

BATCH_ROWS, BATCH_COLUMNS = 8, 16
COARSEST_STEP = 16


def measure(
    path: Path,
    side_px: int = DEFAULT_SIDE_PX,
    threads: int | None = None,
    repeats: int = 5,
    openslide_tiles: int = 4096,
) -> dict[str, float | int | str]:
    """Read every tile of level 0 once, and compare with OpenSlide and with decoding alone.

    Threads read batch after batch, each into a buffer of its own, as the workers of a loader do. All
    contestants take turns; seconds are medians, ratios are medians of the ratios within a turn. OpenSlide
    reads whole batches, spread over the slide, of at least `openslide_tiles` tiles, and its seconds are
    scaled to all. `raw_decode` gives every tile of the file an array of its own; `cached_decode` overwrites
    one that never leaves the CPU's cache, and so leaves out what handing pixels on must cost.
    """
    threads = available_threads() if threads is None else threads
    with open_slide(path, threads=1) as slide:
        if not isinstance(slide, DirectSlide):
            raise SlideError(f"{slide.name}: {slide.vendor} files are read by OpenSlide: nothing to compare")
        # Level-0 pixels are all that counts here, whatever their resolution.
        grid = TileGrid(slide.size_px0, side_px, side_px, slide_mpp=1.0)
        batches = _batches(grid, slide.levels[0].tile_px)
        sample = np.concatenate(_spread(batches, openslide_tiles))
        largest = max(map(len, batches))
        buffers = [np.empty((largest, side_px, side_px, 3), np.uint8) for _ in range(threads)]

        def read(part: range) -> None:
            out = buffers.pop()
            for batch in batches[part.start : part.stop]:
                slide.read_squares(batch, side_px, side_px, out[: len(batch)])
            buffers.append(out)

        contestants: dict[str, Callable[[], object]] = {
            "direct": lambda: for_parts(read, len(batches), threads),
            "raw_decode": lambda: decode_all(slide, threads),
            "cached_decode": lambda: decode_all_in_cache(slide, threads),
            "openslide": lambda: openslide_one_by_one(slide.path, sample, side_px, threads),
        }
        contestants["direct"]()  # warms the page cache, for all alike
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
        "threads": threads,
        "repeats": repeats,
        "tiles_openslide": len(sample),
        "tiles_per_second": len(grid) / seconds["direct"],
        **{f"seconds_{name}": value for name, value in seconds.items()},
        **{f"ratio_{name}": median(turn[name] / turn["direct"] for turn in turns) for name in rivals},
    }


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _batches(grid: TileGrid, file_tile_px: Size) -> list[NDArray[np.int64]]:
    """Corners of rectangles of tiles, which end where tiles of the file end if they can.

    Then no tile of the file is decoded for two batches.
    """
    rows = _rounded(BATCH_ROWS, lcm(file_tile_px.height, grid.side_px0) // grid.side_px0)
    columns = _rounded(BATCH_COLUMNS, lcm(file_tile_px.width, grid.side_px0) // grid.side_px0)
    corners_px0 = grid.corners_px0().reshape(grid.rows, grid.columns, 2)
    return [
        corners_px0[top : top + rows, left : left + columns].reshape(-1, 2)
        for top in range(0, grid.rows, rows)
        for left in range(0, grid.columns, columns)
    ]


def _rounded(count: int, step: int) -> int:
    """A whole number of steps, unless steps are too coarse for batches that stay in a cache."""
    return count if step > COARSEST_STEP else max(1, round(count / step)) * step


def _spread(batches: list[NDArray[np.int64]], at_least: int) -> list[NDArray[np.int64]]:
    """Whole batches with that many tiles or more in all, evenly spread."""
    for wanted in range(1, len(batches)):
        chosen = [batches[int((i + 0.5) * len(batches) / wanted)] for i in range(wanted)]
        if sum(map(len, chosen)) >= at_least:
            return chosen
    return batches
