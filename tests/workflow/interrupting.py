"""One who watches long work, and presses Ctrl-C at one step of one stretch of it."""

from collections.abc import Iterator
from contextlib import contextmanager

from aspirate.core.progress import Bar


class Interrupting:
    """`begun` are the stretches that were begun, `seen` the steps of `what`."""

    def __init__(self, what: str = "", at: int = 0) -> None:
        self.what, self.at, self.seen = what, at, 0
        self.begun: list[str] = []

    @contextmanager
    def __call__(self, what: str, total: float, unit: str) -> Iterator[Bar]:
        self.begun.append(what)
        yield _Step(self, what)


class _Step:
    def __init__(self, owner: Interrupting, what: str) -> None:
        self.owner, self.what = owner, what

    def __call__(self, n: float, /) -> None:
        if self.what == self.owner.what:
            self.owner.seen += 1
            if self.owner.seen == self.owner.at:
                raise KeyboardInterrupt

    def note(self, text: str) -> None:
        pass
