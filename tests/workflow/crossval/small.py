"""A cross-validation of all rows that takes seconds: its cohort, settings and folds."""

import json
from pathlib import Path

from aspirate.synth.settings import SynthSettings
from aspirate.workflow.recipe import Recipe, load_recipe

COHORT = SynthSettings(slides=18, size=(384, 384), mpp=1.0, annotated=1.0, seed=3, sites=1, malignant=0.5, readers=2)
SMALL = {
    "side_px": 32,
    "mpp": 1.0,
    "informativeness.batch": 16,
    "informativeness.least_steps": 12,
    "informativeness.epochs": 1,
    "informativeness.drawn_per_slide": 32,
    "informativeness.shift_px": 4,
    "malignancy.batch": 16,
    "malignancy.epochs": 2,
    "malignancy.tiles_per_slide": 8,
    "selection.tiles": 16,
    "adequacy.groups": 1,
    "bags.bags": 2,
    "bags.tiles": 8,
    "crops.side_px": 96,
    "crops.crops": 4,
    "crops.judged": 4,
    "crops.drawn": 24,
}
FOLDS = 3


def recipe(**changes: object) -> Recipe:
    return load_recipe("compact", SMALL | {name.replace("__", "."): value for name, value in changes.items()})


def splits_of(run: Path) -> list[dict[str, list[str]]]:
    found: list[dict[str, list[str]]] = json.loads((run / "splits.json").read_text())["folds"]
    return found


def results(run: Path) -> dict[str, bytes]:
    names = ("predictions.csv", "validation.csv", "models.json", "stage1.json", "splits.json")
    return {name: (run / name).read_bytes() for name in names}
