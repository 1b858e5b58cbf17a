"""Bad files: each a clear error with the slide's name, never a crash, never wrong pixels."""

import os
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import openslide
import pytest
import tifffile
from PIL import Image
from tests.slides.slide_files import VARIETIES, Variety, picture, write_slide

from aspirate.core.errors import UnreadableSlide
from aspirate.core.geometry import Box
from aspirate.slides.reader import open_slide
from aspirate.slides.slide import RgbArray

PICTURE = picture(1333, 907)


def refused(path: Path) -> str:
    """The message with which a file is refused."""
    with pytest.raises(UnreadableSlide) as caught:
        open_slide(path, name="case 7")
    message = str(caught.value)
    assert message.startswith("case 7: ")
    return message


def test_missing(tmp_path: Path) -> None:
    assert "no file" in refused(tmp_path / "absent.svs")


def test_name_defaults_to_the_file(tmp_path: Path) -> None:
    with pytest.raises(UnreadableSlide, match=r"^absent\.svs: "):
        open_slide(tmp_path / "absent.svs")


@pytest.mark.parametrize("suffix", ["tiff", "svs", "png", "jpg", "ndpi", "mrxs", "dcm", "xyz"])
def test_not_an_image(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"notes.{suffix}"
    path.write_text("This is not a slide.\n" * 100)
    assert "not a" in refused(path)


@pytest.mark.parametrize("suffix", ["tiff", "svs", "png"])
def test_zero_bytes(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"empty.{suffix}"
    path.touch()
    assert "empty" in refused(path)


def test_folder(tmp_path: Path) -> None:
    folder = tmp_path / "slide.tiff"
    folder.mkdir()
    assert "folder" in refused(folder)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_no_permission(tmp_path: Path) -> None:
    path = write_slide(tmp_path / "slide.tiff", PICTURE, Variety())
    path.chmod(0)
    assert "permission" in refused(path)


def whole_levels(path: Path) -> list[RgbArray]:
    with open_slide(path, name="case 7") as slide:
        sizes = enumerate(slide.level_sizes)
        return [slide.read_region(Box(0, 0, size.width, size.height), level) for level, size in sizes]


def says_so(path: Path, expected: list[RgbArray]) -> bool:
    """Whether a cut file is refused, at once or when it is read; if not, every pixel must be there."""
    try:
        found = whole_levels(path)
    except UnreadableSlide as exc:
        assert str(exc).startswith("case 7: ")
    else:
        assert len(found) == len(expected)
        for level, wanted in zip(found, expected, strict=True):
            np.testing.assert_array_equal(level, wanted)
        return False
    try:
        with open_slide(path, name="case 7") as slide:
            assert slide.damaged()
    except UnreadableSlide as exc:
        assert str(exc).startswith("case 7: ")
    return True


@pytest.mark.parametrize("name", ["ycbcr 4:2:0", "abbreviated", "bigtiff", "aperio", "subifds"])
def test_truncated_tiff(tmp_path: Path, name: str) -> None:
    """At ten random places, and just before the end, where the last tile or level is."""
    path = write_slide(tmp_path / "whole.tiff", PICTURE, VARIETIES[name])
    data, expected = path.read_bytes(), whole_levels(path)
    places = [*np.random.default_rng(7).integers(1, len(data), 10).tolist(), len(data) - 2000, len(data) - 1]
    cut = tmp_path / "cut.tiff"
    noticed = 0
    for place in places:
        cut.write_bytes(data[:place])
        noticed += says_so(cut, expected)
    assert noticed >= 11


@pytest.mark.parametrize(
    "name", ["CMU-1-Small-Region.svs", "tcga-cr-7395-01a-01-ts1.svs", "test3-DAPI-2-387.ndpi", "highdicom_sm_image.dcm"]
)
def test_truncated_real_slide(shared_data: Path, tmp_path: Path, name: str) -> None:
    source = shared_data / "slides" / name
    data, expected = source.read_bytes(), whole_levels(source)
    cut = tmp_path / name
    noticed = 0
    for place in np.random.default_rng(8).integers(1, len(data), 10).tolist():
        cut.write_bytes(data[:place])
        noticed += says_so(cut, expected)
    assert noticed == 10


@pytest.mark.parametrize("suffix", ["png", "jpg", "bmp", "webp"])
def test_truncated_plain_image(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"plain.{suffix}"
    Image.fromarray(PICTURE).save(path)
    data = path.read_bytes()
    for place in np.random.default_rng(9).integers(1, len(data) - 100, 10).tolist():
        path.write_bytes(data[:place])
        refused(path)


def shrink_after_opening(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def tile_place(path: Path, tile: int) -> tuple[int, int]:
    with tifffile.TiffFile(path) as file:
        page = file.pages.first
        return page.dataoffsets[tile], page.databytecounts[tile]


def zeros(length: int) -> bytes:
    return bytes(length)


def noise(length: int) -> bytes:
    return np.random.default_rng(1).bytes(length)


@pytest.mark.parametrize("fill", [zeros, noise])
@pytest.mark.parametrize("part", ["whole", "second half", "a few bytes"])
def test_corrupt_tile_in_the_middle(tmp_path: Path, fill: Callable[[int], bytes], part: str) -> None:
    path = write_slide(tmp_path / "slide.tiff", PICTURE, Variety())
    sound = whole_levels(path)[0]
    offset, length = tile_place(path, tile=8)  # column 2, row 1
    skipped, changed = {"whole": (0, length), "second half": (length // 2, length // 2), "a few bytes": (0, 4)}[part]
    with path.open("r+b") as file:
        file.seek(offset + skipped)
        file.write(fill(changed))
    with open_slide(path, name="case 7") as slide:
        (damage,) = slide.damaged()
        assert (damage.level, damage.column, damage.row) == (0, 2, 1)
        assert damage.box_px == Box(512, 256, 256, 256)
        assert damage.reason
        with pytest.raises(UnreadableSlide, match="case 7: the tile in column 2, row 1 of level 0 is damaged"):
            slide.read_squares([[600, 300]], 64, 64)
        np.testing.assert_array_equal(slide.read_region(Box(0, 0, 512, 907)), sound[:, :512])


def test_damage_does_not_spoil_the_handle_of_openslide(tmp_path: Path) -> None:
    path = tmp_path / "slide.tiff"
    tifffile.imwrite(path, PICTURE, tile=(256, 256), compression="deflate", photometric="rgb", metadata=None)
    offset, length = tile_place(path, tile=8)
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(noise(length))
    with open_slide(path, name="case 7") as slide:
        assert slide.reader == "openslide"
        assert [(damage.level, damage.column, damage.row) for damage in slide.damaged()] == [(0, 0, 0)]
        with pytest.raises(UnreadableSlide, match="case 7: level 0 is damaged"):
            slide.read_squares([[600, 300]], 64, 64)
        np.testing.assert_array_equal(slide.read_region(Box(0, 0, 256, 256)), PICTURE[:256, :256])


def test_file_that_shrinks_while_open(tmp_path: Path) -> None:
    path = write_slide(tmp_path / "slide.tiff", PICTURE, Variety(levels=1))
    with open_slide(path, name="case 7") as slide:
        shrink_after_opening(path)
        assert slide.damaged()
        with pytest.raises(UnreadableSlide, match=r"case 7: .*the file ends"):
            slide.read_region(Box(0, 0, 1333, 907))


def test_one_pixel(tmp_path: Path) -> None:
    pixel = np.array([[[200, 90, 30]]], np.uint8)
    png = tmp_path / "pixel.png"
    Image.fromarray(pixel).save(png)
    tiled = write_slide(tmp_path / "pixel.tiff", pixel, Variety(levels=1, tile=(16, 16)))
    for path in (png, tiled):
        with open_slide(path, mpp=0.25) as slide:
            assert np.abs(slide.thumbnail(100).astype(int) - pixel).max() <= 3
            (tile,) = slide.read_tiles([[0, 0]])
            assert np.abs(tile[0, 0].astype(int) - pixel[0, 0]).max() <= 3
            assert (tile[1:] == 255).all()
            assert (tile[:, 1:] == 255).all()
            assert slide.read_tiles([[0, 0]], mpp=0.1).shape == (1, 128, 128, 3)
    stripped = tmp_path / "plain.tiff"
    Image.fromarray(pixel).save(stripped)
    assert "convert it to a tiled one" in refused(stripped)


def patch_tag(path: Path, tag: str, value: int) -> None:
    with tifffile.TiffFile(path, mode="r+") as file:
        file.pages.first.tags[tag].overwrite(value)


@pytest.mark.parametrize("tag", ["ImageWidth", "ImageLength"])
@pytest.mark.parametrize("value", [5000, 4_000_000_000])
def test_claimed_size_is_larger_than_what_is_there(tmp_path: Path, tag: str, value: int) -> None:
    path = write_slide(tmp_path / "slide.tiff", PICTURE, Variety(levels=1))
    patch_tag(path, tag, value)
    refused(path)


def test_offset_array_of_absurd_length(tmp_path: Path) -> None:
    """The count of an IFD entry says 2³² − 1 offsets; nobody may make room for them."""
    path = write_slide(tmp_path / "slide.tiff", PICTURE, Variety(levels=1))
    with tifffile.TiffFile(path) as file:
        tag = file.pages.first.tags["TileOffsets"]
        at = tag.offset
    with path.open("r+b") as raw:
        raw.seek(at + 4)
        raw.write(struct.pack("<I", 2**32 - 1))
    refused(path)


@pytest.mark.parametrize("compression", ["jpeg", "deflate"])
def test_tiles_of_absurd_size(tmp_path: Path, compression: str) -> None:
    """Of 2³⁰ pixels each; OpenSlide alone would try to make room for one and abort the process."""
    path = tmp_path / "slide.tiff"
    tifffile.imwrite(path, PICTURE, tile=(256, 256), compression=compression, photometric="rgb", metadata=None)
    patch_tag(path, "TileWidth", 2**22)
    assert "tiles of 4194304 × 256" in refused(path)


def test_tile_of_absurd_length_is_refused(tmp_path: Path) -> None:
    path = write_slide(tmp_path / "slide.tiff", PICTURE, Variety(levels=1))
    with tifffile.TiffFile(path, mode="r+") as file:
        counts = file.pages.first.tags["TileByteCounts"]
        counts.overwrite([2**31, *counts.value[1:]])
    assert "claims a tile of 2147483648 bytes" in refused(path)


def test_tile_beyond_the_end(tmp_path: Path) -> None:
    path = write_slide(tmp_path / "slide.tiff", PICTURE, Variety())
    with tifffile.TiffFile(path, mode="r+") as file:
        offsets = file.pages.first.tags["TileOffsets"]
        offsets.overwrite([*offsets.value[:-1], path.stat().st_size - 10])
    assert "cut short: 1 of the 24 tiles" in refused(path)


def test_jpeg_frame_of_another_size_than_its_tile(tmp_path: Path) -> None:
    encode = Variety().encode
    wrong = Variety(lambda tile: encode(np.ascontiguousarray(tile[:128])), levels=1)
    path = write_slide(tmp_path / "slide.tiff", PICTURE, wrong)
    with open_slide(path, name="case 7") as slide, pytest.raises(UnreadableSlide, match=r"case 7: .*128, 256"):
        slide.read_region(Box(0, 0, 100, 100))


def chain(path: Path) -> tuple[list[int], int]:
    """Where the pages of a classic TIFF begin, and where the place of a further one would be written."""
    data = path.read_bytes()
    places, link = [], 4
    while place := struct.unpack_from("<I", data, link)[0]:
        places.append(place)
        link = place + 2 + 12 * struct.unpack_from("<H", data, place)[0]
    return places, link


def test_pages_that_lead_back_to_themselves(tmp_path: Path) -> None:
    path = write_slide(tmp_path / "slide.tiff", PICTURE, Variety())
    places, link = chain(path)
    data = path.read_bytes()
    for back in places:
        path.write_bytes(data[:link] + struct.pack("<I", back) + data[link + 4 :])
        assert "its chain of pages leads back to itself" in refused(path)


def test_more_pages_than_any_slide_has(tmp_path: Path) -> None:
    path = write_slide(tmp_path / "slide.tiff", PICTURE, Variety())
    places, link = chain(path)
    data = path.read_bytes()
    page, end = data[places[-1] : link], len(data)
    further = b"".join(page + struct.pack("<I", end + (i + 1) * (len(page) + 4)) for i in range(1100))
    path.write_bytes(data[:link] + struct.pack("<I", end) + data[link + 4 :] + further + page + bytes(4))
    assert "more than 1000 pages" in refused(path)


def test_a_small_file_that_claims_a_slide_without_end(tmp_path: Path) -> None:
    """All tiles are the same bytes of the file; of such, a megabyte may claim pixels enough for days."""
    path = tmp_path / "slide.tiff"
    tifffile.imwrite(path, PICTURE, tile=(16, 16), compression="deflate", photometric="rgb", metadata=None)
    with tifffile.TiffFile(path, mode="r+") as file:
        tags = file.pages.first.tags
        count = len(tags["TileOffsets"].value)
        tags["TileOffsets"].overwrite([tags["TileOffsets"].value[0]] * count)
        tags["TileByteCounts"].overwrite([tags["TileByteCounts"].value[0]] * count)
    with open_slide(path) as slide:  # some sharing is usual: blank glass is blank glass
        np.testing.assert_array_equal(slide.read_region(Box(160, 160, 16, 16)), PICTURE[:16, :16])
    with tifffile.TiffFile(path, mode="r+") as file:
        file.pages.first.tags["TileByteCounts"].overwrite([60_000] * count)
    assert f"claims tiles of {60_000 * count} bytes, but the file has {path.stat().st_size}" in refused(path)


def test_large_tiles_are_decoded_once_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles of 3072 pixels take 36 MB, more than OpenSlide keeps by itself; each small part would decode one anew."""
    path = tmp_path / "slide.tiff"
    pixels = np.tile(picture(512, 512), (6, 6, 1))
    tifffile.imwrite(path, pixels, tile=(3072, 3072), compression="deflate", photometric="rgb", metadata=None)
    asked: list[int] = []

    class Cache(openslide.OpenSlideCache):  # type: ignore[misc,unused-ignore]
        def __init__(self, capacity: int) -> None:
            super().__init__(capacity)
            asked.append(capacity)

    monkeypatch.setattr(openslide, "OpenSlideCache", Cache)
    with open_slide(path, mpp=0.25) as slide:
        assert slide.reader == "openslide"
        np.testing.assert_array_equal(slide.read_squares([[64, 64], [600, 576]], 128, 128)[0], pixels[64:192, 64:192])
    assert asked == [3 * 4 * 3072**2]


def test_damage_is_said_once_and_by_us(tmp_path: Path) -> None:
    """tifffile would log what it finds on the terminal, between the lines of a table."""
    path = write_slide(tmp_path / "slide.tiff", PICTURE, Variety())
    path.write_bytes(path.read_bytes()[:4] + struct.pack("<I", 2**31) + path.read_bytes()[8:])
    code = f"from aspirate.slides.reader import open_slide; open_slide({str(path)!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "UnreadableSlide: slide.tiff: " in done.stderr
    assert "tifffile" not in done.stderr.split("Traceback")[0]
