"""Commands. Each imports what it needs when it runs, so that help answers at once."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from aspirate import __version__
from aspirate.cli.display import err, out, progress, show_figures

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Thyroid malignancy from cytology whole-slide images. Research use only.",
)
bench = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Speed, as ratios measured in one run.")
app.add_typer(bench, name="bench")

FAILED, WRONG_USE, INTERRUPTED = 1, 2, 130

Workers = Annotated[int, typer.Option(min=1, help="Processes at once.", show_default="one per core")]


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


def cores() -> int:
    """Those this process may use, not those the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


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
    """Check slides, resolution, labels, leakage and annotations before any hour is spent."""
    from aspirate.cli.doctor_view import show
    from aspirate.core.store import write_json
    from aspirate.slides.doctor import examine, slides_at

    slides, _ = slides_at(cohort)
    with progress("checking", len(slides.entries), "slides") as advance:
        examination = examine(cohort, deep=deep, mpp=mpp, advance=advance)
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


@bench.command()
def read(
    slide: Annotated[Path, typer.Argument(help="A JPEG-tiled TIFF or SVS.")],
    threads: Annotated[int | None, typer.Option(min=1, help="Threads of every contestant.")] = None,
    repeats: Annotated[int, typer.Option(min=1, help="Turns of each; medians are shown.")] = 5,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures to this file.")] = None,
) -> None:
    """Every 128-px tile of a slide once: our reader, OpenSlide tile by tile, and bare JPEG decoding."""
    from aspirate.workflow.bench_read import measure

    with progress("reading", repeats, "turns") as advance:
        figures = measure(slide, threads=threads or cores(), repeats=repeats, advance=advance)
    show_figures(figures, json_file)
