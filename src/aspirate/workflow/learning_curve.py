"""How much local annotations are worth: the method trained anew with a half, a quarter … of them, on the same folds.

learning-curve/<share>/      a cross-validation of one row, as in workflow/crossval.py
learning_curve.csv           share, fold, annotations learned from, slides tested, AUC
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from aspirate.core.learning_points import LearningPoint, write_learning_points
from aspirate.core.predictions import read_predictions
from aspirate.core.progress import Stages, silent_stages
from aspirate.core.ranking import auc
from aspirate.core.store import LEARNING_CURVE_FILE
from aspirate.slides.annotations import AnnotationIndex
from aspirate.slides.cohort import Cohort
from aspirate.workflow.crossval import EVERYTHING, Plan, crossval
from aspirate.workflow.launch import HERE, Executor
from aspirate.workflow.methods import SHOWN, choose_methods
from aspirate.workflow.recipe import Recipe

SHARES = (1 / 16, 1 / 8, 1 / 4, 1 / 2)


def learning_curve(
    cohort_path: Path,
    recipe: Recipe,
    run: Path,
    stages: Stages = silent_stages,
    shares: Sequence[float] = SHARES,
    plan: Plan = EVERYTHING,
    executor: Executor = HERE,
) -> tuple[Path, dict[str, str]]:
    """After a cross-validation in `run` by `plan`, on its folds; units that failed are named with their reason."""
    row = choose_methods([SHOWN])
    places: dict[float, Path] = {1.0: run}
    failed: dict[str, str] = {}
    for share in shares:
        place = run / "learning-curve" / f"{share:g}"
        part = replace(plan, methods=row, splits=run / "splits.json", annotations=share, only=())
        done = crossval(cohort_path, recipe, place, part, stages, executor=executor)
        failed |= {f"{share:g} of the annotations, {unit}": why for unit, why in done.failed.items()}
        places[share] = place
    index = AnnotationIndex.of(Cohort.read(cohort_path).folder)
    points = [point for share in sorted(places) for point in _points(share, places[share], index)]
    write_learning_points(run / LEARNING_CURVE_FILE, points)
    return run / LEARNING_CURVE_FILE, failed


def _points(share: float, place: Path, index: AnnotationIndex) -> list[LearningPoint]:
    folds = json.loads((place / "splits.json").read_text(encoding="utf-8"))["folds"]
    read = AnnotationIndex(index.files, index.rows, share)
    points = []
    tested = [p for p in read_predictions(place / "predictions.csv") if p.method == SHOWN and p.score is not None]
    for number, fold in enumerate(folds):
        own = [p for p in tested if p.fold == str(number) and p.malignant is not None]
        if own:
            known = auc([p.score or 0.0 for p in own], [bool(p.malignant) for p in own])
            count = sum(len(read.read(slide_id)) for slide_id in fold["train"])
            points.append(LearningPoint(share, str(number), count, len(own), known))
    return points
