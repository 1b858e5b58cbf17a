"""How units at work elsewhere are watched: what they say of their bars and for the log travels as records."""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from aspirate.core.log import arrived
from aspirate.core.progress import Bar, Stages


@dataclass(frozen=True, slots=True)
class Said:
    """What became of a bar: begun where it says `what`, moved on by `n`, or ended."""

    bar: int
    what: str = ""
    total: float = 0.0
    unit: str = ""
    n: float = 0.0
    note: str = ""
    ended: bool = False
    record: dict[str, object] | None = None
    """Or something for the log."""


class Channel:
    """Stages for a unit whose bars are drawn elsewhere; says at most so much as a person can see."""

    def __init__(self, say: Callable[[Said], None], every_s: float = 0.2) -> None:
        self.say, self.every_s, self._bars = say, every_s, 0

    def log(self, record: dict[str, object]) -> None:
        self.say(Said(0, record=record))

    @contextmanager
    def __call__(self, what: str, total: float, unit: str) -> Iterator[Bar]:
        self._bars += 1
        bar = _FarBar(self, self._bars)
        self.say(Said(bar.number, what, total, unit))
        try:
            yield bar
        finally:
            bar.speak(ended=True)


class _FarBar:
    def __init__(self, channel: Channel, number: int) -> None:
        self.channel, self.number = channel, number
        self.moved, self.noted, self.spoke = 0.0, "", time.monotonic()

    def __call__(self, n: float, /) -> None:
        self.moved += n
        if time.monotonic() - self.spoke >= self.channel.every_s:
            self.speak()

    def note(self, text: str) -> None:
        self.noted = text

    def speak(self, ended: bool = False) -> None:
        self.channel.say(Said(self.number, n=self.moved, note=self.noted, ended=ended))
        self.moved, self.noted, self.spoke = 0.0, "", time.monotonic()


class Bars:
    """Draws the bars of units elsewhere."""

    def __init__(self, stages: Stages) -> None:
        self.stages = stages
        self._open: dict[tuple[str, int], tuple[AbstractContextManager[Bar], Bar]] = {}

    def hear(self, unit: str, said: Said) -> None:
        if said.record is not None:
            arrived(said.record)
            return
        key = (unit, said.bar)
        if said.what:
            opened = self.stages(said.what, said.total, said.unit)
            self._open[key] = (opened, opened.__enter__())
        if key not in self._open:  # of a unit that has ended meanwhile
            return
        opened, bar = self._open[key]
        if said.note:
            bar.note(said.note)
        if said.n:
            bar(said.n)
        if said.ended:
            del self._open[key]
            opened.__exit__(None, None, None)

    def close(self, unit: str | None = None) -> None:
        """Those of a unit that ended, however it did, or all."""
        for key in [key for key in self._open if unit in (None, key[0])]:
            self._open.pop(key)[0].__exit__(None, None, None)


class OneBar:
    """One bar for all units: each moves it by its parts, one that is begun again only where it gets further."""

    def __init__(self, bar: Bar) -> None:
        self.bar = bar
        self.reached: dict[str, float] = {}

    @contextmanager
    def __call__(self, what: str, total: float, unit: str) -> Iterator[Bar]:
        self.bar.note(what)
        yield _Share(self, what)

    def reach(self, name: str, part: float) -> None:
        if (further := part - self.reached.get(name, 0.0)) > 0:
            self.reached[name] = part
            self.bar(further)

    def end(self, name: str) -> None:
        self.reach(name, 1.0)
        del self.reached[name]


class _Share:
    def __init__(self, owner: OneBar, name: str) -> None:
        self.owner, self.name, self.at = owner, name, 0.0

    def __call__(self, n: float, /) -> None:
        self.at += n
        self.owner.reach(self.name, self.at)

    def note(self, text: str) -> None:
        self.owner.bar.note(f"{self.name}, {text}")
