"""Units on a cluster of two machines, both of them here: the same results as in this process, and no unit lost with a
machine."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.workflow.crossval.small import COHORT, recipe, results
from tests.workflow.planted_units import Die, Sleep, Square, Walk, begun
from tests.workflow.small_model import files_of, log_of_slides, save_small_model, small_slides
from tests.workflow.test_launch import MIXED, ROOT, Watching, run

from aspirate.core.errors import ConfigError
from aspirate.core.progress import silent_stages
from aspirate.synth.cohort import make_cohort
from aspirate.workflow.crossval import Plan, crossval
from aspirate.workflow.launch import Executor, Here, Needs, Outcome, Unit
from aspirate.workflow.local_pool import LocalPool
from aspirate.workflow.methods import choose_methods
from aspirate.workflow.predict import load_model
from aspirate.workflow.predict_many import predict_many
from aspirate.workflow.ray_pool import ATTEMPTS, JOINING_ATTEMPTS, Attempt, RayPool, after, perform_on_ray, ray_module

pytestmark = [pytest.mark.ray, pytest.mark.xdist_group("ray")]

CLIENT = """
import json, sys
from tests.workflow.test_launch import MIXED
from aspirate.core.progress import silent_stages
from aspirate.workflow.ray_pool import RayPool
print(json.dumps({o.name: [o.value, o.error] for o in RayPool(sys.argv[1]).run(MIXED, silent_stages)}))
"""
CLIENT_PORT = 20_000 + os.getpid() % 10_000
QUICK_TO_MISS_A_MACHINE = {
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 500,
    "health_check_timeout_ms": 1000,
    "health_check_failure_threshold": 4,
}


def test_another_version_and_no_ray_are_said_plainly(monkeypatch: pytest.MonkeyPatch) -> None:
    said = perform_on_ray("0.0.0", Unit("u", Square(1)), None).error
    assert said is not None and "not 0.0.0; install the same on all" in said

    def nobody(*_: object, **__: object) -> None:
        raise ConnectionError("nobody answers")

    monkeypatch.setattr(ray_module(loopback=True), "init", nobody)
    with pytest.raises(ConfigError, match=r"--on auto: no Ray can be reached \(nobody answers\); try again"):
        run(RayPool("auto"), MIXED)
    attempts = []

    def not_ready(*_: object, **__: object) -> None:
        attempts.append(1)
        raise ConnectionAbortedError("not ready")

    monkeypatch.setattr(ray_module(loopback=True), "init", not_ready)
    monkeypatch.setattr("aspirate.workflow.ray_pool.JOINING_PAUSE_S", 0.0)
    with pytest.raises(ConfigError, match=r"no Ray can be reached \(not ready\)"):
        run(RayPool("ray://127.0.0.1:9"), MIXED)
    assert len(attempts) == JOINING_ATTEMPTS
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ConfigError, match=r"Ray is not installed; pip install 'aspirate\[ray\]'"):
        run(RayPool(), MIXED)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    ray_module(loopback=True)
    from ray.cluster_utils import Cluster

    small: dict[str, Any] = {"num_cpus": 1, "object_store_memory": 80 * 2**20, "include_dashboard": False}
    first = small | {"_system_config": QUICK_TO_MISS_A_MACHINE, "ray_client_server_port": CLIENT_PORT}
    with pytest.MonkeyPatch.context() as planted:
        planted.setenv("PYTHONPATH", str(ROOT))  # where workers find the units of these tests
        made = Cluster(initialize_head=True, head_node_args=first)
        made.add_node(**small)
        yield made
        made.shutdown()  # type: ignore[no-untyped-call]


@pytest.fixture
def on_ray(cluster: Any) -> RayPool:
    return RayPool(cluster.address)


def test_units_end_as_planted_also_there(on_ray: RayPool, tmp_path: Path) -> None:
    watching = Watching()
    units = [*MIXED, Unit("once", Die(tmp_path, "once", signal.SIGSEGV, times=1)), Unit("walk", Walk())]
    found = {o.name: o for o in on_ray.run(units, watching)}
    expected = {o.name: o for o in Here().run(MIXED, silent_stages)}
    assert found == expected | {"once": Outcome("once", "once"), "walk": Outcome("walk")}
    assert begun(tmp_path) == {"once": 2}
    total, noted, *moved = watching.seen["walk"]
    assert (total, noted) == ((2, "steps"), "on the way") and moved[0] == 2
    assert "walk" in watching.ended


def test_units_end_as_planted_also_through_the_client_of_a_cluster(cluster: Any) -> None:
    """As from a machine that is not part of it; in a process of its own, as Ray may be joined in one way only."""
    command = [sys.executable, "-c", CLIENT, f"ray://127.0.0.1:{CLIENT_PORT}"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240)
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout) == {o.name: [o.value, o.error] for o in Here().run(MIXED, silent_stages)}


def test_slides_and_folds_come_out_the_same_whoever_does_them(on_ray: RayPool, tmp_path: Path) -> None:
    source, slides = save_small_model(tmp_path / "model"), small_slides(tmp_path / "slides")
    model = load_model(source)
    predict_many(model, slides, tmp_path / "here")
    predict_many(model, slides, tmp_path / "there", executor=on_ray, source=source, needs=Needs(1))
    assert files_of(tmp_path / "there") == files_of(tmp_path / "here")
    told = {*(("slide", number) for number in range(1, len(slides))), ("slide failed", len(slides))}
    assert log_of_slides(tmp_path / "there") == log_of_slides(tmp_path / "here") == told

    make_cohort(COHORT, tmp_path / "cohort")
    plan = Plan(choose_methods(["cnn", "proposed-uy"]), folds=3, only=(1,))
    short = recipe(malignancy__epochs=1, malignancy__tiles_per_slide=4, informativeness__least_steps=4)
    executors: dict[str, Executor] = {"serial": Here(), "local": LocalPool(2), "ray": on_ray}
    found = {}
    for name, executor in executors.items():
        summary = crossval(tmp_path / "cohort", short, tmp_path / name, plan, executor=executor)
        assert not summary.failed and not summary.left_out
        found[name] = results(tmp_path / name)
    assert len(json.loads(found["serial"]["models.json"])) == 2
    assert found["local"] == found["serial"] and found["ray"] == found["serial"]


def test_a_machine_that_is_lost_loses_no_unit_and_only_those_under_way_are_begun_again(
    cluster: Any, on_ray: RayPool, tmp_path: Path
) -> None:
    doomed = cluster.add_node(num_cpus=1, object_store_memory=80 * 2**20, include_dashboard=False)
    units = [Unit(f"{n}", Sleep(tmp_path, f"{n}", 3.0)) for n in range(7)]
    found: list[Outcome] = []
    for outcome in on_ray.run(units, silent_stages):
        found.append(outcome)
        if len(found) == 3:  # the first three, one a machine; the next three are under way
            deadline = time.monotonic() + 30
            while len(begun(tmp_path)) < 6 and time.monotonic() < deadline:
                time.sleep(0.05)
            done = {each.name for each in found}
            cluster.remove_node(doomed, allow_graceful=False)
    assert sorted((outcome.name, outcome.value) for outcome in found) == [(f"{n}", f"{n}") for n in range(7)]
    times = begun(tmp_path)
    assert sorted(times.values()) == [1, 1, 1, 1, 1, 1, 2], "the one on the lost machine, and no other"
    assert all(times[name] == 1 for name in done)


def attempt(needs: Needs = Needs(1, 2000), **changes: Any) -> Attempt:  # noqa: B008
    return Attempt(Unit("u", Square(1), needs), needs, **changes)


def test_what_is_tried_again_and_how() -> None:
    """An overloaded machine gets fewer units at once, since each asks for more; a crash is tried once more, alone."""
    from ray import exceptions

    short = exceptions.OutOfMemoryError("too little memory\nand much more")  # type: ignore[no-untyped-call]
    assert after(attempt(), short, 8) == attempt(Needs(1, 2000), number=2).with_needs(Needs(1, 4000))
    assert after(attempt(Needs(1)), short, 8) == attempt(Needs(1), number=2).with_needs(Needs(1, 2048))
    lost = exceptions.NodeDiedError("gone")  # type: ignore[no-untyped-call]
    assert after(attempt(number=2), lost, 8) == attempt(number=3)
    for error in (short, lost):
        ended = after(attempt(number=ATTEMPTS), error, 8)
        assert isinstance(ended, Outcome) and ended.error is not None and "5 times in all" in ended.error
    unknown = exceptions.RayTaskError("perform_on_ray", "Traceback:\n  …\nModuleNotFoundError: No module 'x'", None)  # type: ignore[no-untyped-call]
    ended = after(attempt(), unknown, 8)
    assert isinstance(ended, Outcome) and ended.error is not None and ended.error.endswith("No module 'x'")
    crash = exceptions.WorkerCrashedError()
    alone = after(attempt(), crash, 8)
    assert alone == attempt(number=2, crashed=True).with_needs(Needs(8, 2000))
    assert isinstance(alone, Attempt)
    again = after(alone, crash, 8)
    assert isinstance(again, Outcome) and again.error is not None
    assert again.error.startswith("u: the process at work on it ended, 2 times in all: The worker died unexpectedly")
