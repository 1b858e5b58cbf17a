"""Deep zoom: a slide as square JPEG tiles at every halving of its size.

A tile that the file holds as it is wanted is sent as it is, not decoded at all; any other costs one read of the
nearest finer level. Where the file has no level near, a tile is made of the four beneath it, so that memory stays
bounded however large the slide.
"""

from dataclasses import dataclass
from io import BytesIO
from math import ceil

import numpy as np
from PIL import Image

from aspirate.core.errors import AspirateError, UnreadableSlide
from aspirate.core.geometry import Size
from aspirate.slides.direct import DirectSlide
from aspirate.slides.jpeg import whole_stream
from aspirate.slides.sampling import best_level
from aspirate.slides.slide import RgbArray, Slide
from aspirate.viewer.cache import ByteCache

TILE_PX = 256
TILE_RANGE_PX = (128, 1024)
"""Tiles of the file that suit a browser; others are cut anew."""
MOST_SHRINK = 4.0
"""From a finer level of the file in one go; beyond, tiles are made of tiles."""
QUALITY = 85


class NoSuchTile(AspirateError):
    """A level, column or row that the slide does not have."""


@dataclass(frozen=True, slots=True)
class Shape:
    """All that a browser must know to ask for tiles."""

    size_px0: Size
    tile_px: int
    max_level: int
    """At which a pixel is a level-0 pixel; each level below is half as wide."""

    def downsample(self, level: int) -> int:
        return 1 << (self.max_level - level)

    def level_px(self, level: int) -> Size:
        scale = self.downsample(level)
        return Size(ceil(self.size_px0.width / scale), ceil(self.size_px0.height / scale))

    def tile_size(self, level: int, column: int, row: int) -> Size:
        """Smaller at the right and bottom edge."""
        if not 0 <= level <= self.max_level:
            raise NoSuchTile(f"level {level} of a slide that has 0 to {self.max_level}")
        size = self.level_px(level)
        width, height = size.width - column * self.tile_px, size.height - row * self.tile_px
        if min(column, row) < 0 or width <= 0 or height <= 0:
            raise NoSuchTile(f"column {column}, row {row} lie outside level {level}")
        return Size(min(width, self.tile_px), min(height, self.tile_px))


@dataclass(frozen=True, slots=True)
class _Held:
    """A level of the file, and how many of its tiles lie on the slide whole."""

    number: int
    columns: int
    rows: int


class Pyramid:
    def __init__(self, slide: Slide, cache: ByteCache, key: str) -> None:
        self.slide, self._cache, self._key = slide, cache, key
        longest = max(slide.size_px0.width, slide.size_px0.height)
        self.shape = Shape(slide.size_px0, _tile_px(slide), max(longest - 1, 0).bit_length())
        self._as_it_is = _levels_as_they_are(slide, self.shape)

    def tile(self, level: int, column: int, row: int) -> bytes:
        """One JPEG; NoSuchTile outside, UnreadableSlide where the file is damaged."""
        size = self.shape.tile_size(level, column, row)
        if self.holds(level, column, row) and isinstance(self.slide, DirectSlide):
            number = self._as_it_is[level].number
            return file_tile(self.slide, number, row * self.slide.levels[number].columns + column)
        key = f"{self._key}/{level}/{column}/{row}"
        kept = self._cache.get(key)
        if kept is None:
            kept = jpeg(self._pixels(level, column, row)[: size.height, : size.width])
            self._cache.put(key, kept)
        return kept

    def holds(self, level: int, column: int, row: int) -> bool:
        """Whether the file has this very tile, and all of it lies on the slide."""
        held = self._as_it_is.get(level)
        return held is not None and 0 <= column < held.columns and 0 <= row < held.rows

    def _pixels(self, level: int, column: int, row: int) -> RgbArray:
        side_px, downsample = self.shape.tile_px, self.shape.downsample(level)
        near = self.slide.level_downsamples[best_level(self.slide.level_downsamples, downsample)]
        if downsample / near <= MOST_SHRINK:
            side_px0 = side_px * downsample
            square: RgbArray = self.slide.read_squares([(column * side_px0, row * side_px0)], side_px0, side_px)[0]
            return square
        four = np.full((2 * side_px, 2 * side_px, 3), 255, np.uint8)
        for y in (0, 1):
            for x in (0, 1):
                try:
                    stream = self.tile(level + 1, 2 * column + x, 2 * row + y)
                except NoSuchTile:
                    continue
                part = np.asarray(Image.open(BytesIO(stream)).convert("RGB"))
                four[y * side_px :, x * side_px :][: part.shape[0], : part.shape[1]] = part
        return np.asarray(Image.fromarray(four).resize((side_px, side_px), Image.Resampling.BOX))


def _tile_px(slide: Slide) -> int:
    """The file's own, where it can be sent as it is."""
    if isinstance(slide, DirectSlide):
        tile_px = slide.levels[0].tile_px
        low, high = TILE_RANGE_PX
        if tile_px.width == tile_px.height and low <= tile_px.width <= high:
            return tile_px.width
    return TILE_PX


def _levels_as_they_are(slide: Slide, shape: Shape) -> dict[int, _Held]:
    """Deep-zoom levels that the file holds in the same tiles, within a pixel over the whole width."""
    found: dict[int, _Held] = {}
    for level in range(shape.max_level + 1):
        size = shape.level_px(level)
        for number, source in enumerate(slide.levels if isinstance(slide, DirectSlide) else ()):
            width, height = min(size.width, source.size_px.width), min(size.height, source.size_px.height)
            close = width >= size.width - 1 and height >= size.height - 1 and source.size_px.width - width <= 1
            if close and source.tile_px == Size(shape.tile_px, shape.tile_px):
                found[level] = _Held(number, width // shape.tile_px, height // shape.tile_px)
    return found


def file_tile(slide: DirectSlide, level: int, tile: int) -> bytes:
    """A tile as the file holds it, as a picture of its own."""
    try:
        return whole_stream(slide.stream(level, tile), slide.levels[level].head)
    except (ValueError, OSError) as error:
        raise UnreadableSlide(f"{slide.name}: level {level} is damaged ({error}); copy the file again") from error


def jpeg(pixels: RgbArray, quality: int = QUALITY) -> bytes:
    buffer = BytesIO()
    Image.fromarray(pixels).save(buffer, "JPEG", quality=quality)
    return buffer.getvalue()
