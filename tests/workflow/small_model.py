"""A small model on disk and slides for it, and a model that takes its process along on one slide."""

import json
import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tifffile
import torch
from numpy.typing import NDArray

from aspirate.core.log import LOG_FILE
from aspirate.core.records import SlideEntry
from aspirate.engines.torch_engine import TorchEngine
from aspirate.nn.tile_net import TileNet, seeded
from aspirate.stages.calibration import Calibration
from aspirate.workflow.bundle import Bundle, save_bundle
from aspirate.workflow.predict import Model, SlideResult, load_model
from aspirate.workflow.recipe import Recipe
from aspirate.workflow.slide_job import ModelAt

SIDE = 32
PX_PER_CM = 40_000
"""0.25 µm per pixel."""


def tile_net(seed: int) -> TileNet:
    """Random, with scores about 0 that differ from tile to tile."""
    net = seeded(seed, lambda: TileNet("vgg11-quarter", SIDE)).eval()
    tiles = blocks(seed=99, rows=2, columns=128).reshape(SIDE, -1, SIDE, 3).swapaxes(0, 1)
    scores = TorchEngine(net).score(np.ascontiguousarray(tiles))
    with torch.no_grad():
        net.last.weight /= float(scores.std())
        net.last.bias.sub_(float(np.median(scores))).div_(float(scores.std()))
    return net


def blocks(seed: int, rows: int = 13, columns: int = 17) -> NDArray[np.uint8]:
    """Squares of 16 pixels, each of its own colour."""
    coarse = np.random.default_rng(seed).integers(0, 256, (rows, columns, 3), np.uint8)
    return np.kron(coarse, np.ones((16, 16, 1), np.uint8))


def write_tiff(path: Path, seed: int, px_per_cm: int | None = PX_PER_CM) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    tifffile.imwrite(
        path,
        blocks(seed),
        tile=(64, 64),
        compression="jpeg",
        photometric="rgb",
        metadata=None,
        resolution=None if px_per_cm is None else (px_per_cm, px_per_cm),
        resolutionunit=None if px_per_cm is None else "CENTIMETER",
    )
    return path


def small_bundle() -> Bundle:
    recipe = Recipe.of({"side_px": SIDE, "adequacy": {"groups": 1}, "selection": {"tiles": 12, "least": 3}})
    return Bundle(
        recipe=recipe,
        informativeness=tile_net(1),
        malignancy=tile_net(2),
        confident=0.5,
        cuts={"Y": [0.0], "S": [-1.0, -0.25, 0.5, 1.25]},
        threshold=0.0,
        calibration=Calibration(1.0, 0.1, 6, 3),
        mpp_range=(0.25, 0.25),
        figures={},
        slides={"train": 8, "validation": 9},
    )


def save_small_model(folder: Path) -> Path:
    torch.set_num_threads(1)
    tiles: NDArray[np.uint8] = np.random.default_rng(0).integers(0, 256, (4, SIDE, SIDE, 3), np.uint8)
    save_bundle(folder, small_bundle(), tiles)
    return folder


def small_slides(folder: Path, count: int = 4) -> Sequence[SlideEntry]:
    """The last cannot be read."""
    slides = [SlideEntry(f"s{n}", write_tiff(folder / f"s{n}.tiff", seed=n), malignant=n == 1) for n in range(count)]
    cut = folder / "cut.tiff"
    cut.write_bytes(slides[0].path.read_bytes()[:2000])
    return [*slides, SlideEntry("cut", cut)]


class Deadly(Model):
    def predict(self, slide: Any, *args: Any, **kwargs: Any) -> SlideResult:
        if slide.slide_id == "s2":
            os.kill(os.getpid(), signal.SIGSEGV)
        return super().predict(slide, *args, **kwargs)


@dataclass(frozen=True, slots=True)
class DeadlyModelAt(ModelAt):
    def __call__(self) -> Model:
        return Deadly(load_model(self.folder).bundle, self.engine)


def files_of(out: Path) -> dict[str, bytes]:
    """All that must be the same every time; the log tells the time."""
    paths = (path for path in sorted(out.rglob("*")) if path.is_file() and path.name != LOG_FILE)
    return {str(path.relative_to(out)): path.read_bytes() for path in paths}


def log_of_slides(out: Path) -> set[tuple[str, int]]:
    """What was told of each slide by its number."""
    lines = (json.loads(line) for line in (out / LOG_FILE).read_text(encoding="utf-8").splitlines())
    return {(line["event"], line["slide"]) for line in lines if "slide" in line}
