"""What launching costs: Ray against processes of this machine on units of seconds, and scheduling without work.

python benchmarks/launch.py [--units 8] [--seconds 5] [--nothing 100000] [--workers 2] [--json FILE]

Units of `--seconds` compute all the while, each on one core; both executors do the same ones, in turn. The time counts
from the first unit's beginning to the last one's end; starting Ray or a worker is told apart (`start_s`). Then units
that do nothing: how many a second an executor hands out, and what the driver holds.
"""

import argparse
import json
import os
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from aspirate.core.progress import Stages, silent_stages
from aspirate.workflow.launch import Executor, Unit
from aspirate.workflow.local_pool import LocalPool
from aspirate.workflow.memory_watch import resident_mb
from aspirate.workflow.ray_pool import RayPool


@dataclass(frozen=True, slots=True)
class Spin:
    """Computes for so many seconds of its own CPU time; says when it began and ended."""

    seconds: float

    def __call__(self, stages: Stages, /) -> tuple[float, float]:
        began, until = time.time(), time.process_time() + self.seconds
        while time.process_time() < until:
            sum(range(1000))
        return began, time.time()


@dataclass(frozen=True, slots=True)
class Nothing:
    def __call__(self, stages: Stages, /) -> None:
        pass


def worked(executor: Executor, units: int, seconds: float) -> dict[str, float]:
    started = time.time()
    outcomes = list(executor.run([Unit(f"{n}", Spin(seconds)) for n in range(units)], silent_stages))
    times = [outcome.value for outcome in outcomes]
    first, last = min(began for began, _ in times), max(ended for _, ended in times)
    return {"units": units, "seconds": last - first, "start_s": first - started, "whole_s": time.time() - started}


def scheduled(executor: Executor, units: int) -> dict[str, float]:
    before = resident_mb(os.getpid())
    made = [Unit(f"{n}", Nothing()) for n in range(units)]
    started, done, first = time.monotonic(), 0, 0.0
    for _ in executor.run(made, silent_stages):
        done += 1
        first = first or time.monotonic()
    seconds = time.monotonic() - first
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {
        "units": done,
        "units_per_s": (done - 1) / seconds,
        "start_s": first - started,
        "driver_mb": peak,
        "driver_grew_mb": peak - before,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--units", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--nothing", type=int, default=100_000)
    parser.add_argument("--workers", type=int, default=2, help="of the local pool; Ray takes every core")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    executors: dict[str, Callable[[], Executor]] = {
        "local": lambda: LocalPool(given.workers),
        "ray": lambda: RayPool(),
    }
    figures: dict[str, object] = {"workers": given.workers}
    turns: dict[str, list[dict[str, float]]] = {name: [] for name in executors}
    for _ in range(given.repeats):
        for name, make in executors.items():
            turns[name].append(worked(make(), given.units, given.seconds))
            print(f"{name:6} {turns[name][-1]}", flush=True)
    for name, runs in turns.items():
        figures |= {f"{name}_{key}": sorted(run[key] for run in runs)[len(runs) // 2] for key in runs[0]}
    medians = [sorted(run["seconds"] for run in turns[name])[given.repeats // 2] for name in ("ray", "local")]
    figures["ratio_local"] = medians[0] / medians[1]
    for name in ("local", "ray"):  # the local one first: a peak of memory does not go down again
        found = scheduled(executors[name](), given.nothing)
        figures |= {f"{name}_nothing_{key}": value for key, value in found.items()}
        print(f"{name:6} {found}", flush=True)
    for key, value in figures.items():
        print(f"{key:32} {value:>12.4g}" if isinstance(value, float) else f"{key:32} {value!s:>12}")
    if given.json:
        given.json.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
