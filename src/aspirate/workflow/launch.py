"""Units of work as data, and who does them: this process, processes on this machine (`local_pool`), Ray (`ray_pool`).

A unit may be done twice, here or elsewhere, and leaves the same files: it skips what is done and writes atomically. So
whoever does units may begin one again when a process or a machine is lost. The number of threads is the unit's, not the
executor's: sums are rounded in the order in which threads share them.
"""

import os
import sys
import time
import traceback
from bisect import insort
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from aspirate.core.errors import AspirateError, ConfigError
from aspirate.core.progress import Stages


class Job(Protocol):
    """What a unit does: a frozen record that can be sent to another process."""

    def __call__(self, stages: Stages, /) -> Any:
        """`stages` shows how it goes on; what is returned goes back to who launched it."""


@dataclass(frozen=True, slots=True)
class Needs:
    """What a unit takes of a machine."""

    cpus: int = 1
    """Threads it computes with; 0 leaves their number as it is."""
    memory_mb: int = 0
    """At most, as far as is known; 0 where nothing is."""
    gpus: int = 0


@dataclass(frozen=True, slots=True)
class Unit:
    name: str
    job: Job
    needs: Needs = Needs()
    after: tuple[str, ...] = ()
    """Names of units that must be done before."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a unit ended: with what its job returned, or with why it failed."""

    name: str
    value: Any = None
    error: str | None = None
    seconds: float = field(default=0.0, compare=False)
    """That it took, wherever that was."""


Outcomes = Generator[Outcome, None, None]

Begun = Callable[[str], None]
"""Told the name of each unit that begins."""


def unheeded(name: str) -> None:
    """For callers who do not want to know."""


class Executor(Protocol):
    """Does units, each once those before it are done; one that fails takes along only those that wait for it."""

    def run(self, units: Sequence[Unit], stages: Stages, begun: Begun = unheeded) -> Outcomes:
        """Outcomes as they come; closing the iterator ends all work under way."""


class Here:
    """One after another in this process, in the order given."""

    def run(self, units: Sequence[Unit], stages: Stages, begun: Begun = unheeded) -> Outcomes:
        agenda = Agenda(units)
        while agenda.ready:
            unit = agenda.ready.popleft()
            begun(unit.name)
            yield from agenda.ended(perform(unit, stages))


HERE = Here()


def executor_for(on: str, workers: int) -> Executor:
    """`on` is where, as people type it: `local`, `ray`, `auto`, `ray://host:port`; one local worker is this process."""
    if on == "local":
        if workers == 1:
            return HERE
        from aspirate.workflow.local_pool import LocalPool

        return LocalPool(workers)
    if on in ("ray", "auto") or on.startswith("ray://"):
        from aspirate.workflow.ray_pool import RayPool

        return RayPool(None if on == "ray" else on, workers)
    raise ConfigError(f"--on {on}: say local, ray (start or join one here), auto (join a cluster) or ray://host:port")


def perform(unit: Unit, stages: Stages) -> Outcome:
    """Do a unit here and now; what its job raises is its outcome."""
    began, value, why = time.monotonic(), None, None
    try:
        with computing_threads(unit.needs.cpus):
            value = unit.job(stages)
    except Exception as error:  # noqa: BLE001 - the boundary of one unit: told by its name, the others go on
        why = described(error)
    return Outcome(unit.name, value, why, time.monotonic() - began)


def described(error: BaseException) -> str:
    """What a person can mend in its own words; else the kind of error, too, and where it arose."""
    if isinstance(error, AspirateError):
        return str(error)
    last = traceback.extract_tb(error.__traceback__)[-1:]
    where = "".join(f" ({os.path.basename(frame.filename)}:{frame.lineno})" for frame in last)  # noqa: PTH119
    return f"{type(error).__name__}: {error}".removesuffix(": ") + where


@contextmanager
def computing_threads(count: int) -> Iterator[None]:
    """Torch computes with so many threads, where the job brought it along."""
    torch = sys.modules.get("torch")
    before = torch.get_num_threads() if torch is not None and count else 0
    if not torch or before in (0, count):
        yield
        return
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class Agenda:
    """Which units may begin, in the order given, so that what was begun first is ended first."""

    def __init__(self, units: Sequence[Unit]) -> None:
        self.open: dict[str, Unit] = {}
        self._missing = {unit.name: len(unit.after) for unit in units if unit.after}
        self._waiting: dict[str, list[Unit]] = {}
        for unit in units:
            if unit.name in self.open:
                raise ValueError(f"two units are called {unit.name}")
            for name in unit.after:
                if name not in self.open:  # so that none waits for itself, in however wide a circle
                    raise ValueError(f"{unit.name} waits for {name}, which does not come before it")
                self._waiting.setdefault(name, []).append(unit)
            self.open[unit.name] = unit
        self._place = {unit.name: place for place, unit in enumerate(units)}
        self.ready = deque(unit for unit in units if not unit.after)

    def ended(self, outcome: Outcome) -> Iterator[Outcome]:
        """The outcome, and those of units that waited for it in vain; others become ready."""
        if self.open.pop(outcome.name, None) is None:
            return
        yield outcome
        for unit in self._waiting.pop(outcome.name, ()):
            if outcome.error is not None:
                yield from self.ended(Outcome(unit.name, error=outcome.error))
                continue
            self._missing[unit.name] -= 1
            if self._missing[unit.name] == 0 and unit.name in self.open:
                insort(self.ready, unit, key=lambda unit: self._place[unit.name])
