"""Deep-zoom tiles against the pixels that were written, for every variety of file."""

from io import BytesIO
from math import ceil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.slides.slide_files import VARIETIES, Pixels, Variety, picture, write_slide

from aspirate.core.errors import UnreadableSlide
from aspirate.slides.reader import open_slide
from aspirate.viewer.cache import ByteCache
from aspirate.viewer.pyramid import NoSuchTile, Pyramid

WIDTH, HEIGHT = 1300, 1100


def smooth(width: int, height: int) -> Pixels:
    """Features wide enough to be seen at a sixteenth of the size."""
    small = Image.fromarray(picture(width // 8, height // 8))
    return np.asarray(small.resize((width, height), Image.Resampling.BICUBIC))


def shrunk(pixels: Pixels, downsample: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Every pixel the mean of its square, with white beyond the edge."""
    height, width = (ceil(side / downsample) for side in pixels.shape[:2])
    padding = ((0, height * downsample - pixels.shape[0]), (0, width * downsample - pixels.shape[1]), (0, 0))
    white = np.pad(pixels, padding, constant_values=255).astype(np.float64)
    means: np.ndarray[tuple[int, ...], np.dtype[np.float64]]
    means = white.reshape(height, downsample, width, downsample, 3).mean((1, 3))
    return means


def decoded(data: bytes) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    with Image.open(BytesIO(data)) as image:
        assert image.format == "JPEG"
        return np.asarray(image.convert("RGB"), np.float64)


def pyramid_of(path: Path, cache_bytes: int = 2**24) -> Pyramid:
    return Pyramid(open_slide(path), ByteCache(cache_bytes), "key")


@pytest.mark.parametrize("variety", VARIETIES.values(), ids=VARIETIES)
def test_every_tile_of_every_level_shows_its_place(tmp_path: Path, variety: Variety) -> None:
    pixels = smooth(WIDTH, HEIGHT)
    pyramid = pyramid_of(write_slide(tmp_path / "s.tiff", pixels, variety))
    shape = pyramid.shape
    assert shape.max_level == 11  # 2¹¹ = 2048 is the first power of two not below 1300
    side = shape.tile_px
    assert side == (variety.tile[0] if variety.tile in ((240, 240), (1024, 1024)) else 256)
    for level in (11, 10, 9, 7, 0):
        expected = shrunk(pixels, 2 ** (11 - level))
        height, width = expected.shape[:2]
        for column in range(ceil(width / side)):
            for row in range(ceil(height / side)):
                tile = decoded(pyramid.tile(level, column, row))
                place = expected[row * side : (row + 1) * side, column * side : (column + 1) * side]
                assert tile.shape == place.shape
                assert np.abs(tile - place).mean() < 6, (level, column, row)


def test_a_tile_that_the_file_holds_is_not_decoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pyramid = pyramid_of(write_slide(tmp_path / "s.tiff", picture(WIDTH, HEIGHT), Variety()))

    def refuse(*_: object) -> None:
        raise AssertionError("decoded")

    monkeypatch.setattr("aspirate.slides.direct.decode", refuse)
    for level, columns, rows in ((11, 5, 4), (10, 2, 2), (9, 1, 1)):
        for column in range(columns):
            for row in range(rows):
                pyramid.tile(level, column, row)
    with pytest.raises(AssertionError, match="decoded"):
        pyramid.tile(11, 5, 0)  # at the edge, where the file pads


def test_no_tile_outside(tmp_path: Path) -> None:
    pyramid = pyramid_of(write_slide(tmp_path / "s.tiff", picture(WIDTH, HEIGHT), Variety()))
    for place in ((12, 0, 0), (-1, 0, 0), (11, 6, 0), (11, 0, 5), (11, -1, 0), (0, 1, 0)):
        with pytest.raises(NoSuchTile):
            pyramid.tile(*place)


def test_a_flat_slide_is_seen_whole_in_bounded_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pixels = smooth(3000, 2200)
    pyramid = pyramid_of(write_slide(tmp_path / "s.tiff", pixels, Variety(levels=1)))
    read = pyramid.slide.read_squares
    widest = []

    def watched(xy_px0: object, side_px0: int, side_px: int) -> object:
        widest.append(side_px0)
        return read(xy_px0, side_px0, side_px)  # type: ignore[arg-type]

    monkeypatch.setattr(pyramid.slide, "read_squares", watched)
    tile = decoded(pyramid.tile(8, 0, 0))  # 188 × 138
    expected = shrunk(pixels, 16)
    assert tile.shape == expected.shape
    assert np.abs(tile - expected).mean() < 4
    assert max(widest) == 4 * 256


def test_a_file_that_shrinks_is_an_error_with_its_name(tmp_path: Path) -> None:
    path = write_slide(tmp_path / "s.tiff", picture(WIDTH, HEIGHT), Variety())
    pyramid = pyramid_of(path)
    with path.open("r+b") as file:
        file.truncate(2000)
    with pytest.raises(UnreadableSlide, match=r"s\.tiff.*copy the file again"):
        pyramid.tile(11, 1, 1)


def test_the_cache_keeps_within_its_bound_and_forgets_the_oldest() -> None:
    cache = ByteCache(100)
    for name in "abcd":
        cache.put(name, name.encode() * 30)
        assert cache.get("a") is not None or name == "d"
        assert cache.bytes <= 100
    assert [cache.get(name) is not None for name in "abcd"] == [True, False, True, True]
    cache.put("a", b"")
    assert cache.bytes == 60
