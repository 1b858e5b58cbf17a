"""A model bundle with untrained nets: as small as they come, but whole."""

import tempfile
from pathlib import Path

import numpy as np

from aspirate.nn.tile_net import TileNet, seeded
from aspirate.stages.calibration import Calibration
from aspirate.workflow.bundle import Bundle, save_bundle
from aspirate.workflow.recipe import load_recipe

SIDE_PX = 16


def bundle() -> Bundle:
    return Bundle(
        recipe=load_recipe("compact", {"side_px": SIDE_PX, "mpp": 1.0, "scout.use": False, "adequacy.groups": 1}),
        informativeness=seeded(1, lambda: TileNet("vgg11-quarter", SIDE_PX)).eval(),
        malignancy=seeded(2, lambda: TileNet("vgg11-quarter", SIDE_PX)).eval(),
        confident=0.5,
        cuts={"Y": [0.0], "S": [-1.5, 0.25, 1.0, 2.0]},
        threshold=0.0,
        calibration=Calibration(slope=1.0, offset=0.0, benign=100, malignant=100),
        mpp_range=(0.25, 1.0),
        figures={"slide_auc": 0.5},
        slides={"train": 1, "validation": 1},
    )


def bundle_files() -> dict[str, bytes]:
    tiles = np.random.default_rng(0).integers(0, 256, (4, SIDE_PX, SIDE_PX, 3), np.uint8)
    with tempfile.TemporaryDirectory() as folder:
        save_bundle(Path(folder), bundle(), tiles)
        return {path.name: path.read_bytes() for path in sorted(Path(folder).iterdir())}
