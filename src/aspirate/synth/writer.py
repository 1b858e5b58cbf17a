"""Pyramidal TIFF and SVS, written strip by strip: level 0 goes straight to the file, upper levels wait encoded.

JPEG tiles are encoded here and handed over ready-made, so memory holds one strip and the small levels only.
"""

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import simplejpeg
from numpy.typing import NDArray

from aspirate.core.geometry import Box, Size, magnification, px0_of_um
from aspirate.core.progress import Advance
from aspirate.synth.tiff import Page, TiffWriter, read_pages

TILE_PX = 256
STRIP_PX = 512
SMALLEST_LEVEL_PX = 1024
BIGTIFF_PX = 2**31
"""Beyond so many pixels a file might exceed the 4 GiB of classic TIFF."""
THUMBNAIL_PX = 768

Rgb = NDArray[np.uint8]
Region = Callable[[Box], Rgb]


@dataclass(frozen=True, slots=True)
class Encoding:
    mpp: float
    svs: bool
    jpeg_quality: int
    chroma: str
    """`420` or `444`."""

    @property
    def factor(self) -> int:
        """Between neighbouring levels; Aperio scanners write every fourth."""
        return 4 if self.svs else 2


@dataclass(slots=True)
class _Level:
    """An upper level: rows come in, encoded tiles are kept."""

    size: Size
    tiles: list[bytes] = field(default_factory=list)
    rows: Rgb | None = None


def level_sizes(size: Size, factor: int) -> list[Size]:
    """Level 0 and as many further levels as keep the longer side at 1024 pixels or more."""
    sizes = [size]
    while max(sizes[-1].width, sizes[-1].height) // factor >= SMALLEST_LEVEL_PX:
        last = sizes[-1]
        sizes.append(Size(max(1, last.width // factor), max(1, last.height // factor)))
    return sizes


def write_slide(path: Path, size: Size, region: Region, encoding: Encoding, advance: Advance) -> None:
    """Writes a whole slide; `advance` hears of every level-0 pixel."""
    levels = [_Level(s) for s in level_sizes(size, encoding.factor)]
    with path.open("wb") as stream:
        file = TiffWriter(stream, big=size.width * size.height > BIGTIFF_PX)
        for number, level in enumerate(levels):
            page = Page(
                level.size.width,
                level.size.height,
                TILE_PX,
                subsampling=2 if encoding.chroma == "420" else 1,
                pixels_per_cm=px0_of_um(1e4, encoding.mpp * encoding.factor**number),
                reduced=number > 0 and not encoding.svs,
                description=_aperio(levels, number, encoding) if encoding.svs else None,
            )
            file.write(page, level.tiles if number else _stream(levels, region, encoding, advance))
            if encoding.svs and number == 0:
                _write_thumbnail(file, levels, encoding)


def is_whole(path: Path, size: Size, factor: int) -> bool:
    """Whether a finished slide is there: the right levels, and no tile beyond the file's end."""
    try:
        with path.open("rb") as file:
            pages = read_pages(file)
        sizes = [Size(page.width, page.height) for page in pages if page.tiled]
        return sizes == level_sizes(size, factor) and max(page.end for page in pages) <= path.stat().st_size
    except (OSError, KeyError, ValueError, struct.error):
        return False


def _stream(levels: list[_Level], region: Region, encoding: Encoding, advance: Advance) -> Iterator[bytes]:
    """Tiles of level 0 in order; on the way, every strip is handed on to the upper levels."""
    size = levels[0].size
    width = -(-size.width // TILE_PX) * TILE_PX
    for top in range(0, size.height, STRIP_PX):
        rows = min(STRIP_PX, -(-(size.height - top) // TILE_PX) * TILE_PX)
        strip = region(Box(0, top, width, rows))
        yield from _encoded(strip, encoding)
        _hand_on(levels, 1, strip, encoding)
        advance(size.width * min(rows, size.height - top))
    for number in range(1, len(levels)):
        _finish(levels, number, encoding)


def _hand_on(levels: list[_Level], number: int, strip: Rgb, encoding: Encoding) -> None:
    """A strip reduced to the next level, whose tiles are encoded as soon as rows for them are there."""
    if number == len(levels):
        return
    level = levels[number]
    for _ in range(encoding.factor // 2):
        strip = halved(strip)
    level.rows = strip if level.rows is None else np.concatenate([level.rows, strip])
    if (ready := len(level.rows) // STRIP_PX * STRIP_PX) > 0:
        _take(levels, number, ready, encoding)


def _finish(levels: list[_Level], number: int, encoding: Encoding) -> None:
    """What is left of a level when no more rows come, filled up to whole tiles."""
    level = levels[number]
    if level.rows is not None and len(level.rows):
        wanted = -(-level.size.height // TILE_PX) * TILE_PX - len(level.tiles) // _columns(level) * TILE_PX
        level.rows = np.pad(level.rows, ((0, max(0, wanted - len(level.rows))), (0, 0), (0, 0)), mode="edge")
        _take(levels, number, wanted, encoding)


def _take(levels: list[_Level], number: int, count: int, encoding: Encoding) -> None:
    level = levels[number]
    assert level.rows is not None
    rows, level.rows = level.rows[:count], level.rows[count:]
    wanted = _columns(level) * TILE_PX
    rows = np.pad(rows, ((0, 0), (0, max(0, wanted - rows.shape[1])), (0, 0)), mode="edge")[:, :wanted]
    level.tiles.extend(_encoded(rows, encoding))
    _hand_on(levels, number + 1, rows, encoding)


def _columns(level: _Level) -> int:
    return -(-level.size.width // TILE_PX)


def _encoded(rows: Rgb, encoding: Encoding) -> Iterator[bytes]:
    for y in range(0, rows.shape[0], TILE_PX):
        for x in range(0, rows.shape[1], TILE_PX):
            tile = np.ascontiguousarray(rows[y : y + TILE_PX, x : x + TILE_PX])
            yield simplejpeg.encode_jpeg(tile, encoding.jpeg_quality, "RGB", encoding.chroma)


def halved(image: Rgb) -> Rgb:
    """Means of 2 × 2 pixels, rounded; even sides."""
    pairs = image[0::2].astype(np.uint16)
    pairs += image[1::2]
    quads = pairs.reshape(pairs.shape[0], pairs.shape[1] // 2, 2, 3)
    total = quads[:, :, 0] + quads[:, :, 1]
    total += 2
    total >>= 2
    return total.astype(np.uint8)


def _aperio(levels: list[_Level], number: int, encoding: Encoding) -> str:
    """The description by which Aperio's files are known."""
    full, size = levels[0].size, levels[number].size
    how = f"JPEG/RGB Q={encoding.jpeg_quality}"
    head = f"Aperio Image Library v12.0.0\r\n{full.width}x{full.height} [0,0 {full.width}x{full.height}] "
    if number == 0:
        return f"{head}(256x256) {how}|AppMag = {magnification(encoding.mpp):g}|MPP = {encoding.mpp:g}"
    return f"{head}(256x256) -> {size.width}x{size.height} {how}"


def _write_thumbnail(file: TiffWriter, levels: list[_Level], encoding: Encoding) -> None:
    """Aperio's second page: the whole slide as one small picture; without upper levels there is none."""
    if len(levels) == 1:
        return
    smallest = levels[-1]
    columns = _columns(smallest)
    tiles = [simplejpeg.decode_jpeg(tile) for tile in smallest.tiles]
    rows = [np.concatenate(tiles[i : i + columns], axis=1) for i in range(0, len(tiles), columns)]
    picture = np.concatenate(rows)[: smallest.size.height, : smallest.size.width]
    while max(picture.shape) > THUMBNAIL_PX:
        picture = halved(picture[: picture.shape[0] // 2 * 2, : picture.shape[1] // 2 * 2])
    height, width = picture.shape[:2]
    data = simplejpeg.encode_jpeg(np.ascontiguousarray(picture), encoding.jpeg_quality, "RGB", "420")
    full = levels[0].size
    description = f"Aperio Image Library v12.0.0\r\n{full.width}x{full.height} -> {width}x{height} - |"
    file.write(Page(width, height, None, subsampling=2, description=description), [data])
