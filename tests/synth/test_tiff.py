"""The small TIFF writer against tifffile."""

from pathlib import Path

import pytest
import tifffile

from aspirate.synth.tiff import FoundPage, Page, TiffWriter, read_pages


@pytest.mark.parametrize("big", [False, True])
def test_tags_are_read_back_by_tifffile(tmp_path: Path, big: bool) -> None:
    path = tmp_path / "a.tif"
    tiles = [bytes([number]) * (5 + number) for number in range(6)]
    with path.open("wb") as file:
        writer = TiffWriter(file, big)
        writer.write(Page(600, 300, 256, 2, pixels_per_cm=40_000.0, description="one"), iter(tiles))
        writer.write(Page(300, 150, None, 1, reduced=True), [b"strip"])
    with tifffile.TiffFile(path) as found:
        assert found.is_bigtiff == big
        first, second = (page for page in found.pages if isinstance(page, tifffile.TiffPage))
        assert (first.imagewidth, first.imagelength, first.tilewidth, first.tilelength) == (600, 300, 256, 256)
        assert (first.compression, first.photometric) == (7, 6)
        assert first.get_resolution("MICROMETER") == pytest.approx((4.0, 4.0))
        assert first.description == "one"
        assert first.tags["YCbCrSubSampling"].value == (2, 2)
        assert (first.is_reduced, second.is_reduced, second.is_tiled) == (False, True, False)
        data = path.read_bytes()
        stored = zip(first.dataoffsets, first.databytecounts, strict=True)
        assert [data[start : start + length] for start, length in stored] == tiles
    with path.open("rb") as file:
        pages = read_pages(file)
    assert pages[0] == FoundPage(600, 300, True, pages[0].end)
    assert pages[1] == FoundPage(300, 150, False, len(data))
