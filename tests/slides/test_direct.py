"""The direct reader against OpenSlide, pixel for pixel, and against brute force."""

import multiprocessing
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import openslide
import pytest
from PIL import Image
from tests.slides.slide_files import VARIETIES, Pixels, Variety, corner_sum, halved, picture, rgb_unmarked, write_slide

from aspirate.core.geometry import Box
from aspirate.slides import direct, jpeg
from aspirate.slides.direct import DirectSlide
from aspirate.slides.reader import open_slide

PICTURE = picture(1333, 907)


@pytest.fixture(scope="module", params=VARIETIES)
def variety_file(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    variety = VARIETIES[request.param]
    name = "slide.svs" if variety.aperio else "slide.tiff"
    return write_slide(tmp_path_factory.mktemp("slides") / name, PICTURE, variety)


def on_white(handle: openslide.OpenSlide, corner_px0: tuple[int, int], level: int, size: tuple[int, int]) -> Pixels:
    region = handle.read_region(corner_px0, level, size)
    white = Image.new("RGBA", region.size, "white")
    return np.asarray(Image.alpha_composite(white, region).convert("RGB"))


def test_whole_levels_are_openslides(variety_file: Path) -> None:
    with open_slide(variety_file) as slide, openslide.OpenSlide(variety_file) as reference:
        assert slide.reader == "direct"
        assert [(size.width, size.height) for size in slide.level_sizes] == [(1333, 907), (666, 453), (333, 226)][
            : len(slide.level_sizes)
        ]
        for level, (width, height) in enumerate(reference.level_dimensions):
            ours = slide.read_region(Box(0, 0, width, height), level)
            np.testing.assert_array_equal(ours, on_white(reference, (0, 0), level, (width, height)))


def test_tiles_anywhere_are_openslides(variety_file: Path) -> None:
    """Across the file's tiles, over the edges, twice the same, in the order asked for."""
    rng = np.random.default_rng(1)
    xy_px0 = rng.integers(-150, 1400, (60, 2))
    xy_px0 = np.concatenate([xy_px0, xy_px0[:5], [[5000, 5000], [-500, 0]]])
    with open_slide(variety_file) as slide, openslide.OpenSlide(variety_file) as reference:
        tiles = slide.read_squares(xy_px0, side_px0=100, side_px=100)
        for tile, (x, y) in zip(tiles, xy_px0.tolist(), strict=True):
            np.testing.assert_array_equal(tile, on_white(reference, (x, y), 0, (100, 100)))


def test_properties_and_levels_are_openslides(variety_file: Path) -> None:
    with open_slide(variety_file) as slide, openslide.OpenSlide(variety_file) as reference:
        assert dict(slide.properties) == dict(reference.properties)
        assert slide.vendor == reference.properties["openslide.vendor"]
        assert slide.level_downsamples[: reference.level_count] == pytest.approx(reference.level_downsamples)
        stated = reference.properties.get("openslide.mpp-x")
        assert slide.mpp == (None if stated is None else pytest.approx(float(stated)))


def test_subifds_are_levels_though_openslide_does_not_see_them(tmp_path: Path) -> None:
    hidden = write_slide(tmp_path / "hidden.tiff", PICTURE, VARIETIES["subifds"])
    plain = write_slide(tmp_path / "plain.tiff", PICTURE, VARIETIES["ycbcr 4:2:0"])
    with open_slide(hidden) as slide, open_slide(plain) as reference, openslide.OpenSlide(hidden) as blind:
        assert blind.level_count == 1
        assert slide.level_sizes == reference.level_sizes
        for level, size in enumerate(slide.level_sizes):
            box_px = Box(0, 0, size.width, size.height)
            np.testing.assert_array_equal(slide.read_region(box_px, level), reference.read_region(box_px, level))


def test_colours_are_those_of_the_picture(tmp_path: Path) -> None:
    """RGB taken for YCbCr would be far off; OpenSlide could share our mistake, the picture cannot."""
    path = write_slide(tmp_path / "rgb.tiff", PICTURE, Variety(rgb_unmarked, rgb=True))
    with open_slide(path) as slide:
        off = slide.read_region(Box(0, 0, 1333, 907)).astype(int) - PICTURE
        assert np.abs(off).mean() < 4
        coarse = slide.read_region(Box(0, 0, 666, 453), level=1).astype(int) - halved(PICTURE)
        assert np.abs(coarse).mean() < 4


@pytest.mark.parametrize("name", ["CMU-1-Small-Region.svs", "csf_metastasis_PAP-1_full.tiff"])
def test_real_slides_are_openslides(shared_data: Path, name: str) -> None:
    path = shared_data / "slides" / name
    rng = np.random.default_rng(2)
    with open_slide(path) as slide, openslide.OpenSlide(path) as reference:
        assert slide.reader == "direct"
        assert dict(slide.properties) == dict(reference.properties)
        for level, size in enumerate(slide.level_sizes):
            if size.width < 4000:
                whole = Box(0, 0, size.width, size.height)
                theirs = on_white(reference, (0, 0), level, (size.width, size.height))
                np.testing.assert_array_equal(slide.read_region(whole, level), theirs)
        edge = np.array([slide.size_px0.width, slide.size_px0.height])
        xy_px0 = np.concatenate([rng.integers(-100, edge, (200, 2)), [edge - 60]])
        tiles = slide.read_squares(xy_px0, 128, 128)
        for tile, (x, y) in zip(tiles, xy_px0.tolist(), strict=True):
            np.testing.assert_array_equal(tile, on_white(reference, (x, y), 0, (128, 128)))


def test_each_tile_of_the_file_is_decoded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_slide(tmp_path / "slide.tiff", PICTURE, Variety())
    xy_px0 = np.random.default_rng(3).integers(-50, 800, (200, 2))
    touched = {
        (column, row)
        for x, y in xy_px0.tolist()
        for column in range(6)
        for row in range(4)
        if x < min(column * 256 + 256, 1333) and x + 90 > column * 256
        if y < min(row * 256 + 256, 907) and y + 90 > row * 256
    }
    seen: list[bytes] = []

    def counted(stream: bytes, head: bytes, pixels: Pixels) -> None:
        seen.append(stream)
        jpeg.decode(stream, head, pixels)

    monkeypatch.setattr(direct, "decode", counted)
    with open_slide(path) as slide:
        slide.read_squares(xy_px0, 90, 90)
    assert len(seen) == len(set(seen)) == len(touched)


def test_scratch_is_off_every_32_byte_boundary(tmp_path: Path) -> None:
    with open_slide(write_slide(tmp_path / "slide.tiff", PICTURE, Variety(tile=(240, 240)))) as slide:
        assert isinstance(slide, DirectSlide)
        with slide.scratch(0) as pixels, slide.scratch(0) as others:
            assert not np.shares_memory(pixels, others)
            assert pixels.shape == (9, 240, 240, 3)
            assert pixels.flags.c_contiguous
            rows = pixels.ctypes.data + np.arange(9 * 240) * 240 * 3
            assert (rows % 32 != 0).all()
        with slide.scratch(0) as again:
            assert again is pixels or again is others


def test_out_is_filled_and_returned(tmp_path: Path) -> None:
    with open_slide(write_slide(tmp_path / "slide.tiff", PICTURE, Variety())) as slide:
        out = np.zeros((2, 64, 64, 3), np.uint8)
        assert slide.read_squares([[0, 0], [1300, 880]], 64, 64, out) is out
        np.testing.assert_array_equal(out[0], slide.read_region(Box(0, 0, 64, 64)))
        assert (out[1, 27:] == 255).all()
        assert (out[1, :, 33:] == 255).all()
        with pytest.raises(ValueError, match="expected"):
            slide.read_squares([[0, 0]], 64, 64, out)
        assert slide.read_squares(np.empty((0, 2)), 64, 64).shape == (0, 64, 64, 3)


def test_one_handle_serves_many_threads(tmp_path: Path) -> None:
    xy_px0 = np.random.default_rng(4).integers(0, 800, (40, 2))
    with open_slide(write_slide(tmp_path / "slide.tiff", PICTURE, Variety()), threads=3) as slide:
        alone = slide.read_squares(xy_px0, 128, 128)
        with ThreadPoolExecutor(6) as pool:
            for tiles in pool.map(lambda _: slide.read_squares(xy_px0, 128, 128), range(24)):
                np.testing.assert_array_equal(tiles, alone)


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_opened_again_in_another_process(tmp_path: Path, start: str) -> None:
    path = write_slide(tmp_path / "slide.tiff", PICTURE, Variety())
    with open_slide(path) as slide:
        here = int(slide.read_squares([[40, 40]], 300, 300).sum())  # threads have run before the fork
        with multiprocessing.get_context(start).Pool(1) as pool:
            assert pool.apply_async(corner_sum, (path,)).get(timeout=30) == here


def test_verification_counts_its_steps(tmp_path: Path) -> None:
    with open_slide(write_slide(tmp_path / "slide.tiff", PICTURE, Variety())) as slide:
        steps: list[float] = []
        assert slide.damaged(steps.append) == []
        assert sum(steps) == slide.verify_steps == 6 * 4 + 3 * 2 + 2 * 1
