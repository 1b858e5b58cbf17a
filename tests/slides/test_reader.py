"""Which reader a file gets, and what it says of its resolution."""

from pathlib import Path

import numpy as np
import openslide
import pytest
import tifffile
from PIL import Image
from tests.slides.slide_files import APERIO, VARIETIES, Variety, halved, picture, write_slide

from aspirate.core.errors import UnreadableSlide
from aspirate.core.geometry import Box, Size
from aspirate.slides.reader import HIDDEN_LEVELS, open_slide
from aspirate.slides.resolution import mpp_in_file, ome_mpp

PICTURE = picture(700, 500)
REAL = {
    "csf_metastasis_PAP-1_full.tiff": ("direct", "generic-tiff", None),
    "CMU-1-Small-Region.svs": ("direct", "aperio", 0.499),
    "tcga-cr-7395-01a-01-ts1.svs": ("openslide", "aperio", None),
    "test3-DAPI-2-387.ndpi": ("openslide", "hamamatsu", 0.2281750559028887),
    "highdicom_sm_image.dcm": ("openslide", "dicom", 0.499),
}


@pytest.mark.parametrize("name", REAL)
def test_real_slides(shared_data: Path, name: str) -> None:
    path = shared_data / "slides" / name
    with open_slide(path) as slide, openslide.OpenSlide(path) as reference:
        assert (slide.reader, slide.vendor, slide.mpp) == REAL[name]
        assert slide.name == name
        assert slide.path == path
        assert [(size.width, size.height) for size in slide.level_sizes] == list(reference.level_dimensions)
        assert slide.level_downsamples == pytest.approx(reference.level_downsamples)
        assert dict(slide.properties) == dict(reference.properties)
        assert slide.bounds_px0 == (0, 0)
    with open_slide(path, mpp=0.33) as slide:
        assert slide.mpp == 0.33


@pytest.mark.parametrize("name", REAL)
def test_thumbnail_looks_like_openslides(shared_data: Path, name: str) -> None:
    """Not equal: OpenSlide shrinks from another level and cuts its own way."""
    path = shared_data / "slides" / name
    with open_slide(path) as slide, openslide.OpenSlide(path) as reference:
        ours = slide.thumbnail(256)
        theirs = np.asarray(reference.get_thumbnail((256, 256)).resize((ours.shape[1], ours.shape[0])))
        assert max(ours.shape[:2]) == min(256, max(slide.size_px0.width, slide.size_px0.height))
        assert np.abs(ours.astype(int) - theirs).mean() < 3


@pytest.mark.parametrize("compression", ["lzw", "deflate"])
def test_other_compressions_go_to_openslide(tmp_path: Path, compression: str) -> None:
    path = tmp_path / "slide.tiff"
    tifffile.imwrite(path, PICTURE, tile=(256, 256), compression=compression, photometric="rgb", metadata=None)
    with open_slide(path) as slide:
        assert slide.reader == "openslide"
        np.testing.assert_array_equal(slide.read_region(Box(0, 0, 700, 500)), PICTURE)


def test_grey_jpeg_goes_to_openslide(tmp_path: Path) -> None:
    path = tmp_path / "slide.tiff"
    tifffile.imwrite(path, PICTURE[..., 0], tile=(256, 256), compression="jpeg", metadata=None)
    with open_slide(path) as slide:
        assert slide.reader == "openslide"
        shown = slide.read_region(Box(0, 0, 700, 500)).astype(int)
        assert np.abs(shown - PICTURE[..., :1]).mean() < 4


def test_what_nobody_reads_is_named(tmp_path: Path) -> None:
    path = tmp_path / "slide.tiff"
    tifffile.imwrite(path, PICTURE, tile=(256, 256), compression="jpeg2000", photometric="rgb", metadata=None)
    with pytest.raises(UnreadableSlide, match=r"case 7: .*compression: 34712.*JPEG-tiled"):
        open_slide(path, name="case 7")


def test_aperio_with_tiles_left_out_goes_to_openslide(tmp_path: Path) -> None:
    path = write_slide(tmp_path / "slide.svs", PICTURE, VARIETIES["aperio"])
    with tifffile.TiffFile(path, mode="r+") as file:
        counts = file.pages[0].tags["TileByteCounts"]  # type: ignore[union-attr]
        counts.overwrite([0, *counts.value[1:]])
    with open_slide(path) as slide, openslide.OpenSlide(path) as reference:
        assert slide.reader == "openslide"
        theirs = np.asarray(reference.read_region((0, 0), 0, (256, 256)).convert("RGBA"))
        assert (theirs[..., 3] == 0).all()
        assert (slide.read_region(Box(0, 0, 256, 256)) == 255).all()


def test_hidden_levels_that_cannot_be_decoded_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "slide.ome.tiff"
    with tifffile.TiffWriter(path) as file:
        file.write(PICTURE, tile=(256, 256), compression="lzw", photometric="rgb", subifds=1, metadata=None)
        file.write(halved(PICTURE), tile=(256, 256), compression="lzw", photometric="rgb", subfiletype=1)
    with open_slide(path) as slide:
        assert slide.reader == "openslide"
        assert slide.level_sizes == (Size(700, 500),)
        assert slide.properties[HIDDEN_LEVELS] == "1"
        np.testing.assert_array_equal(slide.read_region(Box(0, 0, 700, 500)), PICTURE)


@pytest.mark.parametrize(
    ("resolution", "mpp"),
    [
        ((40000, "CENTIMETER"), 0.25),
        ((101600, "INCH"), 0.25),
        ((72, "INCH"), None),
        ((300, "INCH"), None),
        ((40000, "NONE"), None),
        (None, None),
    ],
)
def test_resolution_tags(tmp_path: Path, resolution: tuple[float, str] | None, mpp: float | None) -> None:
    path = write_slide(tmp_path / "slide.tiff", PICTURE, Variety(resolution=resolution))
    with open_slide(path) as slide:
        assert slide.mpp == (None if mpp is None else pytest.approx(mpp))


def test_what_aperio_says_is_kept_even_if_absurd(tmp_path: Path) -> None:
    """Then whoever uses it is told, and nobody takes it for missing."""
    description = APERIO.format(w=700, h=500, t=256).replace("0.2501", "25.01")
    path = write_slide(tmp_path / "slide.svs", PICTURE, Variety(levels=1, description=description))
    with open_slide(path) as slide:
        assert slide.mpp == pytest.approx(25.01)


OME = (
    '<?xml version="1.0"?><OME xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06">'
    '<Image><Pixels SizeX="70" SizeY="50" PhysicalSizeX="9" PhysicalSizeY="9"/></Image>'
    '<Image><Pixels SizeX="700" SizeY="500" {sizes}/></Image></OME>'
)


@pytest.mark.parametrize(
    ("sizes", "mpp"),
    [
        ('PhysicalSizeX="0.25" PhysicalSizeY="0.25"', 0.25),
        ('PhysicalSizeX="250" PhysicalSizeXUnit="nm" PhysicalSizeY="0.00025" PhysicalSizeYUnit="mm"', 0.25),
        ('PhysicalSizeX="0.24" PhysicalSizeY="0.26" PhysicalSizeXUnit="µm"', 0.25),
        ('PhysicalSizeX="1" PhysicalSizeXUnit="pixel" PhysicalSizeY="1" PhysicalSizeYUnit="pixel"', None),
        ('PhysicalSizeX="many"', None),
        ("", None),
        ('PhysicalSizeX="0.25"><', None),
    ],
)
def test_ome_physical_size(tmp_path: Path, sizes: str, mpp: float | None) -> None:
    xml = OME.format(sizes=sizes)
    assert ome_mpp(xml, Size(700, 500)) == (None if mpp is None else pytest.approx(mpp))
    assert ome_mpp(xml, Size(701, 500)) is None
    path = write_slide(
        tmp_path / "slide.tiff",
        PICTURE,
        Variety(subifds=True, description=xml.encode("ascii", "xmlcharrefreplace").decode()),
    )
    with open_slide(path) as slide:
        assert slide.mpp == (None if mpp is None else pytest.approx(mpp))


def test_ome_comes_before_the_resolution_tag() -> None:
    xml = OME.format(sizes='PhysicalSizeX="0.25" PhysicalSizeY="0.25"')
    properties = {"openslide.comment": xml, "openslide.mpp-x": "0.5", "openslide.mpp-y": "0.5"}
    assert mpp_in_file("generic-tiff", properties, Size(700, 500)) == pytest.approx(0.25)
    assert mpp_in_file("generic-tiff", properties, Size(7, 5)) == pytest.approx(0.5)


def test_bounds_are_those_of_openslide(tmp_path: Path) -> None:
    path = tmp_path / "plain.png"
    Image.fromarray(PICTURE).save(path)
    with open_slide(path) as slide:
        assert slide.bounds_px0 == (0, 0)
        slide.properties = {"openslide.bounds-x": "512", "openslide.bounds-y": "64"}  # type: ignore[misc]
        assert slide.bounds_px0 == (512, 64)
