"""Levels, resampling and thumbnails against one large resize by Pillow."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.slides.slide_files import Variety, picture, write_slide

from aspirate.core.errors import ImplausibleResolution, MissingResolution, UnreadableSlide
from aspirate.core.geometry import Box, Size
from aspirate.slides import sampling
from aspirate.slides.image import ImageSlide
from aspirate.slides.reader import open_slide
from aspirate.slides.sampling import best_level, check_levels, openslide_downsamples
from aspirate.slides.slide import RgbArray

PICTURE = picture(1400, 1000, seed=5)
FILTER = Image.Resampling.BICUBIC


@pytest.fixture
def png(tmp_path: Path) -> Path:
    path = tmp_path / "plain.png"
    Image.fromarray(PICTURE).save(path)
    return path


@pytest.mark.parametrize(
    ("wanted", "level"), [(0.5, 0), (1, 0), (1.9, 0), (2, 1), (3.9, 1), (4, 2), (15.9, 2), (16, 3), (500, 3)]
)
def test_coarsest_level_that_is_fine_enough(wanted: float, level: int) -> None:
    assert best_level((1.0, 2.0005, 4.0003, 16.002), wanted) == level


def test_downsamples_of_odd_sizes() -> None:
    sizes = [Size(4443, 3567), Size(2221, 1783)]
    assert openslide_downsamples(sizes) == pytest.approx((1.0, 2.0005055500659967))


@pytest.mark.parametrize(
    ("coarse", "fits"),
    [
        (Size(217, 221), True),
        (Size(1, 1), True),
        (Size(256, 256), True),  # padded to whole tiles
        (Size(175, 3080317), False),
        (Size(28000, 28500), False),
        (Size(217, 400), False),
    ],
)
def test_levels_are_one_picture(coarse: Size, fits: bool) -> None:
    sizes = [Size(27888, 28392), coarse]
    if fits:
        check_levels(sizes, "case 7")
    else:
        with pytest.raises(UnreadableSlide, match=f"case 7: level 1 claims {coarse.width} × {coarse.height}"):
            check_levels(sizes, "case 7")


def large_resize(pixels: RgbArray, scale: float, side_px: int, tiles: int) -> RgbArray:
    """What tiles of a white-padded picture must look like side by side, by one resize."""
    cut_px = scale * side_px * tiles
    room = int(cut_px) + 200
    padded = np.pad(pixels, ((100, room), (100, room), (0, 0)), constant_values=255)
    box = (100, 100, 100 + cut_px, 100 + cut_px)
    return np.asarray(Image.fromarray(padded).resize((side_px * tiles, side_px * tiles), FILTER, box))


@pytest.mark.parametrize("side_px0", [37, 96, 127, 129, 200, 333])
def test_tiles_fit_as_if_cut_from_one_resize(png: Path, side_px0: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "SCRATCH_BYTES", 2**20)  # several goes
    tiles, side_px = 7, 64
    xy_px0 = np.array([(x * side_px0, y * side_px0) for y in range(tiles) for x in range(tiles)])
    shuffled = np.random.default_rng(0).permutation(len(xy_px0))
    with open_slide(png, mpp=0.25) as slide:
        found = np.empty((len(xy_px0), side_px, side_px, 3), np.uint8)
        found[shuffled] = slide.read_squares(xy_px0[shuffled], side_px0, side_px)
    mosaic = found.reshape(tiles, tiles, side_px, side_px, 3).swapaxes(1, 2).reshape(tiles * side_px, -1, 3)
    off = np.abs(mosaic.astype(int) - large_resize(PICTURE, side_px0 / side_px, side_px, tiles))
    # Pillow takes boxes in single precision, which may turn a rounding.
    assert off.max() <= 1
    assert (off > 0).mean() < 0.01


def test_resampling_starts_from_the_best_level(tmp_path: Path) -> None:
    """Squares of 384 px at 128: from level 1 (downsample 2), shrunk by 1.5, fractional corners included."""
    path = write_slide(tmp_path / "slide.tiff", PICTURE, Variety())
    with open_slide(path) as slide:
        half = slide.read_region(Box(0, 0, 700, 500), level=1)
        corner_px0 = np.array([101, 55])
        (tile,) = slide.read_squares([corner_px0], 384, 128)
        x, y = corner_px0 / 2
        expected = Image.fromarray(half).resize((128, 128), FILTER, (x, y, x + 192, y + 192))
        assert np.abs(tile.astype(int) - np.asarray(expected)).max() <= 1


def test_a_level_of_the_wanted_resolution_is_cut(tmp_path: Path) -> None:
    with open_slide(write_slide(tmp_path / "slide.tiff", PICTURE, Variety())) as slide:
        (tile,) = slide.read_squares([[256, 128]], 512, 128)
        np.testing.assert_array_equal(tile, slide.read_region(Box(64, 32, 128, 128), level=2))


def test_target_resolution_decides_the_square(png: Path) -> None:
    with open_slide(png, mpp=0.5) as slide:
        np.testing.assert_array_equal(
            slide.read_tiles([[10, 20]], side_px=64, mpp=1.0), slide.read_squares([[10, 20]], 128, 64)
        )
        np.testing.assert_array_equal(slide.read_tiles([[10, 20]], side_px=64, mpp=0.5)[0], PICTURE[20:84, 10:74])


def test_resolution_is_never_guessed(png: Path) -> None:
    with open_slide(png, name="case 7") as slide:
        assert slide.mpp is None
        with pytest.raises(MissingResolution, match=r"case 7: .*mpp column of the cohort"):
            slide.read_tiles([[0, 0]])
        assert slide.read_squares([[0, 0]], 128, 128).shape == (1, 128, 128, 3)
    for absurd in (0.0, -0.25, 0.049, 10.1, float("nan")):
        with pytest.raises(ImplausibleResolution, match="case 7"):
            open_slide(png, mpp=absurd, name="case 7")


@pytest.mark.parametrize("max_px", [1, 50, 333, 700, 1399, 1400, 9999])
def test_thumbnail_is_one_resize_of_the_whole(png: Path, max_px: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_slide(png) as slide:
        width = min(max_px, 1400)
        height = max(1, round(width / 1.4))
        expected = np.asarray(Image.fromarray(PICTURE).resize((width, height), FILTER))
        np.testing.assert_array_equal(slide.thumbnail(max_px), expected)
        monkeypatch.setattr(sampling, "THUMBNAIL_BLOCK_PX", 300)
        in_blocks = slide.thumbnail(max_px)
        assert np.abs(in_blocks.astype(int) - expected).max() <= 1


def test_thumbnail_reads_no_more_than_a_block_at_a_time(png: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "THUMBNAIL_BLOCK_PX", 256)
    boxes: list[Box] = []
    plain = ImageSlide.read_region

    def read_region(self: ImageSlide, box_px: Box, level: int = 0) -> RgbArray:
        boxes.append(box_px)
        return plain(self, box_px, level)

    monkeypatch.setattr(ImageSlide, "read_region", read_region)
    with open_slide(png) as slide:
        slide.thumbnail(100)
    margin_px = 2 * (2 * 14 + 1)
    assert max(max(box.width, box.height) for box in boxes) <= 256 + margin_px + 2
    assert len(boxes) > 20


def test_thumbnail_uses_the_pyramid(tmp_path: Path) -> None:
    with open_slide(write_slide(tmp_path / "slide.tiff", PICTURE, Variety())) as slide:
        quarter = slide.read_region(Box(0, 0, 350, 250), level=2)
        expected = Image.fromarray(quarter).resize((300, 214), FILTER)
        np.testing.assert_array_equal(slide.thumbnail(300), np.asarray(expected))


def test_level_out_of_range(png: Path) -> None:
    with open_slide(png) as slide, pytest.raises(ValueError, match="level 1"):
        slide.read_region(Box(0, 0, 1, 1), level=1)
