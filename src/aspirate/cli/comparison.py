"""Commands that compare methods with each other and with readers."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aspirate.cli.crew import GpusOfUnit, On, ThreadsOfUnit, UnitsAtOnce, crew_for_units
from aspirate.cli.display import FAILED, err, note, out, progress
from aspirate.cli.talk import LogNames, Quiet, Verbose

if TYPE_CHECKING:
    from aspirate.workflow.crossval import CrossvalSummary


def crossval(
    cohort: Annotated[Path, typer.Argument(help="cohort.csv or its folder.")],
    run: Annotated[Path, typer.Option("--out", "-o", metavar="RUN", help="Folder of the run; a second start goes on.")],
    methods: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME,…", help="all, families (proposed) or rows (proposed-uys); may be repeated."),
    ] = None,
    labels: Annotated[
        list[str] | None, typer.Option(metavar="LETTERS,…", help="Only rows with these labels, as UYS,YS.")
    ] = None,
    folds: Annotated[int, typer.Option(help="Parts of the cohort, each tested once.")] = 5,
    splits: Annotated[
        Path | None, typer.Option(help="Folds to use: a splits.json, or a folder of CLAM's splits_<k>.csv.")
    ] = None,
    only: Annotated[
        list[int] | None, typer.Option("--fold", help="Only this fold, now; may be repeated. Processes may share RUN.")
    ] = None,
    curve: Annotated[
        bool, typer.Option("--learning-curve", help="Then train anew with a half … a sixteenth of the annotations.")
    ] = False,
    recipe: Annotated[str, typer.Option(help="compact, quick, paper, or a TOML file.")] = "compact",
    changes: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="One setting, as malignancy.epochs=5.")
    ] = None,
    workers: UnitsAtOnce = 0,
    threads: ThreadsOfUnit = 1,
    gpus: GpusOfUnit = None,
    on: On = "local",
    quiet: Quiet = False,
    verbose: Verbose = False,
    log_names: LogNames = False,
) -> None:
    """Every method on every fold: ours and its rivals. Ours with each set of labels; all with the same budget."""
    from aspirate.cli.grid_view import GridView
    from aspirate.core.config import parse_changes
    from aspirate.core.predictions import read_predictions
    from aspirate.evaluation.material import EvaluateSettings
    from aspirate.workflow.crossval import Plan
    from aspirate.workflow.crossval import crossval as crossval_
    from aspirate.workflow.evaluate import evaluate_run
    from aspirate.workflow.methods import SHOWN, choose_methods
    from aspirate.workflow.recipe import load_recipe

    view = GridView()
    rows = choose_methods(methods or (), labels or ())
    chosen = load_recipe(recipe, parse_changes(changes or []))
    plan = Plan(rows, folds, splits, tuple(only or ()), threads=threads, gpus=gpus)
    crew = crew_for_units(on, workers, threads)
    summary = crossval_(cohort, chosen, run, plan, view.stages, view.plan, crew)
    if curve and (why := summary.skipped.get(SHOWN)):
        note(f"no learning curve, since {SHOWN} was skipped: {why}")
    elif curve:
        from aspirate.workflow.learning_curve import learning_curve

        summary.failed |= learning_curve(cohort, chosen, run, view.stages, plan=plan, executor=crew)[1]
    _say(summary)
    if not read_predictions(summary.predictions):
        err.print("no unit was done, so there is nothing to compare; mend the cause, and start the same command again")
        raise typer.Exit(FAILED)
    out.print(f"{len(summary.methods)} methods on {summary.folds} folds: {summary.predictions}")
    report = evaluate_run(run, EvaluateSettings(), progress)
    for sentence in report.sentences:
        out.print(sentence, markup=False)
    out.print(f"open {report.page}")
    if summary.failed or summary.left_out:
        raise typer.Exit(FAILED)


def _say(summary: "CrossvalSummary") -> None:
    """What was not done, and why."""
    for name, why in summary.skipped.items():
        note(f"skipped {name}: {why}")
    for slide_id, why in summary.left_out.items():
        err.print(f"left out {slide_id}: {why}", markup=False)
    for unit, why in summary.failed.items():
        err.print(f"failed {unit}: {why}", markup=False)


def evaluate(
    predictions: Annotated[
        Path, typer.Argument(help="predictions.csv of any run, or slide_id,Y,Y_hat,p_0,p_1 as CLAM writes.")
    ],
    folder: Annotated[Path, typer.Option("--out", "-o", help="Folder of the report.")],
    cohort: Annotated[Path | None, typer.Option(help="Its patients, sites, readers and annotations.")] = None,
    readers: Annotated[
        Path | None, typer.Option(help="slide_id,reader,bethesda; instead of the cohort's readers.")
    ] = None,
    validation: Annotated[
        Path | None, typer.Option(help="Predictions of validation slides, to choose thresholds on.")
    ] = None,
    prevalence: Annotated[
        float | None,
        typer.Option(help="Share of malignant slides that PPV and NPV are for.", show_default="as found"),
    ] = None,
    benign_risk: Annotated[float, typer.Option(help="Highest risk of malignancy among slides called benign.")] = 0.03,
    malignant_risk: Annotated[float, typer.Option(help="Lowest among slides called malignant.")] = 0.95,
    alpha: Annotated[float, typer.Option(help="Share of TBS sets that may miss.")] = 0.1,
    resamples: Annotated[int, typer.Option(help="Of every bootstrap.")] = 2000,
    reference: Annotated[
        str | None,
        typer.Option(metavar="METHOD", help="Method to compare with.", show_default="Proposed (U,Y,S), or the first"),
    ] = None,
) -> None:
    """What predictions are worth: intervals, readers, one report."""
    from aspirate.evaluation.material import EvaluateSettings
    from aspirate.workflow.evaluate import Sources
    from aspirate.workflow.evaluate import evaluate as evaluate_

    asked: dict[str, object] = {"prevalence": prevalence, "benign_risk": benign_risk, "malignant_risk": malignant_risk}
    asked |= {"alpha": alpha, "resamples": resamples, "reference": reference}
    settings = EvaluateSettings.of(asked, source="evaluate")
    summary = evaluate_(Sources(predictions, cohort, readers, validation), folder, settings, progress)
    for sentence in summary.sentences:
        out.print(sentence, markup=False)
    for said in summary.analysis.notes:
        note(f"note: {said}")
    out.print(f"figures in numbers: {summary.metrics}")
    out.print(f"open {summary.page}")
