"""Train one model on a train/validation split of a cohort. Every step leaves a file; finished steps are skipped."""

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from aspirate.core.errors import AspirateError, ConfigError
from aspirate.core.geometry import Size, TileGrid, checked_mpp
from aspirate.core.predictions import Prediction, write_predictions
from aspirate.core.progress import Stages, silent_stages
from aspirate.core.ranking import auc
from aspirate.core.records import SlideEntry
from aspirate.core.store import write_json
from aspirate.core.tile_file import TileTable, read_tiles, write_tiles
from aspirate.engines.torch_engine import TorchEngine
from aspirate.evaluation.splits import Split, choose_holdout
from aspirate.learning.checkpoints import tensors_sha256
from aspirate.learning.device import Compute, choose_compute
from aspirate.learning.tile_bank import TileBank
from aspirate.slides.annotations import AnnotationIndex
from aspirate.slides.cohort import Cohort
from aspirate.slides.doctor import examine
from aspirate.slides.examination import Examination
from aspirate.slides.reader import open_slide
from aspirate.stages.calibration import decision_threshold, fit_calibration
from aspirate.stages.informativeness import (
    MARKED,
    Informativeness,
    InformativenessLearner,
    collect,
    marked_tiles,
    sigmoid,
    train_informativeness,
)
from aspirate.stages.malignancy import KEPT, MalignancyLearner, MarkedTile, train_malignancy
from aspirate.stages.selection import select, tile_weights
from aspirate.stages.slide_score import adequacy, slide_score
from aspirate.workflow.bundle import Bundle, save_bundle
from aspirate.workflow.predict import judged
from aspirate.workflow.recipe import Recipe
from aspirate.workflow.run_folder import RunFolder, cohort_fingerprint
from aspirate.workflow.screen import score_tiles

REFERENCE_TILES = 32


@dataclass(frozen=True, slots=True)
class TrainSummary:
    """What a training leaves behind."""

    model: Path
    figures: dict[str, float]
    failures: dict[str, str]
    """Slides left out, and why."""


def train(
    cohort_path: Path, recipe: Recipe, run: Path, stages: Stages = silent_stages, stage_1: Path | None = None
) -> TrainSummary:
    """`stage_1` is another run on the same cohort, whose split, first net and scores are taken over."""
    folder = RunFolder(run)
    cohort = Cohort.read(cohort_path)
    with stages("checking", len(cohort.entries), "slides") as advance:
        examination = examine(cohort_path, advance=advance)
    refuse_untrainable(examination, recipe)
    training = _Training(cohort, examination, recipe, folder, stages)
    split = None if folder.splits.exists() or stage_1 is not None else training.split()
    folder.claim(recipe, cohort_fingerprint(cohort, training.annotations))
    if stage_1 is not None and not folder.splits.exists():
        folder.take_over_stage_1(RunFolder(stage_1))
    if split is None:  # as it was at the first start, should a slide have become unreadable since
        split = Split(**json.loads(folder.splits.read_text(encoding="utf-8")))
    else:
        write_json(folder.splits, asdict(split))
    return training.whole(split)


def refuse_untrainable(examination: Examination, recipe: Recipe) -> None:
    """Before any work: say which labels are missing, and what could be trained instead."""
    wanted = "U" + recipe.malignancy.labels
    possible = [row.labels for row in examination.trainable if row.possible and row.labels.startswith("U")]
    if wanted not in possible:
        why = next((row.why for row in examination.trainable if row.labels == wanted), "")
        instead = f"could be trained instead: {', '.join(possible)}" if possible else "nothing could be trained instead"
        raise ConfigError(f"{examination.source}: cannot train {wanted} ({why}); {instead}")


class _Training:
    """The steps in order; each reads what the last one wrote."""

    def __init__(
        self, cohort: Cohort, examination: Examination, recipe: Recipe, folder: RunFolder, stages: Stages
    ) -> None:
        self.recipe, self.folder, self.stages = recipe, folder, stages
        self.annotations = AnnotationIndex.of(cohort.folder)
        mpp = {slide.slide_id: slide.mpp for slide in examination.slides if slide.status == "ok"}
        self.failures = {
            finding.slide_id: finding.what
            for finding in examination.findings
            if finding.level == "error" and finding.slide_id is not None and finding.slide_id not in mpp
        }
        self.entries = {
            e.slide_id: replace(e, mpp=mpp[e.slide_id]) for e in cohort.entries if e.slide_id in mpp and e.bethesda != 1
        }
        self.annotated = frozenset(slide.slide_id for slide in examination.slides if slide.annotations)
        self.compute: Compute = choose_compute(recipe.precision)
        self.bank = TileBank(folder.cache)

    def whole(self, split: Split) -> TrainSummary:
        self.collect()
        informativeness = self.informativeness(split)
        self.screen(informativeness)
        learner = self.malignancy(split, informativeness)
        bundle = self.bundle(split, informativeness, learner)
        return TrainSummary(self.folder.model, bundle.figures, self.failures)

    def split(self) -> Split:
        recipe = self.recipe
        entries = list(self.entries.values())
        return choose_holdout(entries, recipe.parts, recipe.seed, self.annotated, recipe.malignancy.labels)

    def collect(self) -> None:
        """Pixels of stage 1 from every slide; one that fails is left out from here on."""
        with self.stages("reading tiles to learn from", len(self.entries), "slides") as advance:
            for number, entry in enumerate(list(self.entries.values())):
                try:
                    with open_slide(entry.path, mpp=entry.mpp, name=entry.slide_id) as slide:
                        marks = self.annotations.read(entry.slide_id, slide.bounds_px0)
                        grid = self.grid(slide.size_px0, entry)
                        seed = self.recipe.seed * 1_000_003 + number
                        collect(slide, grid, marks, self.bank, self.recipe.informativeness, seed)
                except AspirateError as error:
                    self.leave_out(entry, error)
                advance(1)

    def grid(self, size_px0: Size, entry: SlideEntry) -> TileGrid:
        mpp = checked_mpp(entry.mpp, entry.slide_id)
        return TileGrid.cover(size_px0, mpp, self.recipe.side_px, self.recipe.mpp)

    def leave_out(self, entry: SlideEntry, error: AspirateError) -> None:
        self.failures[entry.slide_id] = str(error)
        del self.entries[entry.slide_id]

    def present(self, slide_ids: tuple[str, ...]) -> list[SlideEntry]:
        return [self.entries[slide_id] for slide_id in slide_ids if slide_id in self.entries]

    def informativeness(self, split: Split) -> Informativeness:
        train = [entry.slide_id for entry in self.present(split.train)]
        validation = [entry.slide_id for entry in self.present(split.validation)]
        settings = self.recipe.informativeness
        learner = InformativenessLearner(self.bank, train, validation, self.recipe.side_px, settings, self.recipe.seed)
        steps = settings.epochs * learner.steps_per_epoch
        with self.stages("stage 1, informativeness", steps, "steps") as bar:

            def watch(step: int, loss: float) -> None:
                bar(1)
                bar.note(f"loss {loss:.3f}")

            return train_informativeness(learner, self.folder.informativeness, self.compute, watch)

    def screen(self, informativeness: Informativeness) -> None:
        """Score every tile of every slide, keep the best, put their pixels into the bank."""
        engine = TorchEngine(informativeness.net)
        sha256 = tensors_sha256(informativeness.net.state_dict())
        with self.stages("screening", len(self.entries), "slides") as advance:
            for entry in list(self.entries.values()):
                try:
                    self.screen_slide(entry, engine, informativeness.threshold, sha256)
                except AspirateError as error:
                    self.leave_out(entry, error)
                advance(1)

    def screen_slide(self, entry: SlideEntry, engine: TorchEngine, threshold: float, sha256: str) -> None:
        path, stack = self.folder.tiles(entry.slide_id), f"{entry.slide_id}.{KEPT}"
        if path.exists() and self.bank.has(stack):
            return
        with open_slide(entry.path, mpp=entry.mpp, name=entry.slide_id) as slide:
            grid = self.grid(slide.size_px0, entry)
            scores = self.scored(path, sha256)
            if scores is None:
                scores = sigmoid(score_tiles(slide, grid, engine)).astype(np.float32)
            kept = select(scores, threshold, self.recipe.selection)
            self.bank.add(stack, slide.read_squares(grid.corners_px0()[kept], grid.side_px0, grid.side_px))
        values = {"informativeness": scores, "selected": kept}
        write_tiles(path, TileTable.of_grid(entry.slide_id, grid, values), sha256)

    def scored(self, path: Path, sha256: str) -> NDArray[np.float32] | None:
        """What the same net said of a slide in another run."""
        if not path.exists():
            return None
        table = read_tiles(path)
        return table.values["informativeness"] if table.model_sha256 == sha256 else None

    def malignancy(self, split: Split, informativeness: Informativeness) -> MalignancyLearner:
        train, validation = self.present(split.train), self.present(split.validation)
        settings = self.recipe.malignancy
        alike = self.recipe.selection.weights == "binary"
        weights = None if alike else {entry.slide_id: self.weights(entry) for entry in train + validation}
        learner = MalignancyLearner(
            self.bank,
            train,
            validation,
            self.marked(train),
            self.recipe.side_px,
            settings,
            self.recipe.seed,
            weights,
            informativeness.net if settings.start == "informativeness" else None,
        )
        steps = settings.epochs * learner.steps_per_epoch
        with self.stages("stage 2, malignancy", steps, "steps") as bar:

            def watch(step: int, loss: float) -> None:
                bar(1)
                bar.note(f"loss {loss:.3f}")

            history = train_malignancy(learner, self.folder.malignancy, self.compute, watch)
        write_json(self.folder.malignancy / "history.json", history)
        return learner

    def marked(self, train: list[SlideEntry]) -> list[MarkedTile]:
        """Tiles with a grade of their own, as they stand in the bank."""
        found = []
        for number, entry in enumerate(train):
            stack = f"{entry.slide_id}.{MARKED}"
            if not self.bank.has(stack):
                continue
            with open_slide(entry.path, mpp=entry.mpp, name=entry.slide_id) as slide:
                grid = self.grid(slide.size_px0, entry)
                marks = marked_tiles(grid, self.annotations.read(entry.slide_id, slide.bounds_px0))
            found += [
                MarkedTile(stack, row, int(grade), number) for row, grade in enumerate(marks.grades) if grade >= 0
            ]
        return found

    def bundle(self, split: Split, informativeness: Informativeness, learner: MalignancyLearner) -> Bundle:
        """Turn scores into words on validation slides, and save the model with the means to check itself."""
        validation = self.present(split.validation)
        engine = TorchEngine(learner.module.net)
        scores = {e.slide_id: slide_score(engine.score(self.kept(e)), self.weights(e)) for e in validation}
        known = [e for e in validation if e.malignant is not None]
        f = np.array([scores[e.slide_id] for e in known])
        y = np.array([bool(e.malignant) for e in known])
        resolutions = [checked_mpp(e.mpp, e.slide_id) for e in self.entries.values()]
        best = max(informativeness.history, key=lambda row: row["judged"])
        bundle = Bundle(
            recipe=self.recipe,
            informativeness=informativeness.net,
            malignancy=learner.module.net,
            confident=informativeness.threshold,
            cuts={label: learner.module.objective.cuts_of(label).tolist() for label in self.recipe.malignancy.labels},
            threshold=decision_threshold(f, y),
            calibration=fit_calibration(f, y),
            mpp_range=(min(resolutions), max(resolutions)),
            figures={
                "slide_auc": auc(f, y),
                "informativeness_auc": best["auc"],
                "informativeness_mean_positive": best["mean_positive"],
            },
            slides={"train": len(self.present(split.train)), "validation": len(validation)},
        )
        save_bundle(self.folder.model, bundle, self.reference(validation))
        predictions = [self.prediction(bundle, entry, scores[entry.slide_id]) for entry in validation]
        predictions += [Prediction(s, status="failed", error=why) for s, why in sorted(self.failures.items())]
        write_predictions(self.folder.predictions, predictions)
        write_json(self.folder.metrics, bundle.figures)
        return bundle

    def prediction(self, bundle: Bundle, entry: SlideEntry, score: float) -> Prediction:
        table = read_tiles(self.folder.tiles(entry.slide_id))
        confident = table.values["informativeness"] >= bundle.confident
        enough = adequacy(confident, table.corners_px0, table.side_px0, self.recipe.adequacy)
        return judged(bundle, entry, score, enough, fold="validation")

    def kept(self, entry: SlideEntry) -> NDArray[np.uint8]:
        return self.bank.stack(f"{entry.slide_id}.{KEPT}")

    def weights(self, entry: SlideEntry) -> NDArray[np.float64]:
        """u of the kept tiles, in the order in which the bank has them."""
        values = read_tiles(self.folder.tiles(entry.slide_id)).values
        return tile_weights(values["informativeness"][values["selected"]], self.recipe.selection)

    def reference(self, validation: list[SlideEntry]) -> NDArray[np.uint8]:
        """A few kept tiles of every validation slide in turn."""
        stacks = [self.kept(entry) for entry in validation]
        turns = max(map(len, stacks))
        tiles = [stack[turn] for turn in range(turns) for stack in stacks if turn < len(stack)]
        return np.stack(tiles[:REFERENCE_TILES])
