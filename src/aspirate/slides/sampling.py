"""Squares and thumbnails out of the levels of a slide: what all readers share.

A square of `side_px0` level-0 pixels, delivered `side_px` wide, comes from the coarsest level that is
still at least as fine. Where that level has the wanted resolution the square is cut out, its corner at
the nearest whole pixel; else it is resampled with an antialiasing filter, from a patch with a margin as
wide as the filter, so that neighbouring tiles fit as if one large picture had been resampled.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from math import ceil
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from PIL import Image

from aspirate.core.errors import UnreadableSlide
from aspirate.core.geometry import DEFAULT_MPP, DEFAULT_SIDE_PX, Box, Size, checked_mpp, side_in_px0
from aspirate.core.progress import Advance, silent
from aspirate.slides.slide import DamagedTile, RgbArray
from aspirate.slides.threads import available_threads, for_parts

WHITE = 255
FILTER = Image.Resampling.BICUBIC
FILTER_REACH = 2.0
"""In pixels of the result: the half-width of the filter."""
SAME_RESOLUTION = 1.005
"""Pyramids made by halving odd sizes have downsamples such as 4.0003; they count as 4."""
SCRATCH_BYTES = 192 * 2**20
"""What patches that wait for resampling may take; more of them are read in several goes."""
THUMBNAIL_BLOCK_PX = 4096


def best_level(downsamples: Sequence[float], wanted: float) -> int:
    """The coarsest level at least as fine as `wanted`, the finest where there is none."""
    fine_enough = [level for level, value in enumerate(downsamples) if value <= wanted * SAME_RESOLUTION]
    return max(fine_enough, key=lambda level: downsamples[level], default=0)


def openslide_downsamples(sizes: Sequence[Size]) -> tuple[float, ...]:
    """By OpenSlide's convention: the mean of the ratios of widths and of heights to level 0."""
    first = sizes[0]
    return tuple((first.width / size.width + first.height / size.height) / 2 for size in sizes)


def check_levels(sizes: Sequence[Size], name: str) -> None:
    """Refuse coarser levels that cannot be the same picture; scanners pad theirs, but not by half."""
    first = sizes[0]
    for level, size in enumerate(sizes):
        height = first.height * size.width / first.width
        if size.width > first.width or abs(size.height - height) > 2 + height / 2:
            raise UnreadableSlide(
                f"{name}: level {level} claims {size.width} × {size.height} pixels of a slide of {first.width} × "
                f"{first.height}; the file is damaged: copy it again"
            )


class SampledSlide(ABC):
    """A slide whose reader knows how to fill patches of one level and how to check its own file."""

    reader: str

    def __init__(
        self,
        path: Path,
        name: str,
        vendor: str,
        level_sizes: Sequence[Size],
        mpp: float | None,
        properties: Mapping[str, str],
    ) -> None:
        check_levels(level_sizes, name)
        self.path = path
        self.name = name
        self.vendor = vendor
        self.level_sizes = tuple(level_sizes)
        self.level_downsamples = openslide_downsamples(self.level_sizes)
        self.mpp = mpp
        self.properties = properties
        self.threads = available_threads()

    @property
    def size_px0(self) -> Size:
        return self.level_sizes[0]

    @property
    def bounds_px0(self) -> tuple[int, int]:
        x, y = (int(self.properties.get(f"openslide.bounds-{axis}", 0)) for axis in "xy")
        return x, y

    @abstractmethod
    def _fill(self, level: int, xy_px: NDArray[np.int64], out: RgbArray) -> None:
        """Patches `out` (N, height, width, 3) of a level by their corners (N, 2), white outside."""

    @property
    @abstractmethod
    def verify_steps(self) -> int: ...

    @abstractmethod
    def damaged(self, advance: Advance = silent) -> list[DamagedTile]: ...

    @abstractmethod
    def close(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def read_region(self, box_px: Box, level: int = 0) -> RgbArray:
        if not 0 <= level < len(self.level_sizes):
            raise ValueError(f"{self.name}: level {level} of a slide that has {len(self.level_sizes)}")
        out = np.empty((1, box_px.height, box_px.width, 3), np.uint8)
        self._fill(level, np.array([[box_px.x, box_px.y]], np.int64), out)
        region: RgbArray = out[0]
        return region

    def read_tiles(
        self,
        xy_px0: ArrayLike,
        side_px: int = DEFAULT_SIDE_PX,
        mpp: float = DEFAULT_MPP,
        out: RgbArray | None = None,
    ) -> RgbArray:
        side_px0 = side_in_px0(side_px, mpp, checked_mpp(self.mpp, self.name))
        return self.read_squares(xy_px0, side_px0, side_px, out)

    def read_squares(self, xy_px0: ArrayLike, side_px0: int, side_px: int, out: RgbArray | None = None) -> RgbArray:
        corners_px0 = np.asarray(xy_px0, np.float64).reshape(-1, 2)
        shape = (len(corners_px0), side_px, side_px, 3)
        if out is None:
            out = np.empty(shape, np.uint8)
        elif out.shape != shape or out.dtype != np.uint8 or not out.flags.c_contiguous:
            raise ValueError(f"out is {out.shape} {out.dtype}, expected {shape} uint8 without gaps in memory")
        level = best_level(self.level_downsamples, side_px0 / side_px)
        xy_px = corners_px0 / self.level_downsamples[level]
        cut_px = side_px0 / self.level_downsamples[level]
        if abs(cut_px - side_px) < 0.5:
            self._fill(level, np.floor(xy_px + 0.5).astype(np.int64), out)
        else:
            self._resample(level, xy_px, cut_px, out)
        return out

    def _resample(self, level: int, xy_px: NDArray[np.float64], cut_px: float, out: RgbArray) -> None:
        """Squares of `cut_px` pixels of a level, brought to the size of `out`."""
        side_px = out.shape[1]
        margin_px = ceil(FILTER_REACH * max(cut_px / side_px, 1.0)) + 1
        corners_px = np.floor(xy_px).astype(np.int64) - margin_px
        offsets_px = xy_px - corners_px
        patch_px = ceil(cut_px) + 1 + 2 * margin_px
        at_once = max(1, SCRATCH_BYTES // (3 * patch_px**2))
        # Neighbours are read together, since they need the same tiles of the file.
        order = np.lexsort((corners_px[:, 0], corners_px[:, 1] // patch_px))
        scratch = np.empty((min(at_once, len(order)), patch_px, patch_px, 3), np.uint8)
        for start in range(0, len(order), at_once):
            chosen = order[start : start + at_once]
            patches = scratch[: len(chosen)]
            self._fill(level, corners_px[chosen], patches)

            def shrink(part: range, chosen: NDArray[np.int64] = chosen, patches: RgbArray = patches) -> None:
                for i in part:
                    x, y = offsets_px[chosen[i]].tolist()
                    image = Image.fromarray(patches[i])
                    box = (x, y, x + cut_px, y + cut_px)
                    out[chosen[i]] = np.asarray(image.resize((side_px, side_px), FILTER, box))

            for_parts(shrink, len(chosen), self.threads)

    def thumbnail(self, max_px: int) -> RgbArray:
        longer_px0 = max(self.size_px0.width, self.size_px0.height)
        shrink = max(longer_px0 / max_px, 1.0)
        width, height = (max(1, round(side / shrink)) for side in (self.size_px0.width, self.size_px0.height))
        level = best_level(self.level_downsamples, shrink)
        size = self.level_sizes[level]
        scale_x, scale_y = size.width / width, size.height / height
        # In blocks, so that a slide without a pyramid does not have to fit into memory.
        block_px = max(1, int(THUMBNAIL_BLOCK_PX / max(scale_x, scale_y)))
        out = np.empty((height, width, 3), np.uint8)
        for top in range(0, height, block_px):
            for left in range(0, width, block_px):
                bottom, right = min(top + block_px, height), min(left + block_px, width)
                x0, x1 = _reach(left, right, scale_x, size.width)
                y0, y1 = _reach(top, bottom, scale_y, size.height)
                patch = Image.fromarray(self.read_region(Box(x0, y0, x1 - x0, y1 - y0), level))
                box = (
                    left * scale_x - x0,
                    top * scale_y - y0,
                    min(right * scale_x - x0, x1 - x0),
                    min(bottom * scale_y - y0, y1 - y0),
                )
                block = patch.resize((right - left, bottom - top), FILTER, box)
                out[top:bottom, left:right] = np.asarray(block)
        return out


def _reach(first: int, end: int, scale: float, length_px: int) -> tuple[int, int]:
    """Pixels of a level that feed pixels `first` to `end` of a thumbnail, filter included."""
    margin_px = ceil(FILTER_REACH * max(scale, 1.0)) + 1
    return max(0, int(first * scale) - margin_px), min(length_px, ceil(end * scale) + margin_px)
