"""Train one model on a train/validation split of a cohort. Every step leaves a file; finished steps are skipped."""

import json
from dataclasses import asdict, dataclass
from itertools import zip_longest
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from aspirate.core.errors import ConfigError
from aspirate.core.geometry import checked_mpp
from aspirate.core.lock import locked
from aspirate.core.log import log_of, logged
from aspirate.core.predictions import Prediction, write_predictions
from aspirate.core.progress import Stages, silent_stages
from aspirate.core.ranking import auc
from aspirate.core.records import SlideEntry
from aspirate.core.store import clear_parts, write_json
from aspirate.core.tile_file import read_tiles
from aspirate.engines.choice import engine_for
from aspirate.evaluation.splits import Split, choose_holdout
from aspirate.learning.device import choose_compute
from aspirate.slides.cohort import Cohort
from aspirate.slides.doctor import Checking, check_here, examine
from aspirate.slides.examination import Examination
from aspirate.stages.calibration import decision_threshold, fit_calibration
from aspirate.stages.informativeness import DRAWN, Informativeness
from aspirate.stages.slide_score import adequacy
from aspirate.workflow.bundle import Bundle, save_bundle
from aspirate.workflow.first_stage import FirstStage, Slides
from aspirate.workflow.opinion import Opinion, slide_cuts
from aspirate.workflow.predict import judged
from aspirate.workflow.recipe import Recipe
from aspirate.workflow.run_folder import RunFolder, cohort_fingerprint
from aspirate.workflow.scouting import ScoutTraining
from aspirate.workflow.second_stage import Proposed, on_tiles

REFERENCE_TILES, REFERENCE_SLIDES = 96, 12
"""At most; enough to tell whether the order of tiles stays, and 5 MB at 128 px."""


@dataclass(frozen=True, slots=True)
class TrainSummary:
    """What a training leaves behind."""

    model: Path
    figures: dict[str, float]
    failures: dict[str, str]
    """Slides left out, and why."""
    scout: str = ""
    """In words, how far the scout can be trusted; empty where none was trained."""


def train(
    cohort_path: Path,
    recipe: Recipe,
    run: Path,
    stages: Stages = silent_stages,
    stage_1: Path | None = None,
    devices: int = 1,
    check: Checking = check_here,
) -> TrainSummary:
    """`stage_1` is another run on the same cohort, whose split, first net and scores are taken over; `devices` share
    every batch of both stages; `check` looks at slides before any work."""
    for name, batch in (("informativeness", recipe.informativeness.batch), ("malignancy", recipe.malignancy.batch)):
        if batch % devices:
            raise ConfigError(f"{name}.batch={batch}: cannot be shared by {devices} devices; use a multiple")
    choose_compute("fp32", devices)  # says at once where there are not so many
    with locked(run):
        training = _prepared(cohort_path, recipe, run, logged(stages), stage_1, devices, check)
        slides, labels = len(training.slides.entries), f"U{recipe.malignancy.labels}"
        with log_of(run, "train", slides=slides, labels=labels, devices=devices):
            return training.whole()


def _prepared(
    cohort_path: Path,
    recipe: Recipe,
    run: Path,
    stages: Stages,
    stage_1: Path | None,
    devices: int,
    check: Checking,
) -> "_Training":
    folder = RunFolder(run)
    cohort = Cohort.read(cohort_path)
    with stages("checking", len(cohort.entries), "slides") as advance:
        examination = examine(cohort_path, advance=advance, check=check)
    refuse_untrainable(examination, recipe)
    slides = Slides.of(cohort, examination)
    split = None
    if stage_1 is None and not folder.splits.exists():
        entries = list(slides.entries.values())
        split = choose_holdout(entries, recipe.parts, recipe.seed, slides.annotated, recipe.malignancy.labels)
    folder.claim(recipe, cohort_fingerprint(cohort, slides.annotations), cohort_path)
    clear_parts(run)
    if stage_1 is not None and not folder.splits.exists():
        folder.take_over_stage_1(RunFolder(stage_1))
    if split is None:  # as it was at the first start, should a slide have become unreadable since
        split = Split(**json.loads(folder.splits.read_text(encoding="utf-8")))
    else:
        write_json(folder.splits, asdict(split))
    compute = choose_compute("bf16" if folder.rounding(recipe.precision) else "fp32", devices)
    return _Training(FirstStage(slides, split, recipe, folder, compute, stages))


def refuse_untrainable(examination: Examination, recipe: Recipe) -> None:
    """Before any work: say which labels are missing, and what could be trained instead."""
    wanted = "U" + recipe.malignancy.labels
    possible = [row.labels for row in examination.trainable if row.possible and row.labels.startswith("U")]
    if wanted not in possible:
        why = next((row.why for row in examination.trainable if row.labels == wanted), "")
        instead = f"could be trained instead: {', '.join(possible)}" if possible else "nothing could be trained instead"
        raise ConfigError(f"{examination.source}: cannot train {wanted} ({why}); {instead}")


class _Training:
    """Stage 2 and what comes after it."""

    def __init__(self, first: FirstStage) -> None:
        self.first, self.slides = first, first.slides
        self.recipe, self.folder = first.recipe, first.folder

    def whole(self) -> TrainSummary:
        informativeness = self.first.run()
        scout = ScoutTraining(self.first, self.first.confident(informativeness)) if self.recipe.scout.use else None
        if scout:
            scout.run()
        bundle = self.bundle(informativeness, self.malignancy(informativeness), scout)
        scouted = bundle.trust.sentence if bundle.trust else ""
        return TrainSummary(self.folder.model, bundle.figures, self.slides.failures, scouted)

    def malignancy(self, informativeness: Informativeness) -> Proposed:
        proposed = on_tiles(self.first, informativeness, self.recipe.malignancy)
        history = proposed.fit("stage 2, malignancy", self.folder.malignancy, self.first.compute, self.first.stages)
        write_json(self.folder.malignancy / "history.json", history)
        return proposed

    def bundle(self, informativeness: Informativeness, proposed: Proposed, scout: ScoutTraining | None) -> Bundle:
        """Turn scores into words on validation slides, and save the model with the means to check itself."""
        first, split = self.first, self.first.split
        validation = self.slides.present(split.validation)
        opinions = {entry.slide_id: proposed.opinion(entry) for entry in validation}
        known = [e for e in validation if e.malignant is not None]
        f = np.array([opinions[e.slide_id].score for e in known])
        y = np.array([bool(e.malignant) for e in known])
        resolutions = [checked_mpp(e.mpp, e.slide_id) for e in self.slides.entries.values()]
        calibration = fit_calibration(f, y)
        cuts = slide_cuts(self.recipe.malignancy, [(entry, opinions[entry.slide_id]) for entry in validation])
        trust = scout.trust(proposed, calibration) if scout else None
        best = informativeness.kept
        bundle = Bundle(
            recipe=self.recipe,
            informativeness=informativeness.net,
            malignancy=proposed.learner.module.net,
            confident=first.confident(informativeness),
            cuts=proposed.all_cuts,
            slide_cuts=cuts,
            pooling=proposed.reading.pooling,
            link=proposed.reading.link,
            threshold=decision_threshold(f, y),
            calibration=calibration,
            mpp_range=(min(resolutions), max(resolutions)),
            figures={
                "slide_auc": auc(f, y),
                "informativeness_auc": best["auc"],
                "informativeness_mean_positive": best["mean_positive"],
            },
            slides={"train": len(self.slides.present(split.train)), "validation": len(validation)},
            scout=scout.net if scout and trust and trust.admitted else None,
            trust=trust,
        )
        save_bundle(self.folder.model, bundle, self.reference(informativeness, validation))
        predictions = [self.prediction(bundle, entry, opinions[entry.slide_id].recut(cuts)) for entry in validation]
        predictions += [Prediction(s, status="failed", error=why) for s, why in sorted(self.slides.failures.items())]
        write_predictions(self.folder.predictions, predictions)
        write_json(self.folder.metrics, bundle.figures)
        return bundle

    def prediction(self, bundle: Bundle, entry: SlideEntry, opinion: Opinion) -> Prediction:
        table = read_tiles(self.folder.tiles(entry.slide_id))
        confident = table.values["informativeness"] >= bundle.confident
        enough = adequacy(confident, table.corners_px0, table.side_px0, self.recipe.adequacy)
        return judged(bundle, entry, opinion, enough, fold="validation")

    def reference(self, informativeness: Informativeness, validation: list[SlideEntry]) -> NDArray[np.uint8]:
        """Kept tiles of validation slides in turn, and between them drawn ones, which are rarely informative."""
        slides, half = validation[:REFERENCE_SLIDES], REFERENCE_TILES // 2
        stacks = [self.first.kept(entry) for entry in slides]
        rows = [np.unique(np.linspace(0, len(stack) - 1, max(1, half // len(slides))).astype(int)) for stack in stacks]
        in_turn = zip_longest(*(stack[chosen] for stack, chosen in zip(stacks, rows, strict=True)))
        kept = [tile for turn in in_turn for tile in turn if tile is not None]
        drawn = np.concatenate([self.first.bank.stack(f"{entry.slide_id}.{DRAWN}") for entry in slides])
        others = drawn[spread(engine_for(informativeness.net).score(drawn), half)]
        return np.stack([tile for pair in zip_longest(kept, others) for tile in pair if tile is not None])


def spread(scores: NDArray[np.float32], count: int) -> NDArray[np.int64]:
    """At most so many rows, evenly over the range of scores: the many that are almost equal have no order to keep."""
    wanted = np.linspace(scores.min(), scores.max(), count)
    return np.unique(np.abs(scores[None] - wanted[:, None]).argmin(1))
