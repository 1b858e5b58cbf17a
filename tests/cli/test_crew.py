"""What `--workers`, `--threads`, `--gpus` and `--on` come to."""

import pytest

from aspirate.cli.crew import SLIDE_MEMORY_MB, crew_for_slides, crew_for_units
from aspirate.workflow.launch import Here, Needs
from aspirate.workflow.local_pool import LocalPool
from aspirate.workflow.ray_pool import RayPool


@pytest.fixture(autouse=True)
def _six_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aspirate.cli.crew.cores", lambda: 6)


@pytest.mark.parametrize(
    ("workers", "threads", "slides", "processes", "threads_each"),
    [(0, 0, 1, None, 0), (1, 0, 9, None, 0), (0, 0, 2, 1, 6), (4, 0, 9, 4, 1), (2, 0, 9, 2, 3), (2, 5, 9, 2, 5)],
)
def test_several_slides_are_kept_apart_and_share_the_cores(
    workers: int, threads: int, slides: int, processes: int | None, threads_each: int
) -> None:
    crew, each = crew_for_slides("local", workers, threads, 0, slides)
    if processes is None:
        assert isinstance(crew, Here) and each == Needs(threads_each)
    else:
        assert isinstance(crew, LocalPool) and crew.workers == processes
        assert each == Needs(threads_each, SLIDE_MEMORY_MB)


def test_on_ray_the_cluster_says_how_many_there_are() -> None:
    crew, each = crew_for_slides("ray", 0, 0, 1, 1)
    assert isinstance(crew, RayPool) and (crew.address, crew.at_once) == (None, 0)
    assert each == Needs(1, SLIDE_MEMORY_MB, 1)
    units = crew_for_units("ray://head:10001", 3, 1)
    assert isinstance(units, RayPool) and (units.address, units.at_once) == ("ray://head:10001", 3)


@pytest.mark.parametrize(("workers", "threads", "processes"), [(0, 1, 6), (0, 4, 1), (3, 4, 3), (1, 1, 1)])
def test_units_fill_the_cores_unless_told(workers: int, threads: int, processes: int) -> None:
    crew = crew_for_units("local", workers, threads)
    assert isinstance(crew, Here) if processes == 1 else isinstance(crew, LocalPool) and crew.workers == processes
