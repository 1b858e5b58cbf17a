"""A cross-validation as a person sees it: methods × folds, and a bar for each unit under way."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Group
from rich.live import Live
from rich.table import Table

from aspirate.cli.display import bar_on, err, live_bars, note, out, plain_progress
from aspirate.core.progress import Bar
from aspirate.workflow.crossval import GridWatch, State
from aspirate.workflow.methods import Method

SIGNS: dict[State | None, str] = {None: "·", "running": "…", "done": "✓", "failed": "✗"}


class GridView:
    """`stages` opens bars, `plan` is told the grid; on a terminal both share one live picture."""

    def __init__(self) -> None:
        self.methods: tuple[Method, ...] = ()
        self.folds = 0
        self.states: dict[tuple[str, int], State] = {}
        self.bars = live_bars()
        self.live = Live(get_renderable=self.picture, console=err, transient=True, refresh_per_second=4)

    def plan(self, methods: tuple[Method, ...], folds: int) -> GridWatch:
        self.methods, self.folds = methods, folds
        return self.mark

    def mark(self, method: Method, fold: int, state: State) -> None:
        self.states[method.name, fold] = state
        if state != "running" and not err.is_terminal:
            note(f"fold {fold} · {method.name}: {state} ({self.done} of {len(self.methods) * self.folds} units)")

    @property
    def done(self) -> int:
        return sum(state != "running" for state in self.states.values())

    @contextmanager
    def stages(self, what: str, total: float, unit: str) -> Iterator[Bar]:
        if not err.is_terminal or out.quiet:
            yield plain_progress(what, total, unit)
            return
        self.live.start()  # does nothing where others have
        try:
            with bar_on(self.bars, what, total, unit) as bar:
                yield bar
        finally:
            if not self.bars.tasks:
                self.live.stop()

    def picture(self) -> Group:
        return Group(self.table(), self.bars)

    def table(self) -> Table:
        made = Table(box=None, pad_edge=False, title=f"{self.done} of {len(self.methods) * self.folds} units")
        made.add_column("method" if self.methods else "")
        for fold in range(self.folds):
            made.add_column(f"fold {fold}", justify="center")
        for method in self.methods:
            states = (self.states.get((method.name, fold)) for fold in range(self.folds))
            made.add_row(method.name, *(SIGNS[state] for state in states))
        return made
