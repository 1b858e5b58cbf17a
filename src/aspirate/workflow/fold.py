"""One fold of a cross-validation: stage 1 once, then one unit of work for every method.

fold-<k>/informativeness tiles cache     stage 1 and its screening, shared by the methods that use it
fold-<k>/<method>/                       predictions.csv, validation.csv, history.json, model.safetensors, unit.json

A unit is done when its `unit.json` is there, which is written last. Slides to test on are read when everything else has
been learned and chosen: labels to learn from, thresholds and calibration come from the other slides alone.
"""

import json
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np

from aspirate.core.errors import AspirateError
from aspirate.core.geometry import TileGrid
from aspirate.core.predictions import Prediction, write_predictions
from aspirate.core.progress import Bar, Stages, silent_stages
from aspirate.core.ranking import auc
from aspirate.core.records import SlideEntry
from aspirate.core.store import write_json
from aspirate.core.tile_file import read_tiles, write_tiles
from aspirate.evaluation.splits import Split
from aspirate.learning.checkpoints import save_tensors
from aspirate.learning.device import choose_compute
from aspirate.learning.loop import CHECKPOINT_FILE
from aspirate.learning.tile_bank import TileBank
from aspirate.slides.reader import open_slide
from aspirate.slides.shelf import Shelf
from aspirate.slides.tile_labels import tiles_met
from aspirate.stages.calibration import decision_threshold, fit_calibration
from aspirate.stages.informativeness import Informativeness
from aspirate.stages.slide_score import Adequacy, adequacy
from aspirate.workflow.first_stage import FirstStage, Slides
from aspirate.workflow.methods import SHOWN, Method
from aspirate.workflow.opinion import Opinion, failed_row, prediction_of, slide_cuts
from aspirate.workflow.recipe import Recipe
from aspirate.workflow.run_folder import RunFolder
from aspirate.workflow.second_stage import Fitting, Proposed, fitting_of

PREDICTIONS_FILE, VALIDATION_FILE, UNIT_FILE, STAGE_1_FILE = (
    "predictions.csv",
    "validation.csv",
    "unit.json",
    "stage1.json",
)


class Fold:
    """`first` knows the split, the recipe and the folder."""

    def __init__(self, number: int, first: FirstStage) -> None:
        self.number, self.first = number, first
        self.slides, self.split, self.recipe = first.slides, first.split, first.recipe

    def folder(self, method: Method) -> Path:
        return self.first.folder.root / method.slug

    def stage_1(self, stages: Stages) -> Informativeness:
        """Trained and applied to every slide, or taken up where that is done."""
        self.first.stages = stages
        return self.informativeness

    @cached_property
    def learned(self) -> Informativeness:
        return self.first.learned()

    @cached_property
    def informativeness(self) -> Informativeness:
        found = self.learned
        self.first.screen(found, self.split.everyone)
        path = self.first.folder.root / STAGE_1_FILE
        if not path.exists():
            write_json(path, self._stage_1_figures(found))
        return found

    def _stage_1_figures(self, found: Informativeness) -> dict[str, float]:
        """On held-out marked tiles against drawn ones, and on test slides against all tiles that nobody marked."""
        best = found.kept
        scores, marked = [np.empty(0, np.float32)], [np.empty(0, bool)]
        for entry in self.slides.present(self.split.test):
            if entry.slide_id not in self.slides.annotated:
                continue
            with open_slide(entry.path, mpp=entry.mpp, name=entry.slide_id) as slide:
                marks = self.slides.annotations.read(entry.slide_id, slide.bounds_px0)
                grid: TileGrid = self.first.grid(slide.size_px0, entry)
            scores.append(read_tiles(self.first.folder.tiles(entry.slide_id)).values["informativeness"])
            marked.append(np.zeros(len(grid), bool))
            marked[-1][tiles_met(grid, marks)[1]] = True
        f, u = np.concatenate(scores), np.concatenate(marked)
        figures = {"auc": best["auc"], "mean_positive": best["mean_positive"], "test_marked_tiles": int(u.sum())}
        if u.any():
            figures |= {"test_mean_positive": float(f[u].mean())} | ({} if u.all() else {"test_auc": auc(f, u)})
        return figures | {"confident_from": self.first.confident(found)}

    def unit(self, method: Method, shelf: Shelf) -> None:
        """Learn, choose, then look at test slides."""
        folder = self.folder(method)
        informativeness = self.informativeness if "U" in method.labels else None
        fitting = fitting_of(method, self.recipe, self.first, informativeness, shelf)
        what = f"fold {self.number} · {method.name}"
        history = fitting.fit(what, folder, self.first.compute, self.first.stages)
        validation, failed = self._opinions(fitting, self.split.validation, f"{what} · validation")
        known = [(opinion.score, entry.malignant) for entry, opinion in validation if entry.malignant is not None]
        if len({malignant for _, malignant in known}) < 2:
            raise AspirateError(f"{what}: no benign, or no malignant slide to validate on; use fewer folds")
        f, y = np.array([score for score, _ in known]), np.array([bool(malignant) for _, malignant in known])
        calibration, threshold = fit_calibration(f, y), decision_threshold(f, y)
        cuts = slide_cuts(self.recipe.malignancy, validation)

        def rows(opinions: list[tuple[SlideEntry, Opinion]], failures: list[Prediction]) -> list[Prediction]:
            said = (str(self.number), method.name)
            found = [
                prediction_of(entry, opinion.recut(cuts), calibration, threshold, self._enough(method, entry), *said)
                for entry, opinion in opinions
            ]
            return found + [replace(row, fold=said[0], method=said[1]) for row in failures]

        write_predictions(folder / VALIDATION_FILE, rows(validation, failed))
        test, failed = self._opinions(fitting, self.split.test, f"{what} · test")
        write_predictions(folder / PREDICTIONS_FILE, rows(test, failed + self._left_out()))
        if method.name == SHOWN and isinstance(fitting, Proposed):
            self._keep_tile_scores(fitting)
        write_json(folder / "history.json", history)
        save_tensors(folder / "model.safetensors", fitting.learner.module.state_dict(), {"method": method.name})
        note = {
            "method": method.name,
            "cuts": fitting.cuts,
            "slide_cuts": cuts,
            "threshold": threshold,
            "calibration": asdict(calibration),
            "figures": {"validation_auc": auc(f, y)},
        }
        write_json(folder / UNIT_FILE, note)
        (folder / CHECKPOINT_FILE).unlink(missing_ok=True)

    def _opinions(
        self, fitting: Fitting, slide_ids: tuple[str, ...], what: str
    ) -> tuple[list[tuple[SlideEntry, Opinion]], list[Prediction]]:
        """Of slides that can be read; the others are rows with their error."""
        found, failed = [], []
        entries = self.slides.present(slide_ids)
        with self.first.stages(what, len(entries), "slides") as advance:
            for entry in entries:
                try:
                    found.append((entry, fitting.opinion(entry)))
                except AspirateError as error:
                    failed.append(failed_row(entry, str(error)))
                advance(1)
        return found, failed

    def _left_out(self) -> list[Prediction]:
        """Test slides that failed before."""
        lost = [slide_id for slide_id in self.split.test if slide_id in self.slides.failures]
        return [Prediction(slide_id, status="failed", error=self.slides.failures[slide_id]) for slide_id in lost]

    def _enough(self, method: Method, entry: SlideEntry) -> Adequacy | None:
        if "U" not in method.labels:
            return None
        table = read_tiles(self.first.folder.tiles(entry.slide_id))
        confident = table.values["informativeness"] >= self.first.confident(self.informativeness)
        return adequacy(confident, table.corners_px0, table.side_px0, self.recipe.adequacy)

    def _keep_tile_scores(self, fitting: Proposed) -> None:
        """Beside the informativeness of test slides, for whoever wants to see where a score comes from."""
        for entry in self.slides.present(self.split.test):
            path = self.first.folder.tiles(entry.slide_id)
            table = read_tiles(path)
            malignancy = np.full(len(table), np.nan, np.float32)
            malignancy[table.values["selected"]] = fitting.tile_scores(entry)
            write_tiles(path, replace(table, values={**table.values, "malignancy": malignancy}))


@dataclass(frozen=True, slots=True)
class FoldPlan:
    """What whoever works on a fold must know of it."""

    run: Path
    number: int
    split: Split = field(compare=False)
    recipe: Recipe = field(compare=False)
    slides: Slides = field(compare=False)
    """Those the doctor found usable."""
    bf16: bool = field(compare=False)
    """Decided once for a run, since it is measured where the recipe leaves it open."""

    @property
    def folder(self) -> RunFolder:
        return RunFolder(self.run / f"fold-{self.number}")

    def is_done(self, method: Method) -> bool:
        return (self.folder.root / method.slug / UNIT_FILE).exists()

    def open(self) -> Fold:
        compute = choose_compute("bf16" if self.bf16 else "fp32", devices=1)
        shared = TileBank(RunFolder(self.run).cache)
        slides = self.slides.copy()
        return Fold(
            self.number, FirstStage(slides, self.split, self.recipe, self.folder, compute, silent_stages, shared)
        )


@lru_cache(maxsize=8)
def fold_at_hand(plan: FoldPlan) -> Fold:
    """Kept from one unit to the next of the same fold, so that stage 1 is not taken up again for each."""
    return plan.open()


@dataclass(frozen=True, slots=True)
class LearnJob:
    """Stage 1 of a fold learns; says which slides it had to leave out, and why."""

    plan: FoldPlan

    def __call__(self, stages: Stages, /) -> dict[str, str]:
        fold = self.open(stages)
        _ = fold.learned
        return dict(fold.slides.failures)

    def open(self, stages: Stages) -> Fold:
        def of_fold(what: str, total: float, unit: str) -> AbstractContextManager[Bar]:
            return stages(f"fold {self.plan.number} · {what}", total, unit)

        fold = fold_at_hand(self.plan)
        fold.first.stages = of_fold
        return fold


@dataclass(frozen=True, slots=True)
class ScreenJob(LearnJob):
    """What stage 1 has learned looks at some slides."""

    slide_ids: tuple[str, ...]

    def __call__(self, stages: Stages, /) -> dict[str, str]:
        fold = self.open(stages)
        fold.first.screen(fold.learned, self.slide_ids)
        return dict(fold.slides.failures)


@dataclass(frozen=True, slots=True)
class StageOneJob(LearnJob):
    """The end of stage 1: what is left of it, and its figures."""

    def __call__(self, stages: Stages, /) -> dict[str, str]:
        fold = self.open(silent_stages)  # others did the work
        _ = fold.informativeness
        return dict(fold.slides.failures)


@dataclass(frozen=True, slots=True)
class MethodJob:
    """One method on one fold, after stage 1 where it sees the tiles that stage 1 kept."""

    plan: FoldPlan
    method: Method

    def __call__(self, stages: Stages, /) -> None:
        if self.plan.is_done(self.method):
            return
        if "U" in self.method.labels:
            fold = fold_at_hand(self.plan)
            fold.stage_1(silent_stages)  # another unit did the work
        else:  # knows nothing of stage 1, nor which slides that left out
            fold = self.plan.open()
        fold.first.stages = stages
        with Shelf() as shelf:
            fold.unit(self.method, shelf)


def read_unit(folder: Path) -> dict[str, object]:
    note: dict[str, object] = json.loads((folder / UNIT_FILE).read_text(encoding="utf-8"))
    return note
