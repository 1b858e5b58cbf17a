"""Units as tasks of Ray, on this machine or a cluster; the only importer of Ray.

Ray places units where there is room and says when a machine is lost. Trying again is decided here, by the same rules as
for processes of this machine: a lost machine is no fault of its units; a worker that died gets one more attempt, with
the most CPUs any machine has, so that it is alone; one ended for want of memory asks for twice as much.
"""

import os
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

from aspirate import __version__
from aspirate.core.errors import AspirateError, ConfigError
from aspirate.core.log import WARNING, forwarded, tell
from aspirate.core.progress import Stages
from aspirate.workflow.launch import Agenda, Begun, Needs, Outcome, Outcomes, Unit, described, perform, unheeded
from aspirate.workflow.unit_progress import Bars, Channel, Said

LISTEN_EVERY_S = 0.5
COUNT_EVERY_S = 5.0
AHEAD = 2
"""Units handed to Ray for each that it has room for, so that no worker waits for the next one."""
ATTEMPTS = 5
"""Of a unit whose machines are lost, or too small for it."""
JOINING_ATTEMPTS, JOINING_PAUSE_S = 4, 3.0
"""At a cluster that answers but has not got ready for us in time, as one begun just now or a busy one may not."""


def ray_module(loopback: bool) -> ModuleType:
    """Ray as it must be set before it is imported: no report to its makers, and on one machine loopback alone."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if loopback:
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    try:
        import ray
    except ImportError as error:
        raise ConfigError("--on ray: Ray is not installed; pip install 'aspirate[ray]'") from error
    module: ModuleType = ray
    return module


class RayPool:
    """`address` as Ray takes it, or None to join this machine's Ray or start one; `at_once` 0 fills the cluster."""

    def __init__(self, address: str | None = None, at_once: int = 0) -> None:
        self.address, self.at_once = address, at_once

    def run(self, units: Sequence[Unit], stages: Stages, begun: Begun = unheeded) -> Outcomes:
        ray = ray_module(loopback=self.address is None)
        agenda = Agenda(units)  # first: wrong units are nobody's business but ours
        self._join(ray)
        shift = _Shift(ray, self.at_once, agenda, Bars(stages), begun)
        try:
            while agenda.open:
                shift.submit()
                yield from shift.listen()
        finally:
            shift.end()
            ray.shutdown()

    def _join(self, ray: ModuleType) -> None:
        for attempt in range(1, JOINING_ATTEMPTS + 1):
            try:
                ray.init(self.address, log_to_driver=False, logging_level="error", include_dashboard=False)
                return
            except (ConnectionError, ValueError) as error:
                last = [line for line in str(error).splitlines() if line.strip(" )")][-1:]  # of a far traceback
                why = "".join(last).strip() or type(error).__name__
                if isinstance(error, ConnectionAbortedError) and attempt < JOINING_ATTEMPTS:
                    tell("Ray was not ready for us", WARNING, {"reason": why}, attempt=attempt)
                    time.sleep(JOINING_PAUSE_S)
                    continue
                raise ConfigError(
                    f"--on {self.address or 'ray'}: no Ray can be reached ({why}); try again, or see its logs"
                ) from error


@dataclass(frozen=True, slots=True)
class Attempt:
    """A unit as it is asked of Ray this time."""

    unit: Unit
    needs: Needs
    number: int = 1
    crashed: bool = False
    """A worker died of it before."""

    def with_needs(self, needs: Needs) -> "Attempt":
        return replace(self, needs=needs)


class _Shift:
    """One run: what is asked of Ray, and what has been heard of it."""

    def __init__(self, ray: ModuleType, at_once: int, agenda: Agenda, bars: Bars, begun: Begun) -> None:
        self.ray, self.agenda, self.bars, self.begun = ray, agenda, bars, begun
        self.at_once, self._heard, self._counted, self._cpus = at_once, 0.0, 0.0, 1
        self.asked: dict[Any, Attempt] = {}
        self.again: deque[Attempt] = deque()
        self.known: set[str] = set()
        self.mailbox = ray.remote(num_cpus=0)(_Mailbox).remote()
        self.task = ray.remote(max_retries=0)(perform_on_ray)

    def submit(self) -> None:
        while self.again or self.agenda.ready:
            attempt = self.again[0] if self.again else _first(self.agenda.ready[0])
            if len(self.asked) >= self._most(attempt.needs):
                return
            (self.again or self.agenda.ready).popleft()
            wanted = {"num_cpus": max(1, attempt.needs.cpus), "num_gpus": attempt.needs.gpus}
            if attempt.needs.memory_mb:
                wanted["memory"] = attempt.needs.memory_mb * 2**20
            reference = self.task.options(**wanted).remote(__version__, attempt.unit, self.mailbox)
            self.asked[reference] = attempt

    def _most(self, needs: Needs) -> int:
        """How many at once; the cluster may grow and shrink."""
        if self.at_once:
            return self.at_once
        if time.monotonic() - self._counted > COUNT_EVERY_S:
            self._counted, self._cpus = time.monotonic(), int(self.ray.cluster_resources().get("CPU", 1))
        return AHEAD * max(1, self._cpus // max(1, needs.cpus))

    def listen(self) -> Outcomes:
        """What has ended, and what those at work say."""
        asked = list(self.asked)
        if self.ray.wait(asked, num_returns=1, timeout=LISTEN_EVERY_S)[0]:
            ended, _ = self.ray.wait(asked, num_returns=len(asked), timeout=0)
        else:
            ended = []
        if time.monotonic() - self._heard > LISTEN_EVERY_S:
            self._read_mail()
        for reference in ended:
            attempt = self.asked.pop(reference)
            outcome = self._outcome(reference, attempt)
            self.bars.close(attempt.unit.name)
            if outcome is not None:
                self._begin(outcome.name)
                yield from self.agenda.ended(outcome)

    def _outcome(self, reference: Any, attempt: Attempt) -> Outcome | None:
        """None where the unit is to be tried again."""
        try:
            outcome: Outcome = self.ray.get(reference)
        except self.ray.exceptions.RayError as error:
            next_time = after(attempt, error, self._widest())
            if isinstance(next_time, Outcome):
                return next_time
            unit, number = attempt.unit.name, next_time.number
            tell("unit begun again", WARNING, {"unit": unit}, attempt=number, kind=type(error).__name__)
            self.again.append(next_time)
            return None
        return outcome

    def _widest(self) -> int:
        """CPUs of the largest machine."""
        return max((int(node["Resources"].get("CPU", 1)) for node in self.ray.nodes() if node["Alive"]), default=1)

    def _read_mail(self) -> None:
        try:
            mail: list[tuple[str, Said | None]] = self.ray.get(self.mailbox.take.remote(), timeout=LISTEN_EVERY_S)
        except self.ray.exceptions.RayError:  # its machine is lost or busy: work goes on unwatched
            return
        self._heard = time.monotonic()
        at_work = {attempt.unit.name for attempt in self.asked.values()}
        for name, said in mail:
            if said is not None and said.record is not None:
                self.bars.hear(name, said)
            elif name in at_work:
                self._begin(name)
                if said is not None:
                    self.bars.hear(name, said)

    def _begin(self, name: str) -> None:
        if name not in self.known:
            self.known.add(name)
            self.begun(name)

    def end(self) -> None:
        for reference in self.asked:
            self.ray.cancel(reference, force=True)
        self._read_mail()  # the last words for the log
        self.bars.close()


def _first(unit: Unit) -> Attempt:
    return Attempt(unit, unit.needs)


def after(attempt: Attempt, error: Exception, widest_cpus: int) -> Attempt | Outcome:
    """The next attempt at a unit that did not end by itself, or that it failed for good."""
    from ray import exceptions

    name, again = attempt.unit.name, replace(attempt, number=attempt.number + 1)
    if isinstance(error, exceptions.OutOfMemoryError) and again.number <= ATTEMPTS:
        return again.with_needs(replace(attempt.needs, memory_mb=2 * max(attempt.needs.memory_mb, 1024)))
    if isinstance(error, exceptions.NodeDiedError) and again.number <= ATTEMPTS:
        return again
    if isinstance(error, exceptions.WorkerCrashedError) and not attempt.crashed:
        return replace(again, crashed=True).with_needs(replace(attempt.needs, cpus=widest_cpus))
    lines = str(error).strip().splitlines() or [type(error).__name__]
    why = lines[-1 if isinstance(error, exceptions.RayTaskError) else 0]  # that one is a traceback
    return Outcome(name, error=f"{name}: the process at work on it ended, {attempt.number} times in all: {why}")


def perform_on_ray(version: str, unit: Unit, mailbox: Any) -> Outcome:
    """Where Ray has put a unit; its needs are the unit's own, however many CPUs it was given."""
    if version != __version__:
        why = f"this machine ({os.uname().nodename}) has aspirate {__version__}, not {version}; install the same on all"
        return Outcome(unit.name, error=described(AspirateError(why)))

    def say(said: Said | None) -> None:
        mailbox.put.remote(unit.name, said)

    say(None)
    channel = Channel(say, LISTEN_EVERY_S)
    with forwarded(channel.log):
        return perform(unit, channel)


class _Mailbox:
    """Keeps what units say until it is fetched."""

    def __init__(self) -> None:
        self.mail: list[tuple[str, Said | None]] = []

    def put(self, name: str, said: Said | None) -> None:
        self.mail.append((name, said))

    def take(self) -> list[tuple[str, Said | None]]:
        mail, self.mail = self.mail, []
        return mail
