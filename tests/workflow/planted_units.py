"""Units with a known end: they count, sleep, die or take memory; some note in a folder each time they are begun."""

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from aspirate.core.errors import AspirateError
from aspirate.core.progress import Stages


def note(folder: Path, name: str) -> None:
    """One more line: a unit that was begun twice has two."""
    with (folder / name).open("a") as file:
        file.write(f"{os.getpid()} {time.time()}\n")


def begun(folder: Path) -> dict[str, int]:
    return {path.name: len(path.read_text().splitlines()) for path in folder.iterdir() if path.suffix != ".log"}


@dataclass(frozen=True, slots=True)
class Square:
    x: int

    def __call__(self, stages: Stages, /) -> int:
        with stages(f"square {self.x}", 2, "steps") as bar:
            bar.note("half-way")
            bar(1)
            bar(1)
        return self.x**2


@dataclass(frozen=True, slots=True)
class Walk:
    """Two steps, slow enough to be seen."""

    def __call__(self, stages: Stages, /) -> None:
        with stages("walk", 2, "steps") as bar:
            for _ in range(2):
                bar.note("on the way")
                bar(1)
                time.sleep(1.2)


@dataclass(frozen=True, slots=True)
class Nothing:
    def __call__(self, stages: Stages, /) -> None:
        pass


@dataclass(frozen=True, slots=True)
class Sleep:
    folder: Path
    name: str
    seconds: float

    def __call__(self, stages: Stages, /) -> str:
        note(self.folder, self.name)
        time.sleep(self.seconds)
        return self.name


@dataclass(frozen=True, slots=True)
class Refuse:
    why: str

    def __call__(self, stages: Stages, /) -> None:
        raise AspirateError(self.why)


@dataclass(frozen=True, slots=True)
class Divide:
    def __call__(self, stages: Stages, /) -> float:
        return 1 / 0


@dataclass(frozen=True, slots=True)
class Die:
    """By a signal, the first `times` it is begun."""

    folder: Path
    name: str
    signal: signal.Signals
    times: int

    def __call__(self, stages: Stages, /) -> str:
        note(self.folder, self.name)
        with stages(self.name, 1, "steps"):
            if begun(self.folder)[self.name] <= self.times:
                os.kill(os.getpid(), self.signal)
                time.sleep(60)
        return self.name


@dataclass(frozen=True, slots=True)
class Eat:
    """So many megabytes, held for a while."""

    folder: Path
    name: str
    megabytes: int
    seconds: float

    def __call__(self, stages: Stages, /) -> str:
        note(self.folder, self.name)
        held = bytearray(os.urandom(1)) * (self.megabytes * 2**20)
        time.sleep(self.seconds)
        with (self.folder / f"{self.name}.log").open("a") as file:
            file.write(f"{held[0]}\n")
        return self.name


@dataclass(frozen=True, slots=True)
class Threads:
    """How many threads torch computes with."""

    def __call__(self, stages: Stages, /) -> int:
        import torch

        return torch.get_num_threads()
