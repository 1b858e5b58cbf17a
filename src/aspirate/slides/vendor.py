"""The general reader, by OpenSlide; also the one who says what a file is and what its vendor wrote in it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import openslide
from numpy.typing import NDArray

from aspirate.core.errors import UnreadableSlide
from aspirate.core.geometry import Box, Size
from aspirate.core.progress import Advance, silent
from aspirate.slides.sampling import WHITE, SampledSlide
from aspirate.slides.slide import DamagedTile, RgbArray
from aspirate.slides.threads import for_parts

BLOCK_PX = 1024
"""What `damaged` reads at a time."""
LARGEST_LEVEL_PX = 2**40
LARGEST_TILE_PX = 2**25
"""What a damaged header claims beyond these, OpenSlide would try to make room for, and end the process."""
LEAST_CACHE_BYTES = 2**25
TILES_KEPT = 3
"""Decoded, at least: a tile too large to be kept would be decoded anew for every small part of it."""


@dataclass(frozen=True, slots=True)
class Description:
    """What OpenSlide says of a file without reading its pixels."""

    vendor: str
    level_sizes: tuple[Size, ...]
    properties: Mapping[str, str]


def describe(path: Path, name: str) -> Description | None:
    """None where the file is of no kind that OpenSlide knows."""
    try:
        if openslide.OpenSlide.detect_format(path) is None:
            return None
        with openslide.OpenSlide(path) as handle:
            properties = dict(handle.properties)
            sizes = tuple(Size(width, height) for width, height in handle.level_dimensions)
    except openslide.OpenSlideError as exc:
        raise UnreadableSlide(
            f"{name}: damaged, incomplete or of a kind that is not supported ({exc}); copy the file again, "
            "or convert it to a JPEG-tiled TIFF"
        ) from exc
    _check(name, sizes, properties)
    return Description(properties["openslide.vendor"], sizes, properties)


def _tile_size(properties: Mapping[str, str], level: int) -> Size:
    """1 × 1 where OpenSlide does not say."""
    width, height = (int(properties.get(f"openslide.level[{level}].tile-{side}", 1)) for side in ("width", "height"))
    return Size(width, height)


def _check(name: str, sizes: Sequence[Size], properties: Mapping[str, str]) -> None:
    for level, size in enumerate(sizes):
        tile = _tile_size(properties, level)
        if size.width * size.height > LARGEST_LEVEL_PX or tile.width * tile.height > LARGEST_TILE_PX:
            raise UnreadableSlide(
                f"{name}: claims {size.width} × {size.height} pixels in tiles of {tile.width} × {tile.height}; "
                "the file is damaged: copy it again, or convert it to smaller tiles"
            )


class VendorSlide(SampledSlide):
    """Reads through one OpenSlide handle, which threads may share.

    OpenSlide addresses coarser levels by level-0 pixels, in whole numbers; where a level's downsample is
    not whole, its patches are shifted by up to half a level-0 pixel.
    """

    reader = "openslide"

    def __init__(self, path: Path, name: str, what: Description, mpp: float | None) -> None:
        super().__init__(path, name, what.vendor, what.level_sizes, mpp, what.properties)
        tiles = [_tile_size(what.properties, level) for level in range(len(what.level_sizes))]
        self._largest_tile = max(tiles, key=lambda tile: tile.width * tile.height)
        self._handle = self._opened()

    def _opened(self) -> "openslide.OpenSlide":
        handle = openslide.OpenSlide(self.path)
        decoded_bytes = 4 * self._largest_tile.width * self._largest_tile.height
        handle.set_cache(openslide.OpenSlideCache(max(LEAST_CACHE_BYTES, TILES_KEPT * decoded_bytes)))
        return handle

    def close(self) -> None:
        self._handle.close()

    def _fill(self, level: int, xy_px: NDArray[np.int64], out: RgbArray) -> None:
        handle = self._handle
        height, width = out.shape[1:3]

        def fill(part: range) -> None:
            for i in part:
                x, y = xy_px[i].tolist()
                out[i] = _read(handle, level, Box(x, y, width, height))

        try:
            for_parts(fill, len(xy_px), self.threads)
        except openslide.OpenSlideError as exc:
            # A handle that failed once refuses everything; later readers may want sound parts.
            self._handle = self._opened()
            raise UnreadableSlide(
                f"{self.name}: level {level} is damaged ({exc}); copy the file again, or leave the slide out"
            ) from exc

    @property
    def verify_steps(self) -> int:
        return sum(len(_blocks(size)) for size in self.level_sizes)

    def damaged(self, advance: Advance = silent) -> list[DamagedTile]:
        found: list[DamagedTile] = []
        for level, size in enumerate(self.level_sizes):
            blocks = _blocks(size)

            def check(part: range, level: int = level, blocks: list[Box] = blocks) -> list[DamagedTile]:
                bad = []
                handle = self._opened()
                for i in part:
                    block = blocks[i]
                    try:
                        _read(handle, level, block)
                    except openslide.OpenSlideError as exc:
                        column, row = block.x // BLOCK_PX, block.y // BLOCK_PX
                        bad.append(DamagedTile(level, column, row, block, str(exc)))
                        handle.close()
                        handle = self._opened()
                handle.close()
                return bad

            for bad in for_parts(check, len(blocks), self.threads, advance):
                found += bad
        return found


def _blocks(size: Size) -> list[Box]:
    return [
        Box(x, y, min(BLOCK_PX, size.width - x), min(BLOCK_PX, size.height - y))
        for y in range(0, size.height, BLOCK_PX)
        for x in range(0, size.width, BLOCK_PX)
    ]


def _read(handle: "openslide.OpenSlide", level: int, box_px: Box) -> RgbArray:
    """A region on white, by its corner in pixels of the level."""
    downsample = handle.level_downsamples[level]
    corner_px0 = (round(box_px.x * downsample), round(box_px.y * downsample))
    rgba = np.asarray(handle.read_region(corner_px0, level, (box_px.width, box_px.height)))
    rgb: RgbArray = rgba[..., :3]
    alpha = rgba[..., 3:]
    if alpha.min() == WHITE:
        return rgb
    seen = alpha.astype(np.float32) / 255
    return np.rint(rgb * seen + WHITE * (1 - seen)).astype(np.uint8)
