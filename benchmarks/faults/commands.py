"""What is disturbed: `aspirate predict` and `aspirate crossval` on a cohort so small that a run takes seconds."""

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.hostile.small_bundle import bundle_files

ASPIRATE = (sys.executable, "-m", "aspirate")
SLIDES = 9
SMALL = (
    "side_px=32", "mpp=1.0", "scout.use=false", "informativeness.batch=16", "informativeness.least_steps=12",
    "informativeness.epochs=1", "informativeness.drawn_per_slide=32", "informativeness.shift_px=4",
    "malignancy.batch=16", "malignancy.epochs=3", "malignancy.tiles_per_slide=8", "selection.tiles=16",
    "adequacy.groups=1", "bags.bags=2", "bags.tiles=8",
)  # fmt: skip
COMPARED = ("predictions.csv", "metrics.json")


@dataclass(frozen=True, slots=True)
class Command:
    """A command line that lacks only where to write to."""

    name: str
    arguments: tuple[str, ...]

    def to(self, out: Path) -> list[str]:
        return [*ASPIRATE, *self.arguments, "-o", str(out)]


def make_material(folder: Path) -> Path:
    """A cohort and a model, unless they are there."""
    cohort, model = folder / "cohort", folder / "model"
    if not (cohort / "cohort.csv").exists():
        knobs = ("--slides", str(SLIDES), "--size", "384x384", "--mpp", "1.0", "--annotated", "1.0", "--sites", "1")
        more = ("--set", "malignant=0.5", "--readers", "1", "--seed", "3", "--workers", "1")
        subprocess.run([*ASPIRATE, "synth", str(cohort), *knobs, *more], check=True, capture_output=True)
    if not (model / "model.json").exists():
        model.mkdir(parents=True, exist_ok=True)
        for name, data in bundle_files().items():
            (model / name).write_bytes(data)
    return cohort


def commands(folder: Path, names: Sequence[str]) -> list[Command]:
    """With the engine named: which one is fastest may differ from start to start, and with it the last digit."""
    cohort = make_material(folder)
    settings = [part for change in SMALL for part in ("--set", change)]
    known = {
        "predict": ("predict", str(folder / "model"), str(cohort / "cohort.csv"), "--engine", "torch"),
        "crossval": ("crossval", str(cohort), "--folds", "3", "--methods", "proposed-uy", *settings),
    }
    return [Command(name, known[name]) for name in names]


def results(out: Path) -> dict[str, bytes]:
    """What must be the same to the last byte."""
    return {name: (out / name).read_bytes() for name in COMPARED if (out / name).exists()}


def files(out: Path) -> set[str]:
    return {str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()}
