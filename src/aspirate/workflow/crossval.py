"""Every method on every fold of one cohort, each a unit of work that is skipped when it is done.

splits.json                                   the folds, written before any training
fold-<k>/                                     see workflow/fold.py
predictions.csv validation.csv                all units so far together
models.json stage1.json crossval.json         cuts and thresholds; stage 1's figures; which cohort, what was skipped
"""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from aspirate.core.errors import ConfigError
from aspirate.core.lock import locked
from aspirate.core.log import DEBUG, ERROR, INFO, log_of, tell
from aspirate.core.predictions import Prediction, read_predictions, write_predictions
from aspirate.core.progress import Stages, silent_stages
from aspirate.core.store import PROVENANCE_FILE, clear_parts, write_json
from aspirate.evaluation.splits import Split, choose_folds, folds_of_cohort, too_few_annotated
from aspirate.learning.device import choose_compute
from aspirate.slides.cohort import Cohort
from aspirate.slides.doctor import Checking, check_here, examine
from aspirate.workflow.checking import check_apart
from aspirate.workflow.first_stage import Slides
from aspirate.workflow.fold import (
    PREDICTIONS_FILE,
    STAGE_1_FILE,
    VALIDATION_FILE,
    FoldPlan,
    LearnJob,
    MethodJob,
    ScreenJob,
    StageOneJob,
    fold_at_hand,
    read_unit,
)
from aspirate.workflow.launch import HERE, Executor, Needs, Outcome, Unit
from aspirate.workflow.methods import METHODS, Method, divide, left_of
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
    threads: int = 1
    """Of each unit, whoever does it: sums are rounded in the order in which threads share them, so a run keeps to one
    number. Units side by side get more out of a machine than threads within one."""
    gpus: int | None = None
    """Of each unit; one where this machine has any, unless told."""

    def needs(self) -> Needs:
        here = int(choose_compute("fp32").accelerator == "cuda")
        return Needs(self.threads, UNIT_MEMORY_MB, here if self.gpus is None else self.gpus)


EVERYTHING = Plan()
SLIDES_A_UNIT = 8
"""That stage 1 looks at; fewer would have it taken up again too often, more would keep others waiting."""
UNIT_MEMORY_MB = 1000
"""What a unit of the compact recipe takes; larger ones are found to be so as they go."""
WRITING_LOCK = ".writing.lock"
"""Of files that belong to the whole run, where processes share it by folds."""


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
    executor: Executor = HERE,
) -> CrossvalSummary:
    """Results are the same whichever executor does the units."""
    with locked(run, shared=bool(plan.only)), ExitStack() as held:
        check = check_here if executor is HERE else check_apart
        summary, folds = _prepare(cohort_path, recipe, run, plan, stages, check)
        for fold in folds if plan.only else ():
            held.enter_context(locked(fold.folder.root))
        clear_parts(run)
        numbers = [fold.number for fold in folds]
        held.enter_context(log_of(run, "crossval", methods=len(summary.methods), folds=numbers, threads=plan.threads))
        held.callback(fold_at_hand.cache_clear)
        work = _Work(cohort_path, summary, folds, plan.needs(), grid(summary.methods, summary.folds))
        work.through(executor, stages)
    return summary


def _prepare(
    cohort_path: Path, recipe: Recipe, run: Path, plan: Plan, stages: Stages, check: Checking
) -> tuple[CrossvalSummary, list[FoldPlan]]:
    """What can be done, and the folds to do now; the folder is the run's from here on."""
    folder, cohort_path = RunFolder(run), cohort_path.absolute()  # elsewhere another folder may be the current one
    cohort = Cohort.read(cohort_path)
    with stages("checking", len(cohort.entries), "slides") as advance:
        examination = examine(cohort_path, advance=advance, check=check)
    able, skipped = divide(plan.methods, examination)
    slides = Slides.of(cohort, examination)
    slides.annotations = replace(slides.annotations, share=plan.annotations)
    chosen, too_few = _splits(folder, cohort, slides, recipe, plan, able)
    able, skipped = left_of(able, skipped | too_few, examination.source)
    if unknown := sorted(set(plan.only) - set(range(len(chosen)))):
        raise ConfigError(f"--fold {unknown[0]}: there are folds 0 to {len(chosen) - 1}")
    with locked(run, WRITING_LOCK, wait=True):
        folder.claim(recipe, cohort_fingerprint(cohort, slides.annotations), cohort_path)
        write_splits(folder.splits, chosen)
        _refuse_other_threads(folder, plan)
        bf16 = folder.rounding(recipe.precision)
    summary = CrossvalSummary(run, folder.predictions, able, len(chosen), skipped, left_out=dict(slides.failures))
    wanted = sorted(set(plan.only)) or range(len(chosen))
    return summary, [FoldPlan(run.absolute(), number, chosen[number], recipe, slides, bf16) for number in wanted]


def _refuse_other_threads(folder: RunFolder, plan: Plan) -> None:
    """Sums of another number of threads may differ in their last bit; noted at the first start."""
    path = folder.root / PROVENANCE_FILE
    note = json.loads(path.read_text(encoding="utf-8"))
    if "threads" not in note:
        note |= {"threads": plan.threads}
        write_json(path, note)
    if (threads := note["threads"]) != plan.threads:
        raise ConfigError(
            f"{folder.root}: holds a run of {threads} threads a unit; use --threads {threads}, or choose another folder"
        )


def units_of(folds: Sequence[FoldPlan], methods: Sequence[Method], needs: Needs) -> list[Unit]:
    """What is still to be done: stage 1 of each fold for the methods that wait for it, and every method."""
    units = []
    for fold in folds:
        left = [method for method in methods if not fold.is_done(method)]
        first = f"fold {fold.number} · stage 1"
        if any("U" in method.labels for method in left):
            units += _stage_1(fold, first, needs)
        for method in left:
            after = (first,) if "U" in method.labels else ()
            units.append(Unit(f"fold {fold.number} · {method.name}", MethodJob(fold, method), needs, after))
    return units


def _stage_1(fold: FoldPlan, name: str, needs: Needs) -> list[Unit]:
    """It learns, looks at slides, some a unit, and ends when all are looked at."""
    learning = Unit(f"{name}, learning", LearnJob(fold), needs)
    left = [slide_id for slide_id in fold.split.everyone if not fold.folder.tiles(slide_id).exists()]
    screening = [
        Unit(
            f"{name}, slides from {start + 1} of {len(left)}",
            ScreenJob(fold, tuple(left[start : start + SLIDES_A_UNIT])),
            needs,
            (learning.name,),
        )
        for start in range(0, len(left), SLIDES_A_UNIT)
    ]
    return [learning, *screening, Unit(name, StageOneJob(fold), needs, (learning.name, *(u.name for u in screening)))]


class _Work:
    """Units on their way: who watches is told of each, and what is known so far is put together after each."""

    def __init__(
        self, cohort_path: Path, summary: CrossvalSummary, folds: Sequence[FoldPlan], needs: Needs, watch: GridWatch
    ) -> None:
        self.summary, self.watch, self.folds = summary, watch, folds
        self.units = units_of(folds, summary.methods, needs)
        self.methods = {unit.name: unit.job for unit in self.units if isinstance(unit.job, MethodJob)}
        self.errors: dict[str, str] = {}
        names = [method.name for method in summary.methods]
        self.note = {"cohort": str(cohort_path.resolve()), "methods": names, "skipped": summary.skipped}

    def through(self, executor: Executor, stages: Stages) -> None:
        for fold in self.folds:
            for method in self.summary.methods:
                if fold.is_done(method):
                    self.watch(method, fold.number, "done")
        self.put_together()
        with closing(executor.run(self.units, stages, self.begin)) as outcomes:
            for outcome in outcomes:
                self.tell(outcome)
                if outcome.error is not None:
                    self.errors[outcome.name] = outcome.error
                else:
                    self.summary.left_out |= outcome.value or {}
                self.say(outcome.name, "done" if outcome.error is None else "failed")
                self.put_together()

    def begin(self, name: str) -> None:
        tell("unit begun", DEBUG, unit=name)
        self.say(name, "running")

    def tell(self, outcome: Outcome) -> None:
        level, event = (INFO, "unit") if outcome.error is None else (ERROR, "unit failed")
        private = {} if outcome.error is None else {"error": outcome.error}
        tell(event, level, private, unit=outcome.name, seconds=round(outcome.seconds, 3))

    def say(self, name: str, state: State) -> None:
        if job := self.methods.get(name):
            self.watch(job.method, job.plan.number, state)

    def put_together(self) -> None:
        """Failures in the order of the units, whichever ended first."""
        failed = [(job, self.errors[name]) for name, job in self.methods.items() if name in self.errors]
        self.summary.failed = {f"{job.plan.number}/{job.method.name}": why for job, why in failed}
        with locked(self.summary.run, WRITING_LOCK, wait=True):
            gather(self.summary.run, self.summary.folds, self.note | {"failed": self.summary.failed})


def _splits(
    folder: RunFolder, cohort: Cohort, slides: Slides, recipe: Recipe, plan: Plan, methods: Sequence[Method]
) -> tuple[tuple[Split, ...], dict[str, str]]:
    """Folds of an earlier start, of a file, of the cohort's fold column, or dealt now; and the methods that these do
    not allow. Folds that someone chose are used as they are: what a fold lacks is the failure of its own units."""
    everyone = {entry.slide_id: entry for entry in cohort.entries}
    asked = None if plan.splits is None else read_splits(plan.splits, everyone)
    usable = list(slides.entries.values())
    given = folds_of_cohort(usable) if asked is None else asked
    if folder.splits.exists():
        found = read_splits(folder.splits, everyone)
        if asked not in (None, found) or len(found) != (plan.folds if given is None else len(given)):
            raise ConfigError(f"{folder.root}: holds a run of {len(found)} folds, and not those; choose another folder")
    else:
        found = given or _dealt(slides, plan.folds, recipe.seed, methods)
    why = too_few_annotated(found, usable, slides.annotated) if given is None else None
    return found, {method.name: why for method in methods if why and "U" in method.labels}


def _dealt(slides: Slides, folds: int, seed: int, methods: Sequence[Method]) -> tuple[Split, ...]:
    """For all methods, or for those without U where annotations do not go round."""
    usable = list(slides.entries.values())
    without = [method for method in methods if "U" not in method.labels]
    try:
        return choose_folds(usable, folds, seed, slides.annotated, _letters(methods))
    except ConfigError:
        if len(without) in (0, len(methods)):
            raise
    return choose_folds(usable, folds, seed, slides.annotated, _letters(without))


def _letters(methods: Sequence[Method]) -> str:
    return "".join(dict.fromkeys("".join(method.labels for method in methods)))


def gather(run: Path, folds: int, note: Mapping[str, object]) -> None:
    """Put together what all finished units say, whichever start made them."""
    folder = RunFolder(run)
    tables: dict[str, list[Prediction]] = {PREDICTIONS_FILE: [], VALIDATION_FILE: []}
    models, stage_1 = {}, {}
    for method in METHODS:
        for number in range(folds):
            unit = run / f"fold-{number}" / method.slug
            try:
                models[f"{number}/{method.name}"] = read_unit(unit)
            except FileNotFoundError:
                continue
            for name, rows in tables.items():
                rows += read_predictions(unit / name)
    for number in range(folds):
        path = run / f"fold-{number}" / STAGE_1_FILE
        if path.exists():
            stage_1[str(number)] = json.loads(path.read_text(encoding="utf-8"))
    write_predictions(folder.predictions, tables[PREDICTIONS_FILE])
    write_predictions(run / VALIDATION_FILE, tables[VALIDATION_FILE])
    write_json(run / "models.json", models)
    write_json(run / STAGE_1_FILE, stage_1)
    write_json(run / "crossval.json", note)
