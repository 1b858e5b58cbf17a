"""What is done to a run, and what must hold afterwards; each scenario ends with a run that was let to its end."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random

from benchmarks.faults.commands import Command, files, results
from benchmarks.faults.starting import Ended, Start

FAILED, MISUSED = 1, 2
"""Exit codes: done but something failed, and input that cannot be used."""

MOST_KILLS = 5
"""Of one run."""


@dataclass(frozen=True, slots=True)
class Undisturbed:
    """What a run gives that nobody disturbs."""

    results: dict[str, bytes]
    files: set[str]
    seconds: float
    bytes: int


class Broken(Exception):
    """What must hold does not."""


def undisturbed(command: Command, out: Path) -> Undisturbed:
    """From an empty folder each time, for how long it takes is asked too."""
    shutil.rmtree(out, ignore_errors=True)
    ended = finish(command, out)
    found = files(out)
    return Undisturbed(results(out), found, ended.seconds, sum((out / name).stat().st_size for name in found))


def finish(command: Command, out: Path) -> Ended:
    """The same command once more, to its end."""
    start = Start(command, out)
    start.wait()
    ended = start.ended()
    must(ended.code == 0, f"ended with {ended.code}: {ended.said[-600:]}")
    must(not start.orphans(), "processes outlive a run that ended")
    return ended


def must(holds: bool, otherwise: str) -> None:
    if not holds:
        raise Broken(otherwise)


def check(out: Path, whole: Undisturbed) -> None:
    found = results(out)
    wrong = [name for name in whole.results if found.get(name) != whole.results[name]]
    must(not wrong, f"{' and '.join(wrong)} differ from those of the undisturbed run")
    more, less = sorted(files(out) - whole.files), sorted(whole.files - files(out))
    must(not more, f"left over: {', '.join(more[:5])}")
    must(not less, f"missing: {', '.join(less[:5])}")


Scenario = Callable[[Command, Path, Undisturbed, Random], int]
"""Disturbs a run in an empty folder, lets it end, and says how many kills there were; `Broken` where it must not be."""


def _killed(moment: Callable[[Start, Path, Undisturbed, Random], Callable[[], bool]], parent_only: bool) -> Scenario:
    """Starts and kills until the run got through or was killed often enough, then lets it end."""

    def scenario(command: Command, out: Path, whole: Undisturbed, rng: Random) -> int:
        kills = 0
        for _ in range(MOST_KILLS):
            start = Start(command, out)
            if not start.wait(moment(start, out, whole, rng)):
                must(start.ended().code == 0, "a start that nobody killed failed")
                break
            start.kill_parent() if parent_only else start.kill_all()
            start.ended()
            kills += 1
            must(not start.orphans(), "processes outlive their killed parent")
        finish(command, out)
        return kills

    return scenario


def _by_chance(start: Start, out: Path, whole: Undisturbed, rng: Random) -> Callable[[], bool]:
    at = rng.uniform(0.1, 1.0) * whole.seconds
    return lambda: start.seconds() > at


def _in_a_write(start: Start, out: Path, whole: Undisturbed, rng: Random) -> Callable[[], bool]:
    """When a file is half written, for the first time after a random moment."""
    at = rng.uniform(0.0, 0.8) * whole.seconds
    return lambda: start.seconds() > at and any(out.rglob(".*.part"))


def two_at_once(command: Command, out: Path, whole: Undisturbed, rng: Random) -> int:
    """The second waits or is told why not; the first ends as if there were no second."""
    first = Start(command, out)
    first.wait(lambda: out.exists() and any(out.iterdir()))
    second = Start(command, out)
    second.wait()
    first.wait()
    ended = [first.ended(), second.ended()]
    must(0 in (one.code for one in ended), f"both failed: {ended[0].said[-300:]} / {ended[1].said[-300:]}")
    for one in ended:
        refused = one.code == MISUSED and "in use" in one.said and "Traceback" not in one.said
        must(one.code == 0 or refused, f"ended with {one.code}: {one.said[-300:]}")
    finish(command, out)
    return 0


def slide_gone(command: Command, out: Path, whole: Undisturbed, rng: Random) -> int:
    """A slide that is missing is said to be, and is made up for once it is back."""
    cohort = Path(next(part for part in command.arguments if "cohort" in Path(part).name))
    folder = cohort.parent if cohort.suffix else cohort
    slide = rng.choice(sorted((folder / "slides").iterdir()))
    away = slide.with_suffix(".away")
    slide.rename(away)
    try:
        start = Start(command, out)
        start.wait()
        ended = start.ended()
    finally:
        away.rename(slide)
    must(ended.code in (FAILED, MISUSED), f"a missing slide ended with {ended.code}")
    must(slide.stem in ended.said and "Traceback" not in ended.said, f"does not name the slide: {ended.said[-300:]}")
    if command.name == "crossval":  # trained without it: the results of that run are others, and may stay
        shutil.rmtree(out)
    finish(command, out)
    return 0


@contextmanager
def _mounted(out: Path, kilobytes: int) -> Iterator[None]:
    """A small disk of its own."""
    out.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", str(out)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", str(out)], check=True)


def _remount(out: Path, how: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{how}", str(out)], check=True)


def _refused_plainly(command: Command, out: Path, words: tuple[str, ...]) -> None:
    start = Start(command, out)
    start.wait()
    ended = start.ended()
    must(ended.code in (FAILED, MISUSED), f"ended with {ended.code}: {ended.said[-300:]}")
    must(any(word in ended.said for word in words), f"does not say why: {ended.said[-300:]}")
    must("Traceback" not in ended.said, f"a traceback: {ended.said[-600:]}")


def full_disk(command: Command, out: Path, whole: Undisturbed, rng: Random) -> int:
    inside = out / "run"
    with _mounted(out, max(16, int(whole.bytes * rng.uniform(0.1, 0.7)) // 1024)):
        _refused_plainly(command, inside, ("No space left", "Disk full", "disk"))
        _remount(out, f"size={10 * whole.bytes // 1024 + 4096}k")
        finish(command, inside)
        check(inside, whole)
        shutil.copytree(inside, out.with_name(f"{out.name}-kept"))
    shutil.rmtree(out)
    out.with_name(f"{out.name}-kept").rename(out)
    return 0


def read_only(command: Command, out: Path, whole: Undisturbed, rng: Random) -> int:
    with _mounted(out, 10 * whole.bytes // 1024 + 4096):
        _remount(out, "ro")
        _refused_plainly(command, out / "run", ("Read-only", "read-only", "permission", "written"))
    finish(command, out)
    return 0


SCENARIOS: dict[str, Scenario] = {
    "kill": _killed(_by_chance, parent_only=False),
    "kill in a write": _killed(_in_a_write, parent_only=False),
    "kill of the parent": _killed(_by_chance, parent_only=True),
    "two at once": two_at_once,
    "slide gone": slide_gone,
    "full disk": full_disk,
    "read-only disk": read_only,
}
NEEDS_ROOT = frozenset({"full disk", "read-only disk"})


def skipped(fault: str) -> str | None:
    """Why a scenario cannot be tried here."""
    if fault in NEEDS_ROOT and (os.name != "posix" or os.geteuid() != 0):
        return "a disk of its own takes an administrator"
    return None
