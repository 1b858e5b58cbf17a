"""Doors behind which torch is needed: recipes and model bundles."""

from pathlib import Path

from benchmarks.hostile.doors import digest

from aspirate.workflow.bundle import load_bundle
from aspirate.workflow.recipe import load_recipe


def recipe(path: Path) -> str:
    return digest(load_recipe(str(path)))


def bundle(path: Path) -> str:
    found = load_bundle(path)
    return digest(found.sha256(), found.recipe, found.cuts, found.threshold, found.calibration, found.mpp_range)
