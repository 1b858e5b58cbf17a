"""The benchmark of training: complete, consistent figures, and contestants that learn the same."""

import subprocess
from pathlib import Path
from shutil import which

import numpy as np
import pytest
import torch

from aspirate.learning.device import Compute
from aspirate.learning.tile_bank import TileBank
from aspirate.stages.malignancy import KEPT, MalignancyLearner
from aspirate.stages.settings import MalignancySettings
from aspirate.workflow import bench_train
from aspirate.workflow.bench_train import Effort, MemoryBank, measure, steps_of

TURN = Effort(turns=1, steps=2)


@pytest.fixture(autouse=True)
def little(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_train, "TILES_PER_SLIDE", 4)


def test_figures_are_flat_and_consistent() -> None:
    advanced: list[float] = []
    figures = measure(TURN, None, side_px=32, advance=advanced.append)
    assert sum(advanced) == steps_of(TURN, None) == 4
    assert all(isinstance(value, (int, float, str)) for value in figures.values())
    assert set(figures) == {
        "device",
        "bf16",
        "threads",
        "batch",
        "tiles_per_second",
        "tiles_per_second_in_memory",
        "tiles_per_second_finished_batch",
        "tiles_per_second_plain_torch",
        "ratio_plain_torch",
        "ratio_in_memory",
        "ratio_finished_batch",
    }
    assert figures["threads"] == torch.get_num_threads()
    assert all(float(figures[name]) > 0 for name in figures if name.startswith(("ratio", "tiles")))


def test_the_papers_net_has_figures_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_train, "PAPER_BATCH", 2)
    monkeypatch.setattr(bench_train, "_in_own_process", lambda seconds, learner, steps: seconds(learner(), steps))
    monkeypatch.setattr("aspirate.nn.vgg.HIDDEN", 8)  # 155 million weights are for a benchmark, not for a test
    figures = measure(Effort(1, 1), Effort(1, 1), side_px=16)
    assert figures["batch_paper"] == 2
    assert {"ratio_plain_torch", "ratio_plain_torch_paper", "ratio_in_memory_paper"} <= set(figures)


def test_tiles_in_memory_are_those_on_disk_and_are_not_read_again(tmp_path: Path) -> None:
    entries = bench_train._fill(TileBank(tmp_path), 32)
    bank = MemoryBank(tmp_path)
    names, rows = [f"{entry.slide_id}.{KEPT}" for entry in entries[:3]], [0, 3, 1]
    expected = TileBank(tmp_path).gather(names, rows)
    for path in tmp_path.iterdir():
        path.unlink()
    np.testing.assert_array_equal(bank.gather(names, rows), expected)


@pytest.mark.skipif(which("fincore") is None, reason="says what the system keeps of a file")
def test_tiles_on_disk_are_in_no_copy_of_the_systems(tmp_path: Path) -> None:
    def kept() -> int:
        command = ["fincore", "--noheadings", "--bytes", "--output", "RES", *map(str, tmp_path.glob("*.npy"))]
        return sum(map(int, subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()))

    bench_train._fill(TileBank(tmp_path), 32)
    bank = MemoryBank(tmp_path)
    assert kept() > 0
    bench_train._forget(tmp_path)
    assert kept() == 0
    del bank


def test_our_loop_and_the_plain_one_learn_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the same batch, step by step: what is faster is not something else."""
    monkeypatch.setattr(bench_train, "WARM_UP_STEPS", 2)  # rounding grows with every step
    entries = bench_train._fill(TileBank(tmp_path), 32)
    settings = MalignancySettings.of({"batch": 8, "optimiser": "sgd", "learning_rate": 0.01, "schedule": "constant"})

    def learner() -> MalignancyLearner:
        made = MalignancyLearner(TileBank(tmp_path), entries, [], [], 32, settings, seed=0)
        batch = made.batch(0)
        made.batch = lambda step: batch  # type: ignore[method-assign]
        return made

    ours, plain = learner(), learner()
    bench_train._seconds_of_ours(ours, Compute("cpu", 1, bf16=False), steps=2)
    bench_train._seconds_of_plain(plain, steps=2)
    for (name, a), b in zip(ours.module.state_dict().items(), plain.module.state_dict().values(), strict=True):
        torch.testing.assert_close(a, b, rtol=2e-3, atol=2e-4, msg=name)
