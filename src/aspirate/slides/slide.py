"""What a slide is to the rest of the program, whatever file it comes from."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aspirate.core.geometry import DEFAULT_MPP, DEFAULT_SIDE_PX, Box, Size
from aspirate.core.progress import Advance, silent

RgbArray = NDArray[np.uint8]
"""(height, width, 3), or (N, height, width, 3)."""


@dataclass(frozen=True, slots=True)
class DamagedTile:
    """A part of the file that does not decode; the box is in pixels of its level."""

    level: int
    column: int
    row: int
    box_px: Box
    reason: str


class Slide(Protocol):
    """A picture at one or more resolutions.

    Methods may be called from several threads at once. A handle belongs to its process: after a fork,
    or in a worker that was spawned, open the slide again.
    """

    @property
    def name(self) -> str: ...
    @property
    def path(self) -> Path: ...
    @property
    def vendor(self) -> str:
        """Who wrote the file, as OpenSlide calls it; `image` for a plain one."""

    @property
    def reader(self) -> str:
        """`direct`, `openslide` or `image`."""

    @property
    def size_px0(self) -> Size: ...
    @property
    def level_sizes(self) -> tuple[Size, ...]: ...
    @property
    def level_downsamples(self) -> tuple[float, ...]: ...
    @property
    def mpp(self) -> float | None:
        """Micrometres per level-0 pixel, as given or as in the file; None where unknown."""

    @property
    def properties(self) -> Mapping[str, str]: ...
    @property
    def bounds_px0(self) -> tuple[int, int]:
        """Level-0 pixel that viewers such as QuPath call (0, 0)."""

    def read_region(self, box_px: Box, level: int = 0) -> RgbArray:
        """A rectangle of one level, corner and size both in pixels *of that level*; white outside."""

    def read_tiles(
        self,
        xy_px0: ArrayLike,
        side_px: int = DEFAULT_SIDE_PX,
        mpp: float = DEFAULT_MPP,
        out: RgbArray | None = None,
    ) -> RgbArray:
        """Square tiles by their level-0 corners (N, 2), `side_px` wide at `mpp`, in the order given."""

    def read_squares(self, xy_px0: ArrayLike, side_px0: int, side_px: int, out: RgbArray | None = None) -> RgbArray:
        """As `read_tiles`, each square `side_px0` level-0 pixels wide: needs no resolution."""

    def thumbnail(self, max_px: int) -> RgbArray:
        """The whole slide, its longer side at most `max_px`."""

    def damaged(self, advance: Advance = silent) -> list[DamagedTile]:
        """Decode all levels once and list what fails; `advance` counts parts of `verify_steps`."""

    @property
    def verify_steps(self) -> int:
        """How many parts `damaged` goes through."""

    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *exc: object) -> None: ...
