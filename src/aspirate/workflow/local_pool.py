"""Units in processes on this machine, which are kept from one unit to the next.

A process that dies natively takes only its unit with it, which is tried once more, alone. On a machine short of memory
fewer are at work. When the parent goes, however it goes, its end of the pipe closes and the others go, too.
"""

import multiprocessing
import os
import pickle
import queue
import signal
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait

from aspirate.core.errors import ConfigError
from aspirate.core.log import WARNING, forwarded, tell
from aspirate.core.progress import Stages
from aspirate.workflow.launch import Agenda, Begun, Needs, Outcome, Outcomes, Unit, perform, unheeded
from aspirate.workflow.memory_watch import MemoryWatch
from aspirate.workflow.unit_progress import Bars, Channel, Said

LOOK_EVERY_S = 0.5
STOPS_WITHIN_S = 5.0
"""A worker told to stop leaves at the end of the step at hand; one that does not is killed."""
ORPHANED = 3


class LocalPool:
    """At most `workers` units at once; with GPUs, one worker each."""

    def __init__(self, workers: int, memory: MemoryWatch | None = None) -> None:
        self.workers, self.memory = workers, memory or MemoryWatch()

    def run(self, units: Sequence[Unit], stages: Stages, begun: Begun = unheeded) -> Outcomes:
        shift = _Shift(self._places(units), self.memory, Agenda(units), Bars(stages), begun)
        try:
            while shift.agenda.open:
                shift.assign()
                yield from shift.listen()
        finally:
            shift.end()

    def _places(self, units: Sequence[Unit]) -> list[str | None]:
        """The GPU of each worker, None without; there are no more workers than places."""
        if not any(unit.needs.gpus for unit in units):
            return [None] * min(self.workers, len(units))
        import torch

        named = os.environ.get("CUDA_VISIBLE_DEVICES")
        gpus = named.split(",") if named else [str(number) for number in range(torch.cuda.device_count())]
        if not gpus:
            raise ConfigError("there is no GPU on this machine, and the units need one")
        return list(gpus[: self.workers])


class _Worker:
    """One process and the unit it has at hand."""

    def __init__(self, unit: Unit, gpu: str | None) -> None:
        context = multiprocessing.get_context("spawn")  # a fork would have torch's locks without its threads
        self.gpu = gpu
        self.near, far = context.Pipe()
        self.process = context.Process(target=_work, args=(far, unit.needs.cpus, gpu), daemon=True)
        self.process.start()
        far.close()
        self.take(unit)

    def take(self, unit: Unit) -> None:
        self.unit, self.began = unit, time.monotonic()
        with suppress(BrokenPipeError):  # it died idle; whoever listens to it finds out
            self.near.send_bytes(pickle.dumps(unit))

    @property
    def load(self) -> tuple[Needs, int]:
        return self.unit.needs, self.process.pid or 0

    def gone(self) -> str:
        """How it ended, once it has; one that does not is killed."""
        self.process.join(STOPS_WITHIN_S)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self.near.close()
        code = self.process.exitcode or 0
        return f"exit code {code}" if code >= 0 else signal.Signals(-code).name


class _Shift:
    """One run: who does what, what is free, and what is to be tried again alone."""

    def __init__(self, places: list[str | None], memory: MemoryWatch, agenda: Agenda, bars: Bars, begun: Begun) -> None:
        self.places, self.memory, self.agenda, self.bars, self.begun = places, memory, agenda, bars, begun
        self.idle: list[_Worker] = []
        self.busy: dict[Connection, _Worker] = {}
        self.alone: deque[Unit] = deque()
        self.lost: set[str] = set()
        self.looked = 0.0

    def assign(self) -> None:
        ready = self.agenda.ready
        while ready and (self.idle or self.places) and self._fits(ready[0]):
            self._give(ready.popleft())
        if self.alone and not ready and not self.busy:
            self._give(self.alone.popleft())

    def _fits(self, unit: Unit) -> bool:
        """Where nothing is at work, a unit begins whatever it needs: waiting would not help it."""
        return not self.busy or self.memory.room_for(unit.needs, [worker.load for worker in self.busy.values()])

    def _give(self, unit: Unit) -> None:
        if self.idle:
            worker = self.idle.pop()
            worker.take(unit)
        else:
            worker = _Worker(unit, self.places.pop(0))
        self.busy[worker.near] = worker
        self.begun(unit.name)

    def listen(self) -> Iterator[Outcome]:
        """What workers say within a moment."""
        for connection in wait(list(self.busy), LOOK_EVERY_S):
            worker = self.busy[connection]  # type: ignore[index]
            try:
                said = worker.near.recv()
            except (EOFError, OSError):
                yield from self._bury(worker)
                continue
            if isinstance(said, Said):
                self.bars.hear(worker.unit.name, said)
                continue
            self.idle.append(self.busy.pop(worker.near))
            self.bars.close(said.name)
            yield from self.agenda.ended(said)
        if time.monotonic() - self.looked > LOOK_EVERY_S:
            self._look_at_memory()

    def _bury(self, worker: _Worker) -> Iterator[Outcome]:
        """A worker has died: its unit is tried once more, when nothing else is at work."""
        how, unit = worker.gone(), worker.unit
        self._leave(worker)
        if unit.name not in self.lost:
            self.lost.add(unit.name)
            self.alone.append(unit)
            tell("unit begun again", WARNING, {"unit": unit.name}, attempt=2, kind=how)
            return
        why = f"{unit.name}: the process at work on it ended with {how}, also when nothing else was at work"
        yield from self.agenda.ended(Outcome(unit.name, error=why))

    def _leave(self, worker: _Worker) -> None:
        del self.busy[worker.near]
        self.places.append(worker.gpu)
        self.bars.close(worker.unit.name)

    def _look_at_memory(self) -> None:
        """Where it runs short, the unit begun last gives way and waits until there is room for it."""
        self.looked = time.monotonic()
        self.memory.look(worker.load for worker in self.busy.values())
        if len(self.busy) > 1 and self.memory.short():
            last = max(self.busy.values(), key=lambda worker: worker.began)
            last.process.terminate()
            last.gone()
            self._leave(last)
            self.agenda.ready.appendleft(last.unit)
            tell("unit gave way", WARNING, {"unit": last.unit.name}, why="memory")

    def end(self) -> None:
        """Everyone leaves, through their `finally` blocks where they can."""
        crew = [*self.busy.values(), *self.idle]
        for worker in crew:
            worker.process.terminate()
        for worker in crew:
            worker.gone()
        self.bars.close()


def _work(far: Connection, threads: int, gpu: str | None) -> None:
    """The life of a worker. Ctrl-C is its parent's to handle."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _leave)
    if threads:  # before a unit brings along torch, which reads it once
        os.environ["OMP_NUM_THREADS"] = str(threads)
    if gpu is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = gpu
    inbox: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(far, inbox), daemon=True).start()
    channel = Channel(far.send)
    with forwarded(channel.log):
        while True:
            far.send(perform(pickle.loads(inbox.get()), channel))


def _receive(far: Connection, inbox: "queue.SimpleQueue[bytes]") -> None:
    """Listens all the time, also while a unit is at work: when the parent is gone, so is this process."""
    while True:
        try:
            inbox.put(far.recv_bytes())
        except (EOFError, OSError):
            os._exit(ORPHANED)


def _leave(*_: object) -> None:
    raise SystemExit(143)
