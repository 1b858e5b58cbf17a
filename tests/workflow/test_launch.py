"""Units end as planted whoever does them; a worker's death, a full memory and a killed parent cost no other unit."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from tests.workflow.planted_units import Die, Divide, Eat, Refuse, Sleep, Square, Threads, begun

from aspirate.core.errors import ConfigError
from aspirate.core.progress import Bar, silent_stages
from aspirate.core.store import is_alive
from aspirate.workflow.launch import Executor, Here, Needs, Outcome, Unit, executor_for
from aspirate.workflow.local_pool import LocalPool
from aspirate.workflow.memory_watch import MemoryWatch, available_mb, resident_mb

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.xdist_group("launch")


def run(executor: Executor, units: list[Unit]) -> dict[str, Outcome]:
    return {outcome.name: outcome for outcome in executor.run(units, silent_stages)}


MIXED = [
    Unit("a", Square(3)),
    Unit("refused", Refuse("no cells; look again")),
    Unit("b", Square(4), after=("a",)),
    Unit("in vain", Square(5), after=("b", "refused")),
    Unit("and so", Square(6), after=("in vain",)),
    Unit("unforeseen", Divide()),
]


def test_what_was_begun_first_is_ended_first() -> None:
    """A unit that becomes ready comes before those that stood behind it."""
    units = [Unit("0", Square(0)), Unit("0b", Square(1), after=("0",)), Unit("0c", Square(1), after=("0b",))]
    units += [Unit("1", Square(2)), Unit("1b", Square(3), after=("1", "0"))]
    assert [outcome.name for outcome in Here().run(units, silent_stages)] == ["0", "0b", "0c", "1", "1b"]


@pytest.mark.parametrize("executor", [Here(), LocalPool(2)], ids=["here", "local"])
def test_units_end_as_planted_whoever_does_them(executor: Executor) -> None:
    begun_units: list[str] = []
    line = Divide.__call__.__code__.co_firstlineno + 1
    found = {o.name: (o.value, o.error) for o in executor.run(MIXED, silent_stages, begun_units.append)}
    assert found == {
        "a": (9, None),
        "b": (16, None),
        "refused": (None, "no cells; look again"),
        "in vain": (None, "no cells; look again"),
        "and so": (None, "no cells; look again"),
        "unforeseen": (None, f"ZeroDivisionError: division by zero (planted_units.py:{line})"),
    }
    assert sorted(begun_units) == ["a", "b", "refused", "unforeseen"]
    assert begun_units.index("a") < begun_units.index("b")


def test_units_that_wait_for_what_does_not_come_first_are_refused() -> None:
    for units, why in (
        ([Unit("a", Square(1), after=("b",)), Unit("b", Square(1))], "a waits for b, which does not come before it"),
        ([Unit("a", Square(1)), Unit("a", Square(2))], "two units are called a"),
    ):
        with pytest.raises(ValueError, match=why):
            run(Here(), units)


class Watching:
    """Writes down every bar it is asked for, and all that is said of it."""

    def __init__(self) -> None:
        self.seen: dict[str, list[object]] = {}
        self.ended: list[str] = []

    @contextmanager
    def __call__(self, what: str, total: float, unit: str) -> Iterator[Bar]:
        self.seen[what] = [(total, unit)]
        yield _Line(self.seen[what])
        self.ended.append(what)


@dataclass
class _Line:
    said: list[object]

    def __call__(self, n: float, /) -> None:
        self.said.append(n)

    def note(self, text: str) -> None:
        self.said.append(text)


def test_bars_of_units_elsewhere_are_drawn_here() -> None:
    for executor in (Here(), LocalPool(2)):
        watching = Watching()
        assert [outcome.value for outcome in executor.run(MIXED[:1], watching)] == [9]
        total, noted, *moved = watching.seen["square 3"]
        assert (total, noted, sum(n for n in moved if isinstance(n, float | int))) == ((2, "steps"), "half-way", 2)
        assert watching.ended == ["square 3"]


def test_the_number_of_threads_is_the_units_own() -> None:
    import torch

    units = [Unit(f"{cpus}", Threads(), Needs(cpus)) for cpus in (1, 3, 2)]
    before = torch.get_num_threads()
    for executor in (Here(), LocalPool(1)):
        assert {name: outcome.value for name, outcome in run(executor, units).items()} == {"1": 1, "3": 3, "2": 2}
    assert torch.get_num_threads() == before


def test_a_worker_that_dies_natively_takes_no_other_unit_with_it(tmp_path: Path) -> None:
    units = [
        Unit("always", Die(tmp_path, "always", signal.SIGSEGV, times=9)),
        Unit("waits for it", Square(2), after=("always",)),
        Unit("once", Die(tmp_path, "once", signal.SIGKILL, times=1)),
        *(Unit(f"{n}", Square(n)) for n in range(4)),
    ]
    watching = Watching()
    found = {o.name: o for o in LocalPool(2).run(units, watching)}
    assert found["always"].error == (
        "always: the process at work on it ended with SIGSEGV, also when nothing else was at work"
    )
    assert found["waits for it"].error == found["always"].error
    assert found["once"].value == "once"
    assert [found[f"{n}"].value for n in range(4)] == [0, 1, 4, 9]
    assert begun(tmp_path) == {"always": 2, "once": 2}
    assert "always" in watching.ended, "its bar does not stay on the screen"


def test_a_unit_is_tried_again_alone(tmp_path: Path) -> None:
    """The second attempt begins when all others, which take a while, have ended."""
    units = [Unit("dies", Die(tmp_path, "dies", signal.SIGSEGV, times=1))]
    units += [Unit(f"{n}", Sleep(tmp_path, f"{n}", 0.3)) for n in range(3)]
    assert not any(outcome.error for outcome in run(LocalPool(2), units).values())
    again = float((tmp_path / "dies").read_text().split()[-1])
    assert again >= max(float((tmp_path / f"{n}").read_text().split()[-1]) for n in range(3)) + 0.3


def small_machine(total_mb: float) -> Callable[[], float]:
    """Its memory is taken by this process's children alone."""
    me = psutil.Process()
    return lambda: total_mb - sum(resident_mb(child.pid) for child in me.children())


def test_units_that_take_more_than_they_said_are_fewer_at_once(tmp_path: Path) -> None:
    """Two of 400 MB are too many for 800: one gives way, and all are done in the end, no two at a time."""
    units = [Unit(f"{n}", Eat(tmp_path, f"{n}", 400, 1.0), Needs(memory_mb=50)) for n in range(3)]
    pool = LocalPool(2, MemoryWatch(small_machine(800), reserve_mb=150))
    found = run(pool, units)
    assert [found[f"{n}"].value for n in range(3)] == ["0", "1", "2"]
    assert begun(tmp_path) == {"0": 1, "1": 2, "2": 1}, "one was stopped and begun again; the third waited"
    ended = [(tmp_path / f"{n}.log").stat().st_mtime for n in range(3)]
    starts = [float((tmp_path / f"{n}").read_text().split()[-1]) for n in range(3)]
    assert min(starts[1:]) >= ended[0] - 0.1 and abs(starts[2] - starts[1]) > 0.9


def test_memory_is_measured_as_the_system_does() -> None:
    assert available_mb() == pytest.approx(psutil.virtual_memory().available / 2**20, rel=0.2)
    assert resident_mb(os.getpid()) == pytest.approx(psutil.Process().memory_info().rss / 2**20, rel=0.2)
    assert resident_mb(2**22 + 1) == 0


DRIVER = """
import sys
from pathlib import Path
from tests.workflow.planted_units import Sleep
from aspirate.core.progress import silent_stages
from aspirate.workflow.launch import Unit
from aspirate.workflow.local_pool import LocalPool
if __name__ == "__main__":
    folder = Path(sys.argv[1])
    units = [Unit(f"{n}", Sleep(folder, f"{n}", 60)) for n in range(4)]
    list(LocalPool(2).run(units, silent_stages))
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_no_worker_outlives_its_parent(tmp_path: Path, how: signal.Signals) -> None:
    (tmp_path / "driver.py").write_text(DRIVER)
    (tmp_path / "notes").mkdir()
    driver = subprocess.Popen(
        [sys.executable, str(tmp_path / "driver.py"), str(tmp_path / "notes")],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stderr=subprocess.DEVNULL,
    )
    try:
        until(lambda: len(list((tmp_path / "notes").iterdir())) == 2, 60)
        workers = [int(path.read_text().split()[0]) for path in (tmp_path / "notes").iterdir()]
        assert all(is_alive(pid) for pid in workers)
        driver.send_signal(how)
        driver.wait(20)
        until(lambda: not any(is_alive(pid) for pid in workers), 20)
    finally:
        driver.kill()
        driver.wait()
    assert len(list((tmp_path / "notes").iterdir())) == 2, "no further unit was begun"


def until(true: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"not within {seconds} s"
        time.sleep(0.05)


def test_closing_the_run_ends_what_is_under_way(tmp_path: Path) -> None:
    units = [Unit("short", Square(2)), *(Unit(f"{n}", Sleep(tmp_path, f"{n}", 60)) for n in range(2))]
    with closing(LocalPool(2).run(units, silent_stages)) as outcomes:
        assert next(outcomes).name == "short"
        until(lambda: bool(begun(tmp_path)), 20)
        workers = [int(path.read_text().split()[0]) for path in tmp_path.iterdir()]
    assert workers and not any(is_alive(pid) for pid in workers)


def test_where_units_are_done_is_said_by_name() -> None:
    assert isinstance(executor_for("local", 1), Here)
    assert isinstance(executor_for("local", 3), LocalPool)
    with pytest.raises(ConfigError, match="--on mars: say local, ray"):
        executor_for("mars", 2)
