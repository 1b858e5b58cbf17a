"""A small model on disk and slides for it, and a model that takes its process along on one slide."""

import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tests.workflow.test_predict_many import SIDE, tile_net, write_tiff

from aspirate.core.records import SlideEntry
from aspirate.stages.calibration import Calibration
from aspirate.workflow.bundle import Bundle, save_bundle
from aspirate.workflow.predict import Model, SlideResult, load_model
from aspirate.workflow.recipe import Recipe
from aspirate.workflow.slide_job import ModelAt


def save_small_model(folder: Path) -> Path:
    torch.set_num_threads(1)
    recipe = Recipe.of({"side_px": SIDE, "adequacy": {"groups": 1}, "selection": {"tiles": 12, "least": 3}})
    bundle = Bundle(
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
    tiles: NDArray[np.uint8] = np.random.default_rng(0).integers(0, 256, (4, SIDE, SIDE, 3), np.uint8)
    save_bundle(folder, bundle, tiles)
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
    return {str(path.relative_to(out)): path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file()}
