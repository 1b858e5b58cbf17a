"""Who does the units of a command: the options of `crossval` and `predict`, and what they come to."""

import os
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from aspirate.workflow.launch import Executor, Needs

SLIDE_MEMORY_MB = 1000
"""What a slide takes at most with the compact recipe, its model included."""

On = Annotated[
    str,
    typer.Option(
        "--on", metavar="WHERE", help="local, ray (start or join one here), auto (join a cluster) or ray://HOST:PORT."
    ),
]
UnitsAtOnce = Annotated[
    int,
    typer.Option(
        "--workers", min=0, help="Units at once; 1 does all in this process.", show_default="as many as there is room"
    ),
]
SlidesAtOnce = Annotated[
    int,
    typer.Option(
        "--workers", min=0, help="Slides at once; 1 does all in this process.", show_default="one, in a process apart"
    ),
]
ThreadsOfSlide = Annotated[int, typer.Option("--threads", min=0, help="Of each.", show_default="cores / workers")]
ThreadsOfUnit = Annotated[int, typer.Option("--threads", min=1, help="Of each unit; a run keeps to its number.")]
GpusOfSlide = Annotated[int, typer.Option("--gpus", min=0, help="Of each, where it is done in a process apart.")]
GpusOfUnit = Annotated[
    int | None, typer.Option("--gpus", min=0, help="Of each unit.", show_default="1 where this machine has any")
]


def cores() -> int:
    """Those this process may use, not those the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def compute_with(threads: int) -> None:
    """Whatever computes in this process reads this when it is loaded; 0 leaves it as it is."""
    if threads:
        os.environ["OMP_NUM_THREADS"] = str(threads)


def crew_for_units(on: str, workers: int, threads: int) -> "Executor":
    """On this machine as many as its cores allow; on Ray as many as that has room for."""
    from aspirate.workflow.launch import executor_for

    return executor_for(on, workers or (max(1, cores() // threads) if on == "local" else 0))


def crew_for_slides(on: str, workers: int, threads: int, gpus: int, slides: int) -> "tuple[Executor, Needs]":
    """And what a slide gets; several are kept apart from this process, so that a crash costs one alone."""
    from aspirate.workflow.launch import Needs, executor_for
    from aspirate.workflow.local_pool import LocalPool

    if on != "local":
        return executor_for(on, workers), Needs(threads or 1, SLIDE_MEMORY_MB, gpus)
    if workers == 1 or slides == 1:
        return executor_for(on, 1), Needs(threads)
    at_once = workers or 1
    return LocalPool(at_once), Needs(threads or max(1, cores() // at_once), SLIDE_MEMORY_MB, gpus)
