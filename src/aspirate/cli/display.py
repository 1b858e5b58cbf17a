"""What a person sees while work runs: a live bar on a terminal, plain lines elsewhere."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
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
from rich.text import Text

from aspirate.core.progress import Advance

PLAIN_INTERVAL_S = 10.0

out = Console(highlight=False, soft_wrap=True)
err = Console(stderr=True, highlight=False, soft_wrap=True)


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
