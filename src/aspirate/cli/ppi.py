"""The command of the PPI study."""

from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aspirate.cli.crew import On, crew_for_units
from aspirate.cli.display import FAILED, err, out, progress, table
from aspirate.cli.talk import Quiet, Verbose

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aspirate.evaluation.estimates import Estimate
    from aspirate.workflow.ppi_summary import Cell


def ppi(
    cifar10: Annotated[Path, typer.Option("--cifar10", metavar="DIR", help="Official batches, binary or Python's.")],
    folder: Annotated[Path, typer.Option("--out", "-o", help="Folder of the study; a second start goes on.")],
    protocol: Annotated[str, typer.Option(help="reduced or paper.")] = "reduced",
    ppis: Annotated[
        list[str] | None,
        typer.Option(
            "--ppi", help="Shares of positive tiles, as 0.1,0.2; may be repeated.", show_default="0.02 to 0.8"
        ),
    ] = None,
    methods: Annotated[
        list[str] | None, typer.Option(metavar="NAME,…", help="As mixture; may be repeated.", show_default="all")
    ] = None,
    repeats: Annotated[
        int | None, typer.Option(min=1, help="Draws of bags for each PPI.", show_default="3, or 10 of paper")
    ] = None,
    classes: Annotated[
        list[str] | None,
        typer.Option("--positive-classes", help="Of 0 to 9; repeat for another split.", show_default="0,1,2,8,9"),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of bags, first weights and batches.")] = 0,
    changes: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="One setting, as rates.attention=0.002.")
    ] = None,
    workers: Annotated[int, typer.Option(min=0, help="Runs at once.", show_default="one per core")] = 0,
    on: On = "local",
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Where each method fails: bags with few or many positive tiles. They are made of CIFAR-10 images."""
    from aspirate.workflow.ppi_methods import choose_trainings
    from aspirate.workflow.ppi_study import PPIS, REPEATS, RUNS_FILE, SPLIT, StudyPlan, load_protocol, runs_of, study
    from aspirate.workflow.ppi_summary import summarise, write_figure, write_summary

    chosen = load_protocol(protocol, seed, changes or [])
    plan = StudyPlan(
        choose_trainings(tuple(methods or ())),
        tuple(_numbers(ppis or (), "--ppi", float)) or PPIS,
        tuple(tuple(map(int, _numbers([text], "--positive-classes", int))) for text in classes or ()) or (SPLIT,),
        repeats or REPEATS[protocol],
    )
    failed = study(cifar10, folder, chosen, plan, crew_for_units(on, workers, 1), progress)
    for unit, why in failed.items():
        err.print(f"failed {unit}: {why}", markup=False)
    cells = summarise(runs_of(folder))
    if cells:
        write_summary(folder / "summary.csv", cells)
        if lines := comparison(cells):
            out.print(table(lines, numeric=(COMPARED[1], *COMPARED[3:])))
        out.print(f"all runs: {folder / RUNS_FILE}; by method: {folder / 'summary.csv'}", markup=False)
        out.print(f"open {write_figure(folder, cells)}", markup=False)
    out.print("photographs, not slides: a controlled experiment about methods; research use only")
    if failed:
        raise typer.Exit(FAILED)


def _numbers(texts: "Sequence[str]", option: str, kind: type[int] | type[float]) -> list[float]:
    """`0.1,0.2` as typed, once or more."""
    from aspirate.core.errors import ConfigError

    try:
        return [kind(part) for text in texts for part in text.replace(",", " ").split()]
    except ValueError:
        raise ConfigError(f"{option} {' '.join(texts)}: expected numbers with commas between them") from None


COMPARED = ("positive classes", "PPI", "best rival", "its accuracy", "Mixture", "gap, 95 %", "ceiling", "closed")


def comparison(cells: "Sequence[Cell]") -> list[tuple[str, ...]]:
    """A line for each split and PPI: accuracy in per cent, gaps in points; empty where ours was not run."""
    by_accuracy = [cell for cell in cells if cell.figure == "accuracy"]
    lines: list[tuple[str, ...]] = []
    for ours in (cell for cell in by_accuracy if cell.role == "ours"):
        here = [c for c in by_accuracy if (c.positive_classes, c.ppi) == (ours.positive_classes, ours.ppi)]
        best = next((f"{100 * c.mean:.1f}" for c in here if c.method == ours.best_rival), "–")
        ceiling = next((f"{100 * c.mean:.1f}" for c in here if c.role == "ceiling"), "–")
        closed = f"{ours.closed:.0%}" if isfinite(ours.closed) else "–"
        where = (ours.positive_classes, f"{ours.ppi:g}", ours.best_rival or "–")
        lines.append((*where, best, f"{100 * ours.mean:.1f}", _interval(ours.gap), ceiling, closed))
    return [COMPARED, *lines] if lines else []


def _interval(gap: "Estimate") -> str:
    if not isfinite(gap.value):
        return "–"
    around = f" [{100 * gap.low:+.1f}, {100 * gap.high:+.1f}]" if isfinite(gap.low) else ""
    return f"{100 * gap.value:+.1f}{around}"
