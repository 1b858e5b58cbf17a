"""How long a whole slide takes from the command line to its result, beside the naive way with the same nets.

Naive is what a first program does: OpenSlide, one `read_region` a tile; both nets as they were trained, eager fp32 in
batches of 32, the first on every tile, the second on those kept. It is timed on tiles spread over the slide, and scaled
to all. Ours is the command itself in a process of its own, start-up, heat map and sheet included. Where its time goes
is measured in this process, and what is left of the command's time is `share_rest`.
"""

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from aspirate.core.errors import AspirateError
from aspirate.core.geometry import TileGrid, checked_mpp
from aspirate.core.progress import Advance, silent
from aspirate.engines.engine import Engine
from aspirate.nn.tile_net import TileNet
from aspirate.slides.reader import open_slide
from aspirate.slides.yardsticks import openslide_tiles
from aspirate.workflow.bundle import Bundle, load_bundle
from aspirate.workflow.memory_watch import resident_mb
from aspirate.workflow.predict import Model, SlideResult
from aspirate.workflow.trust import overlap

NAIVE_BATCH = 32
NAIVE_TILES = 256
"""Of either net, timed."""
POLL_S = 0.02
MATRIX = 1536
Figures = dict[str, float | int | str]


def steps_of(repeats: int) -> int:
    """How many stretches `measure` goes through."""
    return repeats + 3


def measure(
    folder: Path, path: Path, exact: bool = False, repeats: int = 3, engine: str = "auto", advance: Advance = silent
) -> Figures:
    """`folder` is that of a trained model; `exact` leaves its scout out."""
    bundle = load_bundle(folder)
    with open_slide(path) as slide:
        recipe = bundle.recipe
        grid = TileGrid.cover(slide.size_px0, checked_mpp(slide.mpp, slide.name), recipe.side_px, recipe.mpp)
        mpx = slide.size_px0.width * slide.size_px0.height / 1e6
    asked = (["--exact"] if exact else []) + (["--engine", engine] if engine != "auto" else [])
    runs = []
    for _ in range(repeats):
        runs.append(run_command(folder, path, asked))
        advance(1)
    seconds = median(seconds for seconds, _ in runs)
    model = _TimedModel(bundle, engine)
    start = time.perf_counter()
    found = model.predict(path, exact=exact)
    alone = time.perf_counter() - start
    advance(1)
    naive = _naive(bundle, path, grid, int(found.tiles.values["selected"].sum()))
    advance(1)
    figures: Figures = {
        "slide": path.name,
        "mpx": mpx,
        "tiles": len(grid),
        "engine": model.engine,
        "exact": exact,
        "repeats": repeats,
        "seconds": seconds,
        "seconds_naive": naive,
        "ratio_naive": naive / seconds,
        "peak_rss_mb": max(rss for _, rss in runs),
        **_shares(model, alone, seconds),
        **_arithmetic(model, seconds),
        **_agreement(model, path, found, exact),
    }
    advance(1)
    return figures


def run_command(folder: Path, path: Path, asked: list[str]) -> tuple[float, float]:
    """Seconds from start to end, and the most memory that the process and its children had at once."""
    with TemporaryDirectory(prefix="aspirate-bench-") as out:
        command = [sys.executable, "-m", "aspirate", "predict", str(folder), str(path), "-o", f"{out}/out", *asked]
        start = time.perf_counter()
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        try:
            with _watched(child.pid) as highest_mb:
                _, said = child.communicate()
        finally:
            child.kill()  # nothing, where it has ended
            child.wait()
        seconds = time.perf_counter() - start
    if child.returncode:
        raise AspirateError(f"{path.name}: the command that is measured failed: {said.strip().splitlines()[-1:]}")
    return seconds, highest_mb()


@contextmanager
def _watched(pid: int) -> Iterator[Callable[[], float]]:
    """The most that a process and its children held at once, in MB, looked at again and again."""
    most, ended = 0.0, threading.Event()

    def look() -> None:
        nonlocal most
        while not ended.wait(POLL_S):
            most = max(most, _tree_mb(pid))

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    try:
        yield lambda: most
    finally:
        ended.set()
        watcher.join()


def _tree_mb(pid: int) -> float:
    """Of a process and all that descend from it; nothing where the system does not say."""
    children: list[str] = []
    for listed in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):  # it has ended meanwhile
            children += listed.read_text(encoding="ascii").split()
    return resident_mb(pid) + sum(map(_tree_mb, map(int, children)))


class _Timed:
    """An engine that remembers how many tiles it scored, and how long that took."""

    def __init__(self, engine: Engine) -> None:
        self.engine, self.name = engine, engine.name
        self.seconds, self.tiles = 0.0, 0

    def score(self, tiles: NDArray[np.uint8]) -> NDArray[np.float32]:
        return self.outputs(tiles)[:, 0]

    def outputs(self, tiles: NDArray[np.uint8]) -> NDArray[np.float32]:
        start = time.perf_counter()
        found = self.engine.outputs(tiles)
        self.seconds += time.perf_counter() - start
        self.tiles += len(tiles)
        return found


class _TimedModel(Model):
    def __init__(self, bundle: Bundle, engine: str) -> None:
        super().__init__(bundle, engine)
        self.timed = {"informativeness": _Timed(self._informativeness), "malignancy": _Timed(self._malignancy)}
        self._informativeness, self._malignancy = self.timed["informativeness"], self.timed["malignancy"]
        if self._scout is not None:
            self._scout = self.timed["scout"] = _Timed(self._scout)


def _shares(model: _TimedModel, alone: float, seconds: float) -> Figures:
    """Of the command's time: what each net takes, waiting for pixels, and all else."""
    nets = {name: timed.seconds / seconds for name, timed in model.timed.items()}
    reading = max(0.0, alone / seconds - sum(nets.values()))
    rest = max(0.0, 1 - alone / seconds)
    return {**{f"share_{name}": share for name, share in nets.items()}, "share_reading": reading, "share_rest": rest}


def _arithmetic(model: _TimedModel, seconds: float) -> Figures:
    """What was computed, and how much of it a machine that only multiplies could have done in fp32 meanwhile."""
    nets = model.bundle.weights
    recipe = model.bundle.recipe
    sides = {"scout": recipe.side_px // recipe.scout.shrink}
    gflop = sum(
        timed.tiles * _gflop(nets[name], sides.get(name, recipe.side_px)) for name, timed in model.timed.items()
    )
    limit = _gflop_per_second()
    tiles = {f"tiles_{name}": timed.tiles for name, timed in model.timed.items()}
    return {**tiles, "gflop": gflop, "gflop_per_second_limit": limit, "percent_of_limit": 100 * gflop / seconds / limit}


def _gflop(net: TileNet, side_px: int) -> float:
    counter = FlopCounterMode(display=False)
    with torch.inference_mode(), counter:
        net.eval()(torch.zeros(1, 3, side_px, side_px, dtype=torch.uint8))
    return float(counter.get_total_flops()) / 1e9


def _gflop_per_second() -> float:
    """The best of a few products of matrices in fp32."""
    matrix = torch.rand(MATRIX, MATRIX)
    times = []
    for _ in range(8):
        start = time.perf_counter()
        torch.mm(matrix, matrix)
        times.append(time.perf_counter() - start)
    return 2 * MATRIX**3 / min(times) / 1e9


def _agreement(model: Model, path: Path, found: SlideResult, exact: bool) -> Figures:
    """With looking at every tile."""
    if exact or found.looked is None:
        return {}
    whole = model.predict(path, exact=True)
    old, new = (float(model.bundle.calibration.probability(each.score)) for each in (whole, found))  # type: ignore[arg-type]
    return {
        "share_looked_at": found.looked.share,
        "missed_at_most": found.looked.missed_at_most,
        "overlap": overlap(found.tiles.values["selected"], whole.tiles.values["selected"]),
        "delta_probability": abs(new - old),
    }


@torch.inference_mode()
def _naive(bundle: Bundle, path: Path, grid: TileGrid, kept: int) -> float:
    """Seconds for a whole slide, from a sample."""
    spread = np.linspace(0, len(grid) - 1, min(NAIVE_TILES, len(grid))).round().astype(np.int64)
    corners_px0 = grid.corners_px0()[spread]

    def each(net: nn.Module) -> float:
        net = net.eval().to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
        seconds = []
        for _ in range(2):  # the first one warms up
            start = time.perf_counter()
            for tiles in openslide_tiles(path, corners_px0, grid.side_px0, grid.side_px, NAIVE_BATCH):
                net(torch.from_numpy(tiles).permute(0, 3, 1, 2).contiguous())
            seconds.append(time.perf_counter() - start)
        return seconds[-1] / len(corners_px0)

    nets = bundle.nets
    return len(grid) * each(nets["informativeness"]) + kept * each(nets["malignancy"])
