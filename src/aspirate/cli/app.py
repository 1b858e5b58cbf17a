"""Commands. Each imports what it needs when it runs, so that help answers at once."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from aspirate import __version__
from aspirate.cli.bench import bench_read, bench_slide, bench_train
from aspirate.cli.comparison import crossval, evaluate
from aspirate.cli.crew import (
    GpusOfSlide,
    On,
    SlidesAtOnce,
    ThreadsOfSlide,
    compute_with,
    crew_for_slides,
    crew_for_units,
)
from aspirate.cli.display import FAILED, INTERRUPTED, WRONG_USE, err, note, out, progress, show_figures
from aspirate.cli.export import export
from aspirate.cli.ppi import ppi
from aspirate.cli.reading_room import bench_serve, reader, serve
from aspirate.cli.talk import LogNames, Quiet, Verbose

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Thyroid malignancy from cytology whole-slide images. Research use only.",
)
bench = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Speed, as ratios measured in one run.")
app.add_typer(bench, name="bench")

Workers = Annotated[int, typer.Option(min=0, help="Processes at once.", show_default="one per core")]


def main() -> None:
    """Run a command; what a person can mend is said in one message, without a traceback."""
    from aspirate.core.errors import AspirateError

    try:
        app()
    except AspirateError as error:
        err.print(f"error: {error}", markup=False)
        sys.exit(WRONG_USE)
    except OSError as error:
        err.print(f"error: {error.filename or 'the system'}: {error.strerror}", markup=False)
        sys.exit(WRONG_USE)
    except SystemExit as exit_:
        if exit_.code == INTERRUPTED:
            err.print("interrupted; what is finished is kept, and the same command goes on from there")
        raise


def _show_version(wanted: bool) -> None:
    if wanted:
        out.print(f"aspirate {__version__}")
        raise typer.Exit


@app.callback()
def aspirate(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


@app.command()
def demo(
    folder: Annotated[Path, typer.Option("--out", "-o", help="Where everything goes.")] = Path("demo"),
    workers: Workers = 0,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """All of it on synthetic slides: train, predict, report. Slides that are predicted were never trained on."""
    from aspirate.workflow.demo import run_demo

    summary = run_demo(folder, crew_for_units("local", workers, 1), progress)
    out.print(f"on {len(summary.predicted.predictions)} slides of patients not trained on:")
    show_figures(summary.figures, None)
    for slide_id, why in summary.failures.items():
        err.print(f"failed {slide_id}: {why}", markup=False)
    out.print(f"the cohort: {summary.cohort_page}")
    out.print(f"the report: {summary.report}")
    out.print(f"open {summary.predicted.page}")
    if summary.failures:
        raise typer.Exit(FAILED)


@app.command()
def synth(
    folder: Annotated[Path, typer.Argument(metavar="OUT", help="Folder of the cohort; a second start goes on.")],
    slides: Annotated[int, typer.Option(help="Number of slides.")] = 60,
    size: Annotated[str, typer.Option(metavar="WxH", help="Pixels of each slide.")] = "8192x8192",
    seed: Annotated[int, typer.Option(help="The same seed gives the same pixels.")] = 0,
    mpp: Annotated[float, typer.Option(help="Micrometres per pixel.")] = 0.25,
    format_: Annotated[str, typer.Option("--format", help="tiff or svs.")] = "tiff",
    annotated: Annotated[float, typer.Option(help="Share of slides with annotations.")] = 0.25,
    readers: Annotated[int, typer.Option(help="Simulated readers.")] = 3,
    patients: Annotated[int | None, typer.Option(help="Patients.", show_default="1.1 slides each")] = None,
    sites: Annotated[int, typer.Option(help="Laboratories, each with its stain and scanner.")] = 3,
    changes: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Any other knob; see docs/synthetic.md.")
    ] = None,
    workers: Workers = 0,
    on: On = "local",
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Make a synthetic cohort: slides, labels, annotations, truth."""
    from aspirate.core.config import parse_changes
    from aspirate.synth.cohort import make_cohort
    from aspirate.synth.settings import SynthSettings, read_size
    from aspirate.workflow.jobs import done_by

    values: dict[str, object] = {
        "slides": slides,
        "size": read_size(size),
        "seed": seed,
        "mpp": mpp,
        "format": format_,
        "annotated": annotated,
        "readers": readers,
        "patients": patients,
        "sites": sites,
    }
    settings = SynthSettings.of(values | parse_changes(changes or []), source="synth")
    crew = crew_for_units(on, workers, 1)
    with progress("drawing slides", settings.megapixels, "Mpx") as bar:
        made = make_cohort(settings, folder.absolute(), lambda pixels: bar(pixels / 1e6), done_by(crew))
    aucs = ", ".join(f"{value:.3f}" for value in made.reader_aucs)
    out.print(
        f"{made.slides} slides, {made.malignant_share:.0%} malignant: {folder}\n"
        f"AUC of one who sees every true grade: {made.oracle_auc:.3f} here, {made.oracle_auc_mean:.3f} on average"
        + (f"; of readers: {aucs}" if aucs else "")
    )


@app.command()
def doctor(
    cohort: Annotated[Path, typer.Argument(help="cohort.csv or its folder, a folder of slides, or one slide.")],
    deep: Annotated[bool, typer.Option("--deep", help="Decode every pixel of every level.")] = False,
    mpp: Annotated[
        float | None, typer.Option(help="Micrometres per pixel for slides that have none, in the file or the cohort.")
    ] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write everything found to this file.")] = None,
    page: Annotated[
        Path | None, typer.Option(help="Write one HTML page with overviews, tiles and labels to this file.")
    ] = None,
) -> None:
    """Check a cohort before any hour is spent on it. Slides, resolution, labels, leakage and annotations."""
    from aspirate.cli.doctor_view import show
    from aspirate.core.store import write_json
    from aspirate.slides.doctor import examine, slides_at
    from aspirate.workflow.checking import check_apart

    slides, _ = slides_at(cohort)
    with progress("checking", len(slides.entries), "slides") as advance:
        examination = examine(cohort, deep=deep, mpp=mpp, advance=advance, check=check_apart)
    show(examination)
    if json_file is not None:
        write_json(json_file, examination.as_json())
        out.print(f"all of it: {json_file}")
    if page is not None:
        from aspirate.workflow.cohort_page import write_cohort_page

        with progress("drawing", len(slides.entries), "slides") as advance:
            write_cohort_page(page, slides, examination, title=cohort.resolve().name, advance=advance)
        out.print(f"page: {page}")
    if not examination.ok:
        raise typer.Exit(FAILED)


@app.command()
def train(
    cohort: Annotated[Path, typer.Argument(help="cohort.csv or its folder.")],
    run: Annotated[Path, typer.Option("--out", "-o", metavar="RUN", help="Folder of the run; a second start goes on.")],
    recipe: Annotated[str, typer.Option(help="compact, quick, paper, or a TOML file.")] = "compact",
    labels: Annotated[str | None, typer.Option(help="UY, US, UV, UYS, UYV, USV or UYSV.")] = None,
    changes: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="One setting, as malignancy.epochs=5.")
    ] = None,
    stage_1: Annotated[
        Path | None,
        typer.Option("--stage1", metavar="RUN", help="Take stage 1 and its scores from this run on the same cohort."),
    ] = None,
    devices: Annotated[
        int, typer.Option(min=1, help="GPUs that share every batch; without GPUs, processes.", show_default="one")
    ] = 1,
    quiet: Quiet = False,
    verbose: Verbose = False,
    log_names: LogNames = False,
) -> None:
    """Train one model, RUN/model, on a train/validation split."""
    from aspirate.core.config import parse_changes
    from aspirate.workflow.checking import check_apart
    from aspirate.workflow.recipe import labels_change, load_recipe
    from aspirate.workflow.train import train as train_

    chosen = parse_changes(changes or []) | labels_change(labels)
    summary = train_(cohort, load_recipe(recipe, chosen), run, progress, stage_1, devices, check_apart)
    show_figures(summary.figures, None)
    for slide_id, why in summary.failures.items():
        err.print(f"left out {slide_id}: {why}", markup=False)
    if summary.scout:
        out.print(summary.scout, markup=False)
    out.print(f"model: {summary.model}")
    if summary.failures:
        raise typer.Exit(FAILED)


@app.command()
def predict(
    model: Annotated[Path, typer.Argument(help="RUN/model of a training.")],
    slides: Annotated[list[Path], typer.Argument(help="Slides, folders of slides, or cohort tables.")],
    folder: Annotated[Path, typer.Option("--out", "-o", help="Folder of the results; a second start goes on.")],
    mpp: Annotated[float | None, typer.Option(help="Micrometres per pixel for slides that have none.")] = None,
    any_resolution: Annotated[
        bool, typer.Option("--any-resolution", help="Also slides coarser than those trained on.")
    ] = False,
    exact: Annotated[
        bool, typer.Option("--exact", help="Look at every tile closely, not only where the scout says it may matter.")
    ] = False,
    engine: Annotated[
        str, typer.Option(help="torch, openvino, or openvino-fp32, -bf16, -int8.", show_default="the fastest admitted")
    ] = "auto",
    workers: SlidesAtOnce = 0,
    threads: ThreadsOfSlide = 0,
    gpus: GpusOfSlide = 0,
    on: On = "local",
    quiet: Quiet = False,
    verbose: Verbose = False,
    log_names: LogNames = False,
) -> None:
    """Score slides: a table, heat maps, sheets, GeoJSON for QuPath."""
    from aspirate.workflow.predict import load_model
    from aspirate.workflow.predict_many import entries_at, predict_many
    from aspirate.workflow.slide_job import PredictSettings

    settings = PredictSettings(mpp=mpp, any_resolution=any_resolution, exact=exact, engine=engine)
    compute_with(threads)
    loaded = load_model(model, engine)
    for said in loaded.notes:
        note(f"note: {said}")
    entries = entries_at(slides)
    crew, each = crew_for_slides(on, workers, threads, gpus, len(entries))
    summary = predict_many(loaded, entries, folder, settings, progress, crew, model, each)
    for slide_id, why in summary.failures.items():
        err.print(f"failed {slide_id}: {why}", markup=False)
    out.print(f"{len(summary.predictions)} slides, {len(summary.failures)} failed: {summary.table}")
    out.print(f"open {summary.page}")
    if summary.failures:
        raise typer.Exit(FAILED)


app.command()(crossval)
app.command()(evaluate)
app.command()(export)
app.command()(ppi)
app.command()(serve)
app.command()(reader)
bench.command("read")(bench_read)
bench.command("train")(bench_train)
bench.command("slide")(bench_slide)
bench.command("serve")(bench_serve)
