"""What reading is measured against: the least that must be done, and what people usually do."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import openslide
import simplejpeg
from numpy.typing import NDArray

from aspirate.slides.direct import DirectSlide
from aspirate.slides.threads import for_parts


def decode_all(slide: DirectSlide, threads: int) -> None:
    """Every tile of level 0 from the file through the JPEG decoder, each to an array of its own."""
    head = slide.levels[0].head

    def decode(part: range) -> None:
        for tile in part:
            simplejpeg.decode_jpeg(head + slide.stream(0, tile)[2:])

    for_parts(decode, len(slide.levels[0].offsets), threads)


def decode_all_in_cache(slide: DirectSlide, threads: int) -> None:
    """The same into one array, overwritten by each tile: pixels that nobody could use."""
    head = slide.levels[0].head

    def decode(part: range) -> None:
        with slide.scratch(0) as pixels:
            for tile in part:
                simplejpeg.decode_jpeg(head + slide.stream(0, tile)[2:], buffer=pixels[0])

    for_parts(decode, len(slide.levels[0].offsets), threads)


def openslide_tiles(
    path: Path, xy_px0: NDArray[np.int64], side_px0: int, side_px: int, batch: int
) -> Iterator[NDArray[np.uint8]]:
    """Tiles as most programs read them: one `read_region` each, scaled where need be, a batch at a time."""
    with openslide.OpenSlide(path) as handle:
        for start in range(0, len(xy_px0), batch):
            tiles = []
            for corner in xy_px0[start : start + batch].tolist():
                tile = handle.read_region(corner, 0, (side_px0, side_px0)).convert("RGB")
                tiles.append(np.asarray(tile if side_px == side_px0 else tile.resize((side_px, side_px))))
            yield np.stack(tiles)


def openslide_one_by_one(path: Path, xy_px0: NDArray[np.int64], side_px0: int, threads: int) -> None:
    """One `read_region` a tile, in the order given, from a fresh handle."""
    with openslide.OpenSlide(path) as handle:

        def read(part: range) -> None:
            for corner in xy_px0[part.start : part.stop].tolist():
                np.asarray(handle.read_region(corner, 0, (side_px0, side_px0)).convert("RGB"))

        for_parts(read, len(xy_px0), threads)
