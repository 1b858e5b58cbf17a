"""Every method on every fold of one cohort, each a unit of work that is skipped when it is done.

splits.json                                   the folds, written before any training
fold-<k>/                                     see workflow/fold.py
predictions.csv validation.csv                all units so far together
models.json stage1.json crossval.json         cuts and thresholds; stage 1's figures; which cohort, what was skipped
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from aspirate.core.errors import AspirateError, ConfigError
from aspirate.core.predictions import Prediction, read_predictions, write_predictions
from aspirate.core.progress import Stages, silent_stages
from aspirate.core.store import write_json
from aspirate.evaluation.splits import Split, choose_folds, folds_of_cohort
from aspirate.learning.device import choose_compute
from aspirate.learning.tile_bank import TileBank
from aspirate.slides.cohort import Cohort
from aspirate.slides.doctor import examine
from aspirate.slides.examination import Examination
from aspirate.slides.shelf import Shelf
from aspirate.workflow.first_stage import FirstStage, Slides
from aspirate.workflow.fold import PREDICTIONS_FILE, STAGE_1_FILE, VALIDATION_FILE, Fold, read_unit
from aspirate.workflow.methods import METHODS, Method
from aspirate.workflow.recipe import Recipe
from aspirate.workflow.run_folder import RunFolder, cohort_fingerprint
from aspirate.workflow.splits_file import read_splits, write_splits

State = Literal["running", "done", "failed"]
GridWatch = Callable[[Method, int, State], None]
"""Told of each unit, method × fold, as it goes."""
Grid = Callable[[tuple[Method, ...], int], GridWatch]
"""Told the methods and the number of folds; gives who watches them."""


def unwatched(methods: tuple[Method, ...], folds: int) -> GridWatch:
    return lambda method, fold, state: None


@dataclass(frozen=True, slots=True)
class Plan:
    """What to compare on which folds."""

    methods: tuple[Method, ...] = METHODS
    folds: int = 5
    splits: Path | None = None
    """A file of folds to use instead of dealing them."""
    only: tuple[int, ...] = ()
    """The folds to do now, all by default; so several processes may share a run."""
    annotations: float = 1.0
    """The share of them that is learned from."""


EVERYTHING = Plan()


@dataclass(slots=True)
class CrossvalSummary:
    run: Path
    predictions: Path
    methods: tuple[Method, ...]
    folds: int
    skipped: dict[str, str]
    """Methods that the cohort's labels do not allow, and why."""
    failed: dict[str, str] = field(default_factory=dict)
    """Units that failed, and why; a second start tries them again."""
    left_out: dict[str, str] = field(default_factory=dict)
    """Slides, and why."""


def crossval(
    cohort_path: Path,
    recipe: Recipe,
    run: Path,
    plan: Plan = EVERYTHING,
    stages: Stages = silent_stages,
    grid: Grid = unwatched,
) -> CrossvalSummary:
    folder = RunFolder(run)
    cohort = Cohort.read(cohort_path)
    with stages("checking", len(cohort.entries), "slides") as advance:
        examination = examine(cohort_path, advance=advance)
    able, skipped = divide(plan.methods, examination)
    slides = Slides.of(cohort, examination)
    slides.annotations = replace(slides.annotations, share=plan.annotations)
    chosen = _splits(folder, cohort, slides, recipe, plan, able)
    if unknown := sorted(set(plan.only) - set(range(len(chosen)))):
        raise ConfigError(f"--fold {unknown[0]}: there are folds 0 to {len(chosen) - 1}")
    folder.claim(recipe, cohort_fingerprint(cohort, slides.annotations), cohort_path)
    write_splits(folder.splits, chosen)
    summary = CrossvalSummary(run, folder.predictions, able, len(chosen), skipped, left_out=dict(slides.failures))
    note = {"cohort": str(cohort_path.resolve()), "methods": [m.name for m in able], "skipped": skipped}
    watch, compute, shared = grid(able, len(chosen)), choose_compute(recipe.precision), TileBank(folder.cache)
    with Shelf() as shelf:
        for number, split in enumerate(chosen):
            if plan.only and number not in plan.only:
                continue
            own = RunFolder(run / f"fold-{number}")
            first = FirstStage(slides.copy(), split, recipe, own, compute, stages, shared)
            fold = Fold(number, first)
            for method in able:
                _do(fold, method, shelf, watch, summary)
                gather(run, chosen, note | {"failed": summary.failed})
            summary.left_out |= first.slides.failures
    return summary


def _do(fold: Fold, method: Method, shelf: Shelf, watch: GridWatch, summary: CrossvalSummary) -> None:
    if not fold.is_done(method):
        watch(method, fold.number, "running")
    try:
        fold.unit(method, shelf)
    except AspirateError as error:  # the boundary of one unit: the others go on
        summary.failed[f"{fold.number}/{method.name}"] = str(error)
        watch(method, fold.number, "failed")
    else:
        watch(method, fold.number, "done")


def divide(methods: Sequence[Method], examination: Examination) -> tuple[tuple[Method, ...], dict[str, str]]:
    """Methods whose labels the cohort has, and why the others are skipped; to be judged, every one needs Y."""
    rows = {row.labels: row for row in examination.trainable}
    if not rows["Y"].possible:
        raise ConfigError(
            f"{examination.source}: methods are compared by telling malignant from benign slides ({rows['Y'].why})"
        )
    skipped = {m.name: rows[m.labels].why for m in methods if not rows[m.labels].possible}
    able = tuple(m for m in methods if m.name not in skipped)
    if not able:
        why = "; ".join(f"{name}: {reason}" for name, reason in skipped.items())
        raise ConfigError(f"{examination.source}: none of the chosen methods can be trained ({why})")
    return able, skipped


def _splits(
    folder: RunFolder, cohort: Cohort, slides: Slides, recipe: Recipe, plan: Plan, methods: Sequence[Method]
) -> tuple[Split, ...]:
    """Those of an earlier start, of a file, of the cohort's fold column, or dealt now."""
    everyone = {entry.slide_id: entry for entry in cohort.entries}
    asked = None if plan.splits is None else read_splits(plan.splits, everyone)
    usable = list(slides.entries.values())
    own = folds_of_cohort(usable) if asked is None else None
    if folder.splits.exists():
        found = read_splits(folder.splits, everyone)
        if asked not in (None, found) or len(found) != len(asked or own or range(plan.folds)):
            raise ConfigError(f"{folder.root}: holds a run of {len(found)} folds, and not those; choose another folder")
        return found
    labels = "".join(dict.fromkeys("".join(method.labels for method in methods)))
    return asked or own or choose_folds(usable, plan.folds, recipe.seed, slides.annotated, labels)


def gather(run: Path, splits: Sequence[Split], note: Mapping[str, object]) -> None:
    """Put together what all finished units say, whichever start made them."""
    folder = RunFolder(run)
    tables: dict[str, list[Prediction]] = {PREDICTIONS_FILE: [], VALIDATION_FILE: []}
    models, stage_1 = {}, {}
    for method in METHODS:
        for number in range(len(splits)):
            unit = run / f"fold-{number}" / method.slug
            try:
                models[f"{number}/{method.name}"] = read_unit(unit)
            except FileNotFoundError:
                continue
            for name, rows in tables.items():
                rows += read_predictions(unit / name)
    for number in range(len(splits)):
        path = run / f"fold-{number}" / STAGE_1_FILE
        if path.exists():
            stage_1[str(number)] = json.loads(path.read_text(encoding="utf-8"))
    write_predictions(folder.predictions, tables[PREDICTIONS_FILE])
    write_predictions(run / VALIDATION_FILE, tables[VALIDATION_FILE])
    write_json(run / "models.json", models)
    write_json(run / STAGE_1_FILE, stage_1)
    write_json(run / "crossval.json", note)
