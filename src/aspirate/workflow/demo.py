"""The demonstration: a synthetic cohort, a model trained on part of it, its predictions for slides it never saw."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from aspirate.core.progress import Stages, silent_stages
from aspirate.core.store import REPORT_FILE
from aspirate.evaluation.material import EvaluateSettings
from aspirate.evaluation.splits import deal
from aspirate.slides.cohort import Cohort
from aspirate.slides.doctor import examine
from aspirate.synth.cohort import make_cohort
from aspirate.synth.settings import SynthSettings
from aspirate.workflow.cohort_page import write_cohort_page
from aspirate.workflow.evaluate import Sources, evaluate
from aspirate.workflow.jobs import done_by
from aspirate.workflow.launch import HERE, Executor
from aspirate.workflow.predict import load_model
from aspirate.workflow.predict_many import PredictSummary, predict_many
from aspirate.workflow.predictions_page import known_figures
from aspirate.workflow.recipe import load_recipe
from aspirate.workflow.train import train

PARTS = 3
"""One part of the patients is held out."""
SHOWN = 12
"""Slides on the page of the cohort."""


COHORT = SynthSettings(slides=72, size=(3072, 3072), seed=7, annotated=0.5, min_groups=10)
RECIPE = "quick"
CHANGES: Mapping[str, object] = {"malignancy.tiles_per_slide": 120}
"""Of the recipe, for so few slides."""


@dataclass(frozen=True, slots=True)
class DemoSummary:
    """What the demonstration leaves behind."""

    cohort_page: Path
    predicted: PredictSummary
    report: Path
    figures: dict[str, float]
    """On slides held out."""
    failures: dict[str, str]


def run_demo(
    folder: Path,
    executor: Executor = HERE,
    stages: Stages = silent_stages,
    settings: SynthSettings = COHORT,
    changes: Mapping[str, object] = CHANGES,
) -> DemoSummary:
    """Everything is kept in `folder`; a second start goes on where the first stopped. `executor` draws the slides."""
    place = folder / "cohort"
    with stages("drawing slides", settings.megapixels, "Mpx") as bar:
        make_cohort(settings, place, lambda pixels: bar(pixels / 1e6), done_by(executor))
    cohort = Cohort.read(place)
    part_of = deal(cohort.entries, PARTS, settings.seed)
    held_out = [entry for entry in cohort.entries if part_of[entry.slide_id] == 0]
    Cohort.write(place / "held-out.csv", held_out)
    Cohort.write(place / "train.csv", [entry for entry in cohort.entries if part_of[entry.slide_id] != 0])

    shown = Cohort(place, cohort.entries[:SHOWN])
    page = folder / "cohort.html"
    with stages("showing the cohort", len(shown.entries), "slides") as advance:
        write_cohort_page(page, shown, examine(place), title="Synthetic thyroid aspirates", advance=advance)
    trained = train(place / "train.csv", load_recipe(RECIPE, dict(changes)), folder / "run", stages)
    predicted = predict_many(load_model(trained.model), held_out, folder / "predictions", stages=stages)
    report = predicted.table.parent / REPORT_FILE
    if len(predicted.skipped) < len(held_out) or not report.exists():
        evaluate(Sources(predicted.table, place / "held-out.csv"), predicted.table.parent, EvaluateSettings(), stages)
    figures = known_figures(predicted.predictions)
    return DemoSummary(page, predicted, report, figures, trained.failures | predicted.failures)
