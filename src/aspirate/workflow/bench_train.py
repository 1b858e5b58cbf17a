"""How fast the training loop is, as ratios that are measured in one run.

Three contestants take turns on the same net and the same number of tiles:

* ours: `learning/loop.fit` on tiles that lie on disk, drawn and augmented as in training,
* the same with one batch that is ready in memory: what is lost by making batches,
* a plain PyTorch loop in fp32 with one batch in memory, nothing drawn, nothing augmented; in a process of its own,
  since ours changes how the process handles memory.
"""

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

from aspirate.core.progress import Advance, silent
from aspirate.core.records import SlideEntry
from aspirate.learning.augment import coloured
from aspirate.learning.device import Compute, choose_compute
from aspirate.learning.loop import FitPlan, fit
from aspirate.learning.tile_bank import TileBank
from aspirate.stages.malignancy import KEPT, MalignancyLearner, MalignancySettings
from aspirate.workflow.recipe import load_recipe

SLIDES, TILES_PER_SLIDE = 16, 64
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
    return 3 * sum(effort.turns for effort in (compact, paper) if effort is not None)


def _compare(
    settings: MalignancySettings, side_px: int, compute: Compute, effort: Effort, advance: Advance
) -> dict[str, float | int]:
    turns: list[list[float]] = []
    with TemporaryDirectory(prefix="aspirate-bench-") as place:
        entries = _fill(TileBank(Path(place)), side_px)

        learner = partial(_learner, Path(place), entries, side_px, settings)

        def in_memory() -> MalignancyLearner:
            made = learner()
            batch = coloured(made.batch(0))
            made.batch = lambda step: batch  # type: ignore[method-assign]
            return made

        contestants: list[Callable[[], float]] = [
            lambda: _seconds_of_ours(learner(), compute, effort.steps),
            lambda: _seconds_of_ours(in_memory(), compute, effort.steps),
            lambda: _in_own_process(_seconds_of_plain, learner, effort.steps),
        ]
        for _ in range(effort.turns):
            turns.append([])
            for contestant in contestants:
                turns[-1].append(contestant())
                advance(1)
    ours, memory, plain = (settings.batch / median(column) for column in zip(*turns, strict=True))
    return {
        "batch": settings.batch,
        "tiles_per_second": ours,
        "tiles_per_second_in_memory": memory,
        "tiles_per_second_plain_torch": plain,
        "ratio_plain_torch": median(plain_s / ours_s for ours_s, _, plain_s in turns),
        "ratio_in_memory": median(memory_s / ours_s for ours_s, memory_s, _ in turns),
    }


def _fill(bank: TileBank, side_px: int) -> list[SlideEntry]:
    """Slides of both kinds and all categories, their tiles without meaning."""
    rng = np.random.default_rng(0)
    entries = []
    for number in range(SLIDES):
        name = f"slide-{number}"
        bank.add(f"{name}.{KEPT}", rng.integers(0, 256, (TILES_PER_SLIDE, side_px, side_px, 3), np.uint8))
        entries.append(SlideEntry(name, Path(name), malignant=number % 2 == 1, bethesda=2 + number % 5))
    return entries


def _learner(place: Path, entries: list[SlideEntry], side_px: int, settings: MalignancySettings) -> MalignancyLearner:
    return MalignancyLearner(TileBank(place), entries, [], [], side_px, settings, seed=0)


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
