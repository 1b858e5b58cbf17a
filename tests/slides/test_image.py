"""Plain images: known pixels in, the same out."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.slides.slide_files import picture

from aspirate.core.errors import UnreadableSlide
from aspirate.core.geometry import Box, Size
from aspirate.slides import image
from aspirate.slides.reader import open_slide

PICTURE = picture(300, 200)


def test_regions_are_white_outside(tmp_path: Path) -> None:
    path = tmp_path / "plain.png"
    Image.fromarray(PICTURE).save(path)
    wide = np.pad(PICTURE, ((150, 150), (150, 150), (0, 0)), constant_values=255)
    with open_slide(path, mpp=0.3) as slide:
        assert (slide.reader, slide.vendor, slide.mpp) == ("image", "image", 0.3)
        assert slide.level_sizes == (Size(300, 200),)
        for x, y in [(0, 0), (-50, -60), (250, 150), (-130, 40), (299, 199), (-100, 0), (301, 0), (0, -100)]:
            expected = wide[y + 150 : y + 250, x + 150 : x + 250]
            np.testing.assert_array_equal(slide.read_region(Box(x, y, 100, 100)), expected)
            np.testing.assert_array_equal(slide.read_squares([[x, y]], 100, 100)[0], expected)
        assert slide.damaged() == []


def test_transparent_is_white(tmp_path: Path) -> None:
    alpha = np.tile(np.arange(300) % 256, (200, 1)).astype(np.uint8)
    path = tmp_path / "plain.png"
    Image.fromarray(np.dstack([PICTURE, alpha])).save(path)
    share = alpha[..., None] / 255
    with open_slide(path) as slide:
        off = slide.read_region(Box(0, 0, 300, 200)) - (PICTURE * share + 255 * (1 - share))
        assert np.abs(off).max() <= 1


@pytest.mark.parametrize("mode", ["L", "1", "P", "CMYK", "LA"])
def test_other_kinds_of_eight_bits(tmp_path: Path, mode: str) -> None:
    path = tmp_path / ("plain.jpg" if mode == "CMYK" else "plain.png")
    made = Image.fromarray(PICTURE).convert(mode)
    made.save(path, quality=95)
    with open_slide(path) as slide:
        expected = np.asarray(made.convert("RGB")).astype(int)
        assert np.abs(slide.read_region(Box(0, 0, 300, 200)) - expected).mean() < 3


def test_sixteen_bits_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "deep.png"
    Image.fromarray(np.arange(10000, dtype=np.uint16).reshape(100, 100)).save(path)
    with pytest.raises(UnreadableSlide, match=r"case 3: .*8 bits"):
        open_slide(path, name="case 3")


def test_more_than_the_limit_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "large.png"
    Image.fromarray(PICTURE).save(path)
    monkeypatch.setattr(image, "LARGEST_PX", 300 * 200 - 1)
    with pytest.raises(UnreadableSlide, match=r"large.png: .*59999 pixels.*tiled"):
        open_slide(path)


def test_decompression_bomb_is_refused(tmp_path: Path) -> None:
    """A valid header of 100,000 × 100,000 pixels and next to no data."""
    path = tmp_path / "bomb.png"
    Image.new("1", (1, 1)).save(path)
    data = bytearray(path.read_bytes())
    data[16:24] = (100_000).to_bytes(4, "big") * 2
    from zlib import crc32

    data[29:33] = crc32(data[12:29]).to_bytes(4, "big")
    path.write_bytes(data)
    with pytest.raises(UnreadableSlide, match=r"bomb.png: .*tiled, pyramidal TIFF"):
        open_slide(path)
