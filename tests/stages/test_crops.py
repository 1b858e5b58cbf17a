"""Rivals on whole slides: where crops come from, how a slide is scored from them, and that they can learn."""

import ctypes
from pathlib import Path

import numpy as np
import pytest
import tifffile
import torch

from aspirate.core.records import SlideEntry
from aspirate.learning.augment import as_batch, coloured
from aspirate.learning.device import Compute
from aspirate.learning.settings import AugmentSettings
from aspirate.learning.slide_training import train_slides
from aspirate.nn.bag_net import CropNet
from aspirate.nn.pooling import STEEPNESS, NoisyAndPool
from aspirate.slides.shelf import Shelf
from aspirate.stages.crops import CropLearner, CropSettings

PLAIN = AugmentSettings(turn=False, strength=0, hue=0, light=0, focus=0)
SIDE = 32
SIZE = (96, 160)
"""Height and width of a slide: 3 × 5 crops."""


def slide(folder: Path, name: str, pixels: np.ndarray, **labels: object) -> SlideEntry:
    path = folder / f"{name}.tiff"
    tifffile.imwrite(path, pixels, tile=(32, 32), photometric="rgb")
    return SlideEntry(name, path, mpp=0.25, **labels)  # type: ignore[arg-type]


@pytest.fixture
def entries(tmp_path: Path) -> list[SlideEntry]:
    """Red says the slide, green the column, blue the row of a pixel."""
    found = []
    labels: list[dict[str, object]] = [{"malignant": True, "bethesda": 6}, {"malignant": False}, {"bethesda": 4}, {}]
    for number, known in enumerate(labels):
        pixels = np.zeros((*SIZE, 3), np.uint8)
        pixels[..., 0] = number
        pixels[..., 1], pixels[..., 2] = np.arange(SIZE[1]), np.arange(SIZE[0])[:, None]
        found.append(slide(tmp_path, f"s{number}", pixels, **known))
    return found


def learner(entries: list[SlideEntry], shelf: Shelf, **changes: object) -> CropLearner:
    settings = CropSettings.of({"augment": PLAIN, "side_px": SIDE, "crops": 6} | changes)
    return CropLearner(shelf, entries, entries[:2], 0.25, 16, settings, seed=0)


def test_crops_lie_anywhere_within_labelled_slides_and_carry_their_labels(entries: list[SlideEntry]) -> None:
    corners, slides = set(), set()
    with Shelf() as shelf:
        one = learner(entries, shelf)
        for step in range(60):
            pixels, ranks = coloured(one.batch(step))
            assert pixels.shape == (6, 3, SIDE, SIDE)
            for crop, y, s in zip(pixels.numpy(), ranks["Y"].tolist(), ranks["S"].tolist(), strict=True):
                number, x, top = crop[:, 0, 0].tolist()
                assert (y, s) == {0: (1, 4), 1: (0, -1), 2: (-1, 2)}[number]
                assert (crop[1] == x + np.arange(SIDE)).all() and (crop[2] == top + np.arange(SIDE)[:, None]).all()
                corners.add((x, top))
                slides.add(number)
        assert slides == {0, 1, 2}, "a slide without labels teaches nothing"
        assert {max(c) for c in zip(*corners, strict=True)} == {SIZE[1] - SIDE, SIZE[0] - SIDE}
        assert {min(c) for c in zip(*corners, strict=True)} == {0}
        assert torch.equal(coloured(one.batch(5))[0], coloured(learner(entries, shelf).batch(5))[0])


def test_an_epoch_shows_as_many_pixels_as_stage_2(entries: list[SlideEntry]) -> None:
    with Shelf() as shelf:
        assert learner(entries, shelf, tiles_per_slide=80).steps_per_epoch == 10  # 3 · 80 · 16² / (6 · 32²)


@pytest.mark.parametrize("pool", ["cnn", "noisy-and", "attention", "gated-attention"])
def test_a_slide_is_the_mean_over_the_crops_that_cover_it(entries: list[SlideEntry], pool: str) -> None:
    with Shelf() as shelf:
        one = learner(entries, shelf, pool=pool)
        found = one.exceeds(entries[2])
        few = one.exceeds(entries[2], most=3)
    pixels = tifffile.imread(entries[2].path)
    crops = [pixels[y : y + SIDE, x : x + SIDE] for y in range(0, SIZE[0], SIDE) for x in range(0, SIZE[1], SIDE)]
    net = one.module.eval()
    with torch.no_grad():
        each = net(as_batch(np.stack(crops)))  # (15, 5)
    np.testing.assert_allclose(np.concatenate([found["Y"], found["S"]]), each.mean(0), rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(few["Y"], each[[0, 7, 14], :1].mean(0), rtol=1e-3, atol=1e-4)


def test_a_slide_smaller_than_a_crop_has_one_all_the_same(tmp_path: Path) -> None:
    dot = slide(tmp_path, "dot", np.zeros((1, 1, 3), np.uint8), malignant=True)
    with Shelf() as shelf:
        one = learner([dot], shelf)
        found = one.exceeds(dot)
    white = np.full((1, SIDE, SIDE, 3), 255, np.uint8)
    white[0, 0, 0] = 0
    with torch.no_grad():
        expected = one.module.eval()(as_batch(white))[0]
    np.testing.assert_allclose(np.concatenate([found["Y"], found["S"]]), expected, rtol=1e-3, atol=1e-4)


def test_a_crops_places_are_pooled_as_the_pooling_says(entries: list[SlideEntry]) -> None:
    """NoisyAND over the places of a feature map, written out."""
    torch.manual_seed(0)
    net = CropNet("vgg11-quarter", "noisy-and", "Y").eval()
    crops = torch.randint(0, 256, (2, 3, 32, 48), dtype=torch.uint8)
    with torch.no_grad():
        maps = net.convolutions((crops.float() / 255 - 0.5) / 0.25)  # (2, 128, 2, 3)
        pool = net.head.pool
        assert isinstance(pool, NoisyAndPool)
        z = (maps.movedim(1, -1) @ pool.score.weight[0] + pool.score.bias).reshape(2, 6)
        mean, b = torch.sigmoid(z).mean(1), float(pool.place)
        low, high = (1 / (1 + np.exp(STEEPNESS * t)) for t in (b, b - 1))
        expected = torch.logit((torch.sigmoid(STEEPNESS * (mean - b)) - low) / (high - low))
        np.testing.assert_allclose(net(crops)[:, 0], expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("pool", ["cnn", "attention"])
def test_a_rival_learns_that_dark_slides_are_malignant(tmp_path: Path, pool: str) -> None:
    rng = np.random.default_rng(0)
    found = []
    for n in range(12):
        pixels = rng.integers(200, 220, (64, 64, 3)).astype(np.uint8)
        if n % 2:
            pixels[::2] = 60
        found.append(slide(tmp_path, f"s{n}", pixels, malignant=n % 2 == 1, bethesda=2 + 4 * (n % 2)))
    with Shelf() as shelf:
        settings = CropSettings.of(
            {"augment": PLAIN, "side_px": SIDE, "crops": 6, "pool": pool, "epochs": 3, "learning_rate": 0.003}
        )
        one = CropLearner(shelf, found[:8], found[8:], 0.25, 16, settings, seed=0)
        history = train_slides(one, tmp_path / "run", Compute("cpu", 1, bf16=False), lambda _step, _loss: None)
        assert history[-1]["auc"] == 1.0 and history[-1]["loss"] < history[0]["loss"]
        dark, light = ([one.exceeds(e)["Y"][0] for e in found[8:] if e.malignant == kind] for kind in (True, False))
    assert min(dark) > 0 > max(light)


def test_a_shelf_keeps_few_slides_open_and_closes_all(entries: list[SlideEntry]) -> None:
    with Shelf(most=2) as shelf:
        with shelf.slide(entries[0]) as first:
            pass
        for entry in entries[1:]:
            with shelf.slide(entry) as opened:
                assert opened.name == entry.slide_id
        with shelf.slide(entries[3]) as again:
            assert again is opened
        with pytest.raises((OSError, ValueError, ctypes.ArgumentError)):
            first.read_squares(np.array([[0, 0]]), 32, 32)
    with pytest.raises((OSError, ValueError, ctypes.ArgumentError)):
        again.read_squares(np.array([[0, 0]]), 32, 32)
