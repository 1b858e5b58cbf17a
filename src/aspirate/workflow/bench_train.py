"""How fast the training loop is, as ratios that are measured in one run.

Four contestants take turns on the same net and the same number of tiles:

* ours: `learning/loop.fit` on tiles that lie on disk and nowhere else, drawn and augmented as in training,
* the same with the tiles in memory: what is lost by reading them,
* the same with one batch that is finished, drawn and augmented once and for all: what is lost by making batches,
* a plain PyTorch loop in fp32 with one batch in memory, nothing drawn, nothing augmented; in a process of its own,
  since ours changes how the process handles memory.
"""

import gc
import os
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from aspirate.core.progress import Advance, silent
from aspirate.core.records import SlideEntry
from aspirate.learning.augment import coloured
from aspirate.learning.device import Compute, choose_compute
from aspirate.learning.loop import FitPlan, fit
from aspirate.learning.tile_bank import TileBank
from aspirate.stages.malignancy import KEPT, MalignancyLearner
from aspirate.stages.settings import MalignancySettings
from aspirate.workflow.recipe import load_recipe

CONTESTANTS = 4
SLIDES, TILES_PER_SLIDE = 16, 256
"""Several times what a turn draws, so that most tiles are read for the first time."""
WARM_UP_STEPS = 4
"""Enough for memory to be mapped and the queue of batches to be as full as it stays."""
PAPER_BATCH = 32
"""The paper's 288 tiles need some 20 GB."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How long to measure one recipe: turns of each contestant, and steps of a turn after warming up."""

    turns: int
    steps: int


Seconds = Callable[[MalignancyLearner, int], float]
COMPACT, PAPER = Effort(turns=9, steps=24), Effort(turns=3, steps=3)


def measure(
    compact: Effort = COMPACT, paper: Effort | None = PAPER, side_px: int = 128, advance: Advance = silent
) -> dict[str, float | int | str]:
    """Tiles per second and ratios, those of the paper's net under names that end in `_paper`."""
    compute = choose_compute()
    figures: dict[str, float | int | str] = {
        "device": compute.accelerator,
        "bf16": compute.bf16,
        "threads": torch.get_num_threads(),
    }
    settings = load_recipe("compact").malignancy
    figures |= _compare(settings, side_px, compute, compact, advance)
    if paper is not None:
        settings = load_recipe("paper", {"malignancy.batch": PAPER_BATCH}).malignancy
        of_paper = _compare(settings, side_px, compute, paper, advance)
        figures |= {f"{name}_paper": value for name, value in of_paper.items()}
    return figures


def steps_of(compact: Effort = COMPACT, paper: Effort | None = PAPER) -> int:
    """How often `measure` advances."""
    return CONTESTANTS * sum(effort.turns for effort in (compact, paper) if effort is not None)


def _compare(
    settings: MalignancySettings, side_px: int, compute: Compute, effort: Effort, advance: Advance
) -> dict[str, float | int]:
    turns: list[list[float]] = []
    with TemporaryDirectory(prefix="aspirate-bench-") as place:
        entries = _fill(TileBank(Path(place)), side_px)

        learner = partial(_learner, TileBank, Path(place), entries, side_px, settings)

        def on_disk() -> MalignancyLearner:
            _forget(Path(place))
            return learner()

        def in_memory() -> MalignancyLearner:
            return _learner(MemoryBank, Path(place), entries, side_px, settings)

        def finished() -> MalignancyLearner:
            made = learner()
            batch = coloured(made.batch(0))
            made.batch = lambda step: batch  # type: ignore[method-assign]
            return made

        contestants: list[Callable[[], float]] = [
            lambda: _seconds_of_ours(on_disk(), compute, effort.steps),
            lambda: _seconds_of_ours(in_memory(), compute, effort.steps),
            lambda: _seconds_of_ours(finished(), compute, effort.steps),
            lambda: _in_own_process(_seconds_of_plain, learner, effort.steps),
        ]
        for _ in range(effort.turns):
            turns.append([])
            for contestant in contestants:
                turns[-1].append(contestant())
                advance(1)
    names = "", "_in_memory", "_finished_batch", "_plain_torch"
    columns = dict(zip(names, zip(*turns, strict=True), strict=True))
    figures: dict[str, float | int] = {"batch": settings.batch}
    for name, column in columns.items():
        figures[f"tiles_per_second{name}"] = settings.batch / median(column)
    for name in names[1:]:
        figures[f"ratio{name}"] = median(other / ours for other, ours in zip(columns[name], columns[""], strict=True))
    return figures


class MemoryBank(TileBank):
    """Tiles that are read from disk once, before they are asked for."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        for path in folder.glob("*.npy"):
            self.count(path.stem)

    def _map(self, name: str) -> NDArray[np.uint8]:
        return np.array(super()._map(name))


def _forget(folder: Path) -> None:
    """The system's own copies of the files, so that they are read from disk again; where that can be asked for."""
    gc.collect()  # learners before, which hold maps of the files: what is mapped is not forgotten
    if not hasattr(os, "posix_fadvise"):
        return
    for path in folder.glob("*.npy"):
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _fill(bank: TileBank, side_px: int) -> list[SlideEntry]:
    """Slides of both kinds and all categories, their tiles without meaning."""
    rng = np.random.default_rng(0)
    entries = []
    for number in range(SLIDES):
        name = f"slide-{number}"
        bank.add(f"{name}.{KEPT}", rng.integers(0, 256, (TILES_PER_SLIDE, side_px, side_px, 3), np.uint8))
        entries.append(SlideEntry(name, Path(name), malignant=number % 2 == 1, bethesda=2 + number % 5))
    return entries


def _learner(
    bank: Callable[[Path], TileBank],
    place: Path,
    entries: list[SlideEntry],
    side_px: int,
    settings: MalignancySettings,
) -> MalignancyLearner:
    return MalignancyLearner(bank(place), entries, [], [], side_px, settings, seed=0)


def _in_own_process(seconds: Seconds, learner: Callable[[], MalignancyLearner], steps: int) -> float:
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(_with_threads, seconds, learner, steps, torch.get_num_threads()).result()


def _with_threads(seconds: Seconds, learner: Callable[[], MalignancyLearner], steps: int, threads: int) -> float:
    torch.set_num_threads(threads)
    return seconds(learner(), steps)


class _Enough(Exception):
    pass


def _seconds_of_ours(learner: MalignancyLearner, compute: Compute, steps: int) -> float:
    """Median seconds of a step; the loop is left before it would validate or save."""
    settings = learner.settings
    plan = FitPlan(
        epochs=1,
        steps_per_epoch=10**9,
        save_every_s=float("inf"),
        average=settings.average,
        **settings.pace(),
    )
    ends: list[float] = []

    def watch(step: int, loss: float) -> None:
        ends.append(time.perf_counter())
        if step == WARM_UP_STEPS + steps:
            raise _Enough

    with TemporaryDirectory(prefix="aspirate-bench-") as nothing, suppress(_Enough):
        fit(learner, plan, Path(nothing), compute, watch)
    return _mean_step(ends)


def _seconds_of_plain(learner: MalignancyLearner, steps: int) -> float:
    settings, module = learner.settings, learner.module
    tiles, ranks = coloured(learner.batch(0))
    tiles = tiles.contiguous()  # (N, 3, side, side), axes in this order in memory
    optimiser = settings.moves(module.parameters(), fused=False)
    module.train()
    ends: list[float] = []
    for _ in range(WARM_UP_STEPS + steps):
        optimiser.zero_grad()
        loss: Any = module(tiles, ranks)
        loss.backward()
        optimiser.step()
        ends.append(time.perf_counter())
    return _mean_step(ends)


def _mean_step(ends: list[float]) -> float:
    """Seconds of a step after warming up. The mean, since a loop that waits for batches does so now and then."""
    return (ends[-1] - ends[WARM_UP_STEPS - 1]) / (len(ends) - WARM_UP_STEPS)
