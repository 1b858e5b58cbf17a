"""The benchmark of a whole slide: its figures fit together, it measures the real command, and leaves nothing behind."""

import json
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch

from aspirate.core.errors import AspirateError
from aspirate.core.geometry import TileGrid
from aspirate.engines.torch_engine import TorchEngine
from aspirate.nn.tile_net import TileNet, seeded
from aspirate.slides.reader import open_slide
from aspirate.slides.yardsticks import openslide_tiles
from aspirate.stages.calibration import Calibration
from aspirate.synth.cohort import draw_slide, make_cohort
from aspirate.synth.settings import SynthSettings
from aspirate.workflow import bench_slide
from aspirate.workflow.bench_slide import _gflop, measure, run_command, steps_of
from aspirate.workflow.bundle import Bundle, save_bundle
from aspirate.workflow.recipe import Recipe
from aspirate.workflow.trust import Trust

SIDE = 64
SETTINGS = SynthSettings(slides=2, size=(1100, 1100), seed=1, readers=0, annotated=0.0)
pytestmark = pytest.mark.xdist_group("bench_slide")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("slides") / "slide.tiff"
    draw_slide(SETTINGS, path)
    return path


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Nets that know nothing, and a scout that says whatever: here only the measuring is looked at."""
    folder = tmp_path_factory.mktemp("model")
    recipe = Recipe.of({"side_px": SIDE, "selection": {"tiles": 20}, "adequacy": {"groups": 1}})
    nets = [seeded(seed, lambda: TileNet("vgg11-quarter", SIDE)).eval() for seed in (0, 1)]
    bundle = Bundle(
        recipe=recipe,
        informativeness=nets[0],
        malignancy=nets[1],
        confident=0.5,
        cuts={"Y": [0.0]},
        threshold=0.0,
        calibration=Calibration(1.0, 0.0, 50, 50),
        mpp_range=(0.25, 0.25),
        figures={},
        slides={"train": 8, "validation": 4},
        scout=seeded(2, lambda: TileNet("scout", SIDE // 4)).eval(),
        trust=Trust(True, 0.1, 4, 1.0, 1.0, 0.0, 0.1, 0.2),
    )
    reference = np.random.default_rng(0).integers(0, 256, (32, SIDE, SIDE, 3), np.uint8)
    save_bundle(folder, bundle, reference)
    return folder


def test_the_drawn_slide_is_the_first_of_its_cohort(path: Path, tmp_path: Path) -> None:
    make_cohort(SETTINGS, tmp_path)
    assert path.read_bytes() == (tmp_path / "slides" / "slide-001.tiff").read_bytes()


def test_figures(model: Path, path: Path) -> None:
    told: list[float] = []
    figures = measure(model, path, repeats=1, engine="torch", advance=told.append)
    assert sum(told) == steps_of(1)
    assert figures["tiles_scout"] == 24 * 24, "whole blocks of eight by eight"
    assert figures["tiles"] == 18 * 18 and figures["mpx"] == pytest.approx(1.21)
    assert figures["tiles_malignancy"] == 20
    assert float(figures["ratio_naive"]) == pytest.approx(float(figures["seconds_naive"]) / float(figures["seconds"]))
    shares = [float(value) for name, value in figures.items() if name.startswith("share_") and "looked" not in name]
    assert sum(shares) == pytest.approx(1, abs=0.3) and min(shares) >= 0
    assert int(figures["tiles_informativeness"]) == pytest.approx(float(figures["share_looked_at"]) * 324)
    assert 0 <= float(figures["overlap"]) <= 1 and float(figures["delta_probability"]) < 0.5
    assert float(figures["peak_rss_mb"]) > 150, "at least what torch itself takes"
    assert json.loads(json.dumps(figures)) == figures


def test_looking_everywhere_has_nothing_to_agree_with(model: Path, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_slide, "run_command", lambda *asked: (1.0, 100.0))  # seen at work above
    figures = measure(model, path, exact=True, repeats=1, engine="torch")
    assert figures["tiles_informativeness"] == 324 and figures["tiles_scout"] == 0
    assert "overlap" not in figures and figures["exact"] is True


def test_arithmetic_is_counted_as_by_hand() -> None:
    """The scout at 16 px: 9 · in · out multiplications a pixel, twice as many operations, and the last layer."""
    pixels = {(3, 16): 256, (16, 32): 64, (32, 64): 16, (64, 64): 4}
    expected = sum(2 * 9 * a * b * n for (a, b), n in pixels.items()) + 2 * 128
    assert _gflop(TileNet("scout", 16), 16) == pytest.approx(expected / 1e9)


def test_naive_reading_gives_the_same_tiles(path: Path) -> None:
    with open_slide(path) as slide:
        grid = TileGrid.cover(slide.size_px0, 0.25, SIDE)
        corners = grid.corners_px0().reshape(18, 18, 2)[:4, :10].reshape(-1, 2)  # whole ones
        expected = slide.read_squares(corners, SIDE, SIDE)
    found = list(openslide_tiles(path, corners, SIDE, SIDE, batch=16))
    assert [len(batch) for batch in found] == [16, 16, 8]
    assert np.abs(np.concatenate(found).astype(int) - expected).max() <= 2
    net = seeded(0, lambda: TileNet("vgg11-quarter", SIDE)).eval()
    with torch.inference_mode():
        eager = net(torch.from_numpy(expected).permute(0, 3, 1, 2))[:, 0].numpy()
    np.testing.assert_allclose(TorchEngine(net).score(expected), eager, atol=1e-3)


def test_a_command_that_fails_is_said_and_nothing_stays(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(AspirateError, match=r"nothing\.tiff: the command that is measured failed"):
        run_command(model, tmp_path / "nothing.tiff", [])
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_ends_the_command_and_leaves_nothing(
    model: Path, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    children: list[subprocess.Popen[str]] = []

    def pressed(child: "subprocess.Popen[str]") -> None:
        children.append(child)
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess.Popen, "communicate", pressed)
    with pytest.raises(KeyboardInterrupt):
        run_command(model, path, [])
    assert children[0].poll() is not None, "ended"
    assert list(tmp_path.iterdir()) == []
