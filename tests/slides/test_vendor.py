"""What goes through OpenSlide arrives as OpenSlide shows it, on white."""

from pathlib import Path

import numpy as np
import openslide
import pytest
from PIL import Image

from aspirate.core.geometry import Box
from aspirate.slides import vendor
from aspirate.slides.reader import open_slide
from aspirate.slides.slide import RgbArray

NAMES = ["tcga-cr-7395-01a-01-ts1.svs", "test3-DAPI-2-387.ndpi", "highdicom_sm_image.dcm"]


@pytest.mark.parametrize("name", NAMES)
def test_tiles_are_openslides_on_white(shared_data: Path, name: str) -> None:
    path = shared_data / "slides" / name
    with open_slide(path) as slide, openslide.OpenSlide(path) as reference:
        edge = np.array([slide.size_px0.width, slide.size_px0.height])
        xy_px0 = np.concatenate([np.random.default_rng(0).integers(-40, edge, (25, 2)), [edge - 20, edge + 5]])
        tiles = slide.read_squares(xy_px0, 64, 64)
        for tile, (x, y) in zip(tiles, xy_px0.tolist(), strict=True):
            region = reference.read_region((x, y), 0, (64, 64))
            white = Image.new("RGBA", (64, 64), "white")
            expected = Image.alpha_composite(white, region).convert("RGB")
            np.testing.assert_array_equal(tile, np.asarray(expected))
        assert (tiles[-1] == 255).all()


def test_coarser_levels_by_their_own_pixels(shared_data: Path) -> None:
    path = shared_data / "slides" / "test3-DAPI-2-387.ndpi"
    with open_slide(path) as slide, openslide.OpenSlide(path) as reference:
        ours = slide.read_region(Box(101, 37, 90, 70), level=3)
        theirs = reference.read_region((808, 296), 3, (90, 70)).convert("RGB")
        np.testing.assert_array_equal(ours, np.asarray(theirs))


def test_downsample_that_is_not_whole_shifts_by_less_than_half_a_pixel(shared_data: Path) -> None:
    """The same level by both readers: OpenSlide interpolates, since its corner is in level-0 pixels."""
    path = shared_data / "slides" / "csf_metastasis_PAP-1_full.tiff"
    what = vendor.describe(path, "csf")
    assert what is not None
    with open_slide(path) as slide, vendor.VendorSlide(path, "csf", what, None) as through:
        box_px = Box(1001, 900, 200, 200)
        ours = slide.read_region(box_px, level=4).astype(int)
        theirs = through.read_region(box_px, level=4).astype(int)
        assert slide.level_downsamples[4] == pytest.approx(16.0023, abs=1e-4)
        assert np.abs(ours - theirs).max() <= 16
        assert np.abs(ours - theirs).mean() < 0.5
        np.testing.assert_array_equal(slide.read_region(box_px, level=3), through.read_region(box_px, level=3))


def test_verification_reads_every_block(shared_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vendor, "BLOCK_PX", 512)
    seen: list[tuple[int, Box]] = []
    plain = vendor._read

    def counted(handle: openslide.OpenSlide, level: int, box_px: Box) -> RgbArray:
        seen.append((level, box_px))
        return plain(handle, level, box_px)

    monkeypatch.setattr(vendor, "_read", counted)
    with open_slide(shared_data / "slides" / "test3-DAPI-2-387.ndpi") as slide:
        steps: list[float] = []
        assert slide.damaged(steps.append) == []
        assert sum(steps) == slide.verify_steps == len(seen) == 8 * 10 + 4 * 5 + 2 * 3 + 1 * 2 + 3
        for level, size in enumerate(slide.level_sizes):
            assert sum(box.width * box.height for at, box in seen if at == level) == size.width * size.height
