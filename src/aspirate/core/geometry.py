"""Micrometres, level-0 pixels and tiles: the only place where a resolution is multiplied.

Two planes: `_px0` are pixels of level 0 of the slide, `_px` are pixels of what is read from it.
"""

from dataclasses import dataclass
from math import ceil, isfinite

import numpy as np
from numpy.typing import NDArray

from aspirate.core.errors import ImplausibleResolution, MissingResolution

MPP_RANGE = (0.05, 10.0)
DEFAULT_MPP = 0.25
DEFAULT_SIDE_PX = 128


@dataclass(frozen=True, slots=True)
class Size:
    width: int
    height: int


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle, its corner at the top left."""

    x: int
    y: int
    width: int
    height: int


def checked_mpp(mpp: float | None, slide: str) -> float:
    """The resolution itself, or an error that says where to enter it."""
    if mpp is None:
        raise MissingResolution(
            f"{slide}: the file does not say its micrometres per pixel; "
            "enter them in the mpp column of the cohort, or give --mpp"
        )
    low, high = MPP_RANGE
    if not (isfinite(mpp) and low <= mpp <= high):
        raise ImplausibleResolution(
            f"{slide}: {mpp:g} micrometres per pixel is outside {low:g}–{high:g}; "
            "enter the true value in the mpp column of the cohort, or give --mpp"
        )
    return mpp


def magnification(mpp: float) -> float:
    """Objective power by the usual convention: 10 µm/px is 1 ×, so 0.25 µm/px is 40 ×."""
    return 10.0 / mpp


def px0_of_um(length_um: float, slide_mpp: float) -> float:
    return length_um / slide_mpp


def side_in_px0(side_px: int, mpp: float, slide_mpp: float) -> int:
    """Level-0 pixels covered by a tile of `side_px` pixels of `mpp` each, at least 1.

    Whole pixels, so that tiles meet without gap or overlap; the resolution actually read is then
    `TileGrid.mpp`, at most half a pixel in `side_px0` away from the one asked for.
    """
    return max(1, round(side_px * mpp / slide_mpp))


@dataclass(frozen=True, slots=True)
class TileGrid:
    """Square tiles that cover a slide from its top left corner, row by row.

    Every pixel of the slide lies in exactly one tile; tiles at the right and bottom edge may reach
    beyond the slide, where they are white.
    """

    size_px0: Size
    side_px0: int
    side_px: int
    slide_mpp: float

    @classmethod
    def cover(
        cls, size_px0: Size, slide_mpp: float, side_px: int = DEFAULT_SIDE_PX, mpp: float = DEFAULT_MPP
    ) -> "TileGrid":
        return cls(size_px0, side_in_px0(side_px, mpp, slide_mpp), side_px, slide_mpp)

    @property
    def mpp(self) -> float:
        """Micrometres per pixel of the tiles as read."""
        return self.slide_mpp * self.side_px0 / self.side_px

    @property
    def columns(self) -> int:
        return ceil(self.size_px0.width / self.side_px0)

    @property
    def rows(self) -> int:
        return ceil(self.size_px0.height / self.side_px0)

    def __len__(self) -> int:
        return self.columns * self.rows

    def corners_px0(self) -> NDArray[np.int64]:
        """Top left corners, (N, 2) as x, y."""
        rows, columns = np.divmod(np.arange(len(self), dtype=np.int64), self.columns)
        return np.stack([columns, rows], axis=1) * self.side_px0

    def index_at(self, x_px0: float, y_px0: float) -> int | None:
        """The tile that holds a point, None outside the slide."""
        if not (0 <= x_px0 < self.size_px0.width and 0 <= y_px0 < self.size_px0.height):
            return None
        return int(y_px0 // self.side_px0) * self.columns + int(x_px0 // self.side_px0)
