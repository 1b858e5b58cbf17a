"""Written slides against OpenSlide, tifffile and Pillow."""

from functools import cache
from pathlib import Path

import numpy as np
import openslide
import pytest
import tifffile
from PIL import Image

from aspirate.core.geometry import Box, Size
from aspirate.core.progress import silent
from aspirate.synth import writer
from aspirate.synth.writer import Encoding, halved, is_whole, level_sizes, write_slide

Rgb = writer.Rgb


@cache
def picture(size: Size) -> Rgb:
    """Smooth colours that tell every place from every other."""
    y, x = np.mgrid[0 : size.height + 512, 0 : size.width + 512].astype(np.float64)
    channels = (127 + 90 * np.sin(x / 97) + 30 * np.cos(y / 41), 255 * x / x.max(), 255 * y / y.max())
    return np.stack(channels, axis=-1).clip(0, 255).astype(np.uint8)


def written(path: Path, size: Size, encoding: Encoding) -> Rgb:
    pixels = picture(size)

    def region(box: Box) -> Rgb:
        return pixels[box.y : box.y + box.height, box.x : box.x + box.width]

    write_slide(path, size, region, encoding, silent)
    return pixels[: size.height, : size.width]


@pytest.mark.parametrize("svs", [False, True])
@pytest.mark.parametrize("chroma", ["420", "444"])
@pytest.mark.parametrize("size", [Size(4100, 900), Size(800, 4097), Size(1030, 1024)])
def test_openslide_sees_every_level(tmp_path: Path, svs: bool, chroma: str, size: Size) -> None:
    path = tmp_path / ("a.svs" if svs else "a.tiff")
    encoding = Encoding(0.25, svs, 95, chroma)
    pixels = written(path, size, encoding)
    with openslide.OpenSlide(path) as slide:
        assert slide.properties["openslide.vendor"] == ("aperio" if svs else "generic-tiff")
        assert float(slide.properties["openslide.mpp-x"]) == pytest.approx(0.25)
        assert float(slide.properties["openslide.mpp-y"]) == pytest.approx(0.25)
        expected = level_sizes(size, encoding.factor)
        assert slide.level_dimensions == tuple((s.width, s.height) for s in expected)
        for number, level in enumerate(expected):
            seen = np.asarray(slide.read_region((0, 0), number, (level.width, level.height)).convert("RGB"))
            scale = encoding.factor**number
            part = pixels[: level.height * scale, : level.width * scale]
            small = Image.fromarray(part).resize((level.width, level.height), Image.Resampling.BOX)
            difference = np.abs(seen.astype(int) - np.asarray(small))
            assert difference.mean() < 1.5
            assert np.quantile(difference, 0.999) < 12


def test_levels_end_at_about_a_thousand_pixels() -> None:
    assert level_sizes(Size(40_000, 25_000), 2)[-1] == Size(1250, 781)
    assert level_sizes(Size(40_000, 25_000), 4) == [Size(40_000, 25_000), Size(10_000, 6250), Size(2500, 1562)]
    assert level_sizes(Size(1500, 1024), 2) == [Size(1500, 1024)]


def test_bigtiff_when_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "BIGTIFF_PX", 0)
    path = tmp_path / "big.tiff"
    pixels = written(path, Size(2100, 1100), Encoding(0.5, False, 95, "444"))
    with tifffile.TiffFile(path) as file:
        assert file.is_bigtiff
        assert np.abs(file.pages[0].asarray().astype(int) - pixels).mean() < 1.5
    with openslide.OpenSlide(path) as slide:
        assert float(slide.properties["openslide.mpp-x"]) == pytest.approx(0.5)


def test_halving_is_the_rounded_mean() -> None:
    image = np.random.default_rng(0).integers(0, 256, (6, 8, 3)).astype(np.uint8)
    blocks = image.reshape(3, 2, 4, 2, 3).astype(float).mean(axis=(1, 3))
    assert np.array_equal(halved(image), np.floor(blocks + 0.5).astype(np.uint8))


def test_progress_counts_every_pixel_once(tmp_path: Path) -> None:
    counted: list[float] = []
    size = Size(1030, 1300)
    pixels = picture(size)
    write_slide(
        tmp_path / "a.tiff",
        size,
        lambda box: pixels[box.y : box.y + box.height, box.x : box.x + box.width],
        Encoding(0.25, False, 80, "420"),
        counted.append,
    )
    assert sum(counted) == size.width * size.height


@pytest.mark.parametrize("svs", [False, True])
def test_a_cut_file_is_not_whole(tmp_path: Path, svs: bool) -> None:
    path, size = tmp_path / "a.tiff", Size(2100, 1100)
    encoding = Encoding(0.25, svs, 80, "420")
    written(path, size, encoding)
    assert is_whole(path, size, encoding.factor)
    assert not is_whole(path, Size(2100, 1101), encoding.factor)
    data = path.read_bytes()
    for end in (0, 1, 7, 100, len(data) // 3, len(data) // 2, len(data) - 3000, len(data) - 1):
        path.write_bytes(data[:end])
        assert not is_whole(path, size, encoding.factor), end
    assert not is_whole(tmp_path / "none.tiff", size, 2)
