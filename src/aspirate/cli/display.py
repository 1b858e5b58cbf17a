"""What a person sees while work runs: a live bar on a terminal, plain lines elsewhere."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from aspirate.core.progress import Advance
from aspirate.core.store import write_json

PLAIN_INTERVAL_S = 10.0
PLAIN_WIDTH = 160
"""Of tables in files and pipes, where no terminal says how wide it is."""


def _console(stderr: bool) -> Console:
    console = Console(stderr=stderr, highlight=False, soft_wrap=True)
    if not console.is_terminal:
        console.width = PLAIN_WIDTH
    return console


out = _console(stderr=False)
err = _console(stderr=True)


class _Rate(ProgressColumn):
    def __init__(self, unit: str) -> None:
        super().__init__()
        self.unit = unit

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:,.3g} {self.unit}/s", style="dim")


@contextmanager
def progress(what: str, total: int, unit: str) -> Iterator[Advance]:
    """Yields the function to call with the number of units just done."""
    if err.is_terminal:
        columns = (
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            _Rate(unit),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
        )
        with Progress(*columns, console=err, transient=True) as bar:
            task = bar.add_task(what, total=total)
            yield lambda n: bar.advance(task, n)
    else:
        yield _PlainLines(what, total, unit).advance


class _PlainLines:
    """One line at least every tenth of the work or every few seconds, for logs."""

    def __init__(self, what: str, total: int, unit: str) -> None:
        self.what, self.total, self.unit = what, total, unit
        self.done = 0
        self.started = self.last_time = time.monotonic()
        self.last_done = 0

    def advance(self, n: int) -> None:
        self.done += n
        now = time.monotonic()
        step = self.done - self.last_done >= self.total / 10 or now - self.last_time >= PLAIN_INTERVAL_S
        if not step and self.done < self.total:
            return
        self.last_time, self.last_done = now, self.done
        seconds = now - self.started
        rate = self.done / seconds if seconds > 0 else 0.0
        left = (self.total - self.done) / rate if rate > 0 else 0.0
        err.print(
            f"{self.what}: {self.done:,}/{self.total:,} {self.unit}, {rate:,.3g}/s, "
            f"{seconds:.0f} s gone, about {left:.0f} s left"
        )


def table(rows: Sequence[Sequence[str]], numeric: Sequence[str] = ()) -> Table:
    """Rows with their header first; columns named in `numeric` align right, the first gives way where it is narrow."""
    header, *body = rows
    wide = header[0]
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for name in header:
        made.add_column(name, justify="right" if name in numeric else "left", overflow="fold", no_wrap=name != wide)
    for row in body:
        made.add_row(*map(escape, row))
    return made


def show_figures(figures: Mapping[str, float | int | str], json_file: Path | None) -> None:
    """Measured figures as two columns, and as a flat JSON object where asked for."""
    rows = [("figure", "value")]
    rows += [(name, f"{value:,.4g}" if isinstance(value, float) else str(value)) for name, value in figures.items()]
    out.print(table(rows, numeric=("value",)))
    if json_file is not None:
        write_json(json_file, dict(figures))
        out.print(f"figures: {json_file}", markup=False)
