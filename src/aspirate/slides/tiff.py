"""Where a TIFF keeps the JPEG tiles of its levels: header only, no pixels."""

import logging
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path

import numpy as np
import tifffile
from numpy.typing import NDArray
from tifffile import TiffFrame, TiffPage

from aspirate.core.errors import UnreadableSlide
from aspirate.core.geometry import Box, Size
from aspirate.slides.jpeg import stream_head

LARGEST_TILE_PX = 4096
"""Wider tiles of a file are not worth decoding for small squares; OpenSlide serves such files."""
MOST_PAGES = 1000
"""Levels, planes and labels of the richest scanner are some tens."""
MOST_SHARED = 10
"""Blank tiles may be the same bytes of a file; where nearly all are, a small file claims a slide without end."""

_FAULTS = (tifffile.TiffFileError, LookupError, ValueError, TypeError, ArithmeticError, OSError, struct.error)
"""What parsing a damaged header can raise."""

# tifffile also logs it, on the terminal unless someone listens; ours is the message a person needs
logging.getLogger("tifffile").addHandler(logging.NullHandler())


@dataclass(frozen=True, slots=True, eq=False)
class TiffLevel:
    """One picture of the pyramid; its tiles row by row."""

    size_px: Size
    tile_px: Size
    offsets: NDArray[np.int64]
    lengths: NDArray[np.int64]
    head: bytes
    """What every tile's JPEG stream has to begin with."""

    @property
    def columns(self) -> int:
        return ceil(self.size_px.width / self.tile_px.width)

    @property
    def rows(self) -> int:
        return ceil(self.size_px.height / self.tile_px.height)

    def tile_box_px(self, tile: int) -> Box:
        """The part of a tile that lies on the slide."""
        row, column = divmod(tile, self.columns)
        x, y = column * self.tile_px.width, row * self.tile_px.height
        width, height = self.size_px.width - x, self.size_px.height - y
        return Box(x, y, min(self.tile_px.width, width), min(self.tile_px.height, height))


@dataclass(frozen=True, slots=True, eq=False)
class TiffPyramid:
    """The levels that can be decoded directly, finest first; none where there is an obstacle."""

    levels: tuple[TiffLevel, ...]
    obstacle: str | None
    hidden_levels: int
    """Levels in SubIFDs, which OpenSlide does not see."""


def check_claims(path: Path, name: str) -> None:
    """Refuse a TIFF whose tiles are said to be longer than the file: OpenSlide would make room, or end the process."""
    try:
        with tifffile.TiffFile(path) as file:
            pages = [page for page in _pages(file, name) if isinstance(page, TiffPage)]
            longest = max((max(page.databytecounts, default=0) for page in pages), default=0)
            total = sum(sum(page.databytecounts) for page in pages)
    except _FAULTS:
        return  # no TIFF, or a damaged one: OpenSlide says which
    file_bytes = path.stat().st_size
    if longest > file_bytes or total > MOST_SHARED * file_bytes:
        what = f"a tile of {longest}" if longest > file_bytes else f"tiles of {total}"
        raise UnreadableSlide(
            f"{name}: claims {what} bytes, but the file has {file_bytes}: it is damaged or cut short; copy it again"
        )


def _pages(file: tifffile.TiffFile, name: str) -> list[TiffPage | TiffFrame]:
    """The pages of a chain that ends; one that leads back to itself would be followed for ever."""
    found: dict[int, TiffPage | TiffFrame] = {}
    for page in file.pages:
        if page.offset in found or len(found) == MOST_PAGES:
            what = "leads back to itself" if page.offset in found else f"has more than {MOST_PAGES} pages"
            raise UnreadableSlide(f"{name}: its chain of pages {what}; the file is damaged: copy it again")
        found[page.offset] = page
    return list(found.values())


def read_pyramid(path: Path, name: str, sizes: Sequence[Size]) -> TiffPyramid:
    """The pages that OpenSlide calls levels, known by their sizes, and the SubIFDs of the first."""
    file_bytes = path.stat().st_size
    try:
        with tifffile.TiffFile(path) as file:
            tiled = _tiled(_pages(file, name))
            pages = [_page_of(size, tiled) for size in sizes]
            hidden = [page for page in _tiled(_subifds(pages[0])) if page.imagewidth < sizes[0].width]
            every = sorted(pages + hidden, key=lambda page: -page.imagewidth)
            obstacle = next(filter(None, map(_obstacle, every)), None)
            levels = () if obstacle else tuple(map(_level, every))
        for number, level in enumerate(levels):
            _check(level, number, file_bytes, name)
    except _FAULTS as exc:
        raise UnreadableSlide(f"{name}: its TIFF header is damaged ({exc}); copy the file again") from exc
    return TiffPyramid(levels, obstacle, len(hidden))


def _subifds(page: TiffPage) -> list[TiffPage | TiffFrame]:
    found = list(page.pages or ())
    promised = len(page.subifds or ())
    if len(found) < promised:
        raise ValueError(f"{len(found)} of {promised} SubIFDs")
    return found


def _tiled(pages: Iterable[TiffPage | TiffFrame]) -> list[TiffPage]:
    return [page for page in pages if isinstance(page, TiffPage) and page.is_tiled]


def _page_of(size: Size, pages: Iterable[TiffPage]) -> TiffPage:
    for page in pages:
        if (page.imagewidth, page.imagelength) == (size.width, size.height):
            return page
    raise LookupError(f"no tiled picture of {size.width} × {size.height} pixels")


def _obstacle(page: TiffPage) -> str | None:
    """What keeps a page from being decoded directly."""
    if page.compression != tifffile.COMPRESSION.JPEG:
        return f"compression {page.compression}"
    if page.photometric not in (tifffile.PHOTOMETRIC.RGB, tifffile.PHOTOMETRIC.YCBCR):
        return f"photometric interpretation {page.photometric}"
    if (page.samplesperpixel, page.bitspersample, page.planarconfig) != (3, 8, 1):
        return f"{page.samplesperpixel} samples of {page.bitspersample} bits"
    if max(page.tilewidth, page.tilelength) > LARGEST_TILE_PX:
        return f"tiles of {page.tilewidth} × {page.tilelength} pixels"
    if not all(page.databytecounts):
        return "tiles that were left out"
    return None


def _level(page: TiffPage) -> TiffLevel:
    if min(page.tilewidth, page.tilelength) < 1:
        raise ValueError(f"tiles of {page.tilewidth} × {page.tilelength} pixels")
    return TiffLevel(
        size_px=Size(page.imagewidth, page.imagelength),
        tile_px=Size(page.tilewidth, page.tilelength),
        offsets=np.array(page.dataoffsets, np.int64),
        lengths=np.array(page.databytecounts, np.int64),
        head=stream_head(page.jpegtables, ycbcr=page.photometric == tifffile.PHOTOMETRIC.YCBCR),
    )


def _check(level: TiffLevel, number: int, file_bytes: int, name: str) -> None:
    """Refuse a file that is cut short before anyone relies on its pixels."""
    expected = level.columns * level.rows
    if not len(level.offsets) == len(level.lengths) == expected:
        raise UnreadableSlide(
            f"{name}: level {number} lists {len(level.offsets)} tiles where its size needs {expected}; "
            "copy the file again"
        )
    beyond = int(np.count_nonzero(level.lengths > file_bytes - level.offsets))
    if beyond:
        raise UnreadableSlide(
            f"{name}: the file is cut short: {beyond} of the {expected} tiles of level {number} "
            f"lie past its end at {file_bytes} bytes; copy it again"
        )
