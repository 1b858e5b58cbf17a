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
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from aspirate.core.progress import Bar, silent
from aspirate.core.store import write_json

FAILED, WRONG_USE, INTERRUPTED = 1, 2, 130
"""Exit codes: done but for what failed, not begun, stopped by Ctrl-C."""
PLAIN_INTERVAL_S = 10.0
ROUNDING = 1e-6
"""Parts of a unit add up to a little less."""
PLAIN_WIDTH = 160
"""Of tables in files and pipes, where no terminal says how wide it is."""


def _console(stderr: bool) -> Console:
    console = Console(stderr=stderr, highlight=False, soft_wrap=True)
    if not console.is_terminal:
        console.width = PLAIN_WIDTH
    return console


out = _console(stderr=False)
err = _console(stderr=True)


def quiet(wanted: bool) -> None:
    """From now on only `err.print` reaches the screen: no results, no notes, no bars."""
    out.quiet = wanted


def note(text: str) -> None:
    """Worth knowing, but nothing went wrong."""
    if not out.quiet:
        err.print(text, markup=False)


class _Done(ProgressColumn):
    """`12/60 slides`, then the rate."""

    def render(self, task: Task) -> Text:
        unit, speed = task.fields["unit"], task.finished_speed or task.speed
        rate = "" if speed is None else f" · {_short(speed)} {unit}/s"
        return Text(f"{_short(task.completed)}/{_short(task.total or 0)} {unit}{rate}")


def _short(number: float) -> str:
    return f"{number:,.0f}" if number >= 10 or number == int(number) else f"{number:.2g}"


@contextmanager
def progress(what: str, total: float, unit: str) -> Iterator[Bar]:
    """Yields the function to call with the number of units just done."""
    if err.is_terminal and not out.quiet:
        with live_bars() as live, bar_on(live, what, total, unit) as bar:
            yield bar
    else:
        yield plain_progress(what, total, unit)


def live_bars() -> Progress:
    """For a terminal: to be entered, or shown in a picture of the caller's."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        _Done(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    return Progress(*columns, console=err, transient=True)


@contextmanager
def bar_on(live: Progress, what: str, total: float, unit: str) -> Iterator[Bar]:
    task = live.add_task(what, total=total, unit=unit)
    try:
        yield _LiveBar(live, task, what)
    finally:
        live.remove_task(task)


def plain_progress(what: str, total: float, unit: str) -> Bar:
    return silent if out.quiet else _PlainLines(what, total, unit)


class _LiveBar:
    def __init__(self, bar: Progress, task: TaskID, what: str) -> None:
        self.bar, self.task, self.what = bar, task, what

    def __call__(self, n: float, /) -> None:
        self.bar.advance(self.task, n)

    def note(self, text: str) -> None:
        self.bar.update(self.task, description=f"{self.what} · {text}")


class _PlainLines:
    """A line every few seconds, and one at the end: for logs."""

    def __init__(self, what: str, total: float, unit: str) -> None:
        self.what, self.total, self.unit = what, total, unit
        self.done = 0.0
        self.said = ""
        self.started = self.last = time.monotonic()

    def note(self, text: str) -> None:
        self.said = f", {text}"

    def __call__(self, n: float, /) -> None:
        self.done += n
        now, unfinished = time.monotonic(), self.done < self.total - ROUNDING
        if unfinished and now - self.last < PLAIN_INTERVAL_S:
            return
        self.last = now
        seconds = now - self.started
        rate = self.done / max(seconds, 1e-9)
        left = (self.total - self.done) / max(rate, 1e-9)
        err.print(
            f"{self.what}: {_short(self.done)}/{_short(self.total)} {self.unit}, {_short(rate)}/s, "
            f"{seconds:.0f} s gone{self.said}" + (f", about {left:.0f} s left" if unfinished else "")
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
