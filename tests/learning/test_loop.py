import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from aspirate.core.errors import AspirateError
from aspirate.learning.checkpoints import load_tensors, save_tensors, tensors_sha256
from aspirate.learning.device import Compute, choose_compute
from aspirate.learning.loop import CHECKPOINT_FILE, FitPlan, fit, own_rows

CPU = Compute("cpu", 1, bf16=False)
ROOT = Path(__file__).resolve().parents[2]


class Killed(Exception):
    pass


class LineLearner:
    """Fits y = 2x₀ − x₁ + noise; judged by the figures it is told to report."""

    def __init__(self, judged: list[float] | None = None, die_at: int | None = None) -> None:
        torch.manual_seed(0)
        self.module = nn.Sequential(nn.Linear(2, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1))
        self.judged = judged
        self.die_at = die_at
        self.epochs = 0

    def batch(self, step: int) -> tuple[Tensor, Tensor]:
        if step == self.die_at:
            raise Killed
        generator = torch.Generator().manual_seed(step)
        x = torch.randn(16, 2, generator=generator)
        return x, 2 * x[:, :1] - x[:, 1:] + 0.1 * torch.randn(16, 1, generator=generator)

    def loss(self, module: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        return mse_loss(module(batch[0]), batch[1])

    def validate(self, module: nn.Module) -> Mapping[str, float]:
        assert not module.training and torch.is_inference_mode_enabled()
        self.epochs += 1
        if self.judged is not None:
            return {"judged": self.judged[self.epochs - 1]}
        x, y = self.batch(10_000)
        return {"judged": -float(mse_loss(module(x), y))}


def weights(module: nn.Module) -> str:
    return tensors_sha256(module.state_dict())


def plan(**kwargs: object) -> FitPlan:
    sgd = {"optimiser": "sgd", "learning_rate": 0.02, "momentum": 0.9, "weight_decay": 1e-7, "schedule": "constant"}
    return FitPlan.of({"epochs": 4, "steps_per_epoch": 10, **sgd, **kwargs})


def plain_sgd(steps: int, rate: float, momentum: float, decay: float) -> nn.Module:
    """The same training in five lines, as an independent reference."""
    learner = LineLearner()
    optimiser = torch.optim.SGD(learner.module.parameters(), lr=rate, momentum=momentum, weight_decay=decay)
    for step in range(steps):
        optimiser.zero_grad()
        learner.loss(learner.module, learner.batch(step)).backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    return learner.module


def test_it_is_plain_sgd(tmp_path: Path) -> None:
    learner = LineLearner(judged=[1.0, 2.0, 3.0, 4.0])
    history = fit(learner, plan(), tmp_path, CPU)
    reference = plain_sgd(40, 0.02, 0.9, 1e-7)
    for name, tensor in reference.state_dict().items():
        torch.testing.assert_close(learner.module.state_dict()[name], tensor, rtol=1e-4, atol=1e-6)
    assert [row["judged"] for row in history] == [1, 2, 3, 4]
    assert history[0]["loss"] > history[-1]["loss"]


@pytest.mark.parametrize("die_at", [0, 7, 10, 23, 39])
@pytest.mark.parametrize(
    "rule", [{}, {"optimiser": "adamw", "schedule": "cosine"}, {"average": 0.5}], ids=["sgd", "adamw", "mean"]
)
def test_a_killed_run_goes_on_to_the_same_weights(tmp_path: Path, die_at: int, rule: dict[str, object]) -> None:
    whole = LineLearner()
    history = fit(whole, plan(save_every_s=0, **rule), tmp_path / "whole", CPU)
    killed = LineLearner(die_at=die_at)
    with pytest.raises(Killed):
        fit(killed, plan(save_every_s=0, **rule), tmp_path / "killed", CPU)
    again = LineLearner()
    assert fit(again, plan(save_every_s=0, **rule), tmp_path / "killed", CPU) == history
    assert weights(again.module) == weights(whole.module)


def test_weights_are_judged_and_kept_as_their_running_mean(tmp_path: Path) -> None:
    """Against the mean by hand: plain until the memory of one epoch is full, then each step counts a tenth."""
    expected: dict[str, Tensor] = {}
    for step in range(1, 41):
        newest = max(1 / step, 1 / 10)
        for name, tensor in plain_sgd(step, 0.02, 0.9, 1e-7).state_dict().items():
            old = expected.get(name, torch.zeros(()))
            expected[name] = (1 - newest) * old + newest * tensor.double()
    learner, judged = LineLearner(), []

    def judge(_module: nn.Module) -> Mapping[str, float]:
        judged.append(weights(learner.module))
        return {"judged": float(len(judged))}

    learner.validate = judge  # type: ignore[method-assign, assignment]
    fit(learner, plan(average=1.0), tmp_path, CPU)
    assert judged[-1] == weights(learner.module)
    for name, tensor in learner.module.state_dict().items():
        if tensor.is_floating_point():
            torch.testing.assert_close(tensor.double(), expected[name], rtol=1e-4, atol=1e-5)
    assert int(learner.module[1].num_batches_tracked) == 40  # type: ignore[arg-type]


class PictureLearner(LineLearner):
    """Convolutions, whose weights and momentum lie in memory in another order than that of their axes."""

    def __init__(self, die_at: int | None = None) -> None:
        super().__init__(judged=[1.0, 2.0], die_at=die_at)
        self.module = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(288, 1))

    def batch(self, step: int) -> tuple[Tensor, Tensor]:
        x, y = super().batch(step)
        return x.mean(1)[:, None, None, None] * torch.linspace(-1, 1, 192).view(1, 3, 8, 8), y


@pytest.mark.parametrize("optimiser", ["sgd", "adamw"])
def test_the_momentum_of_convolutions_is_taken_up_in_its_order(tmp_path: Path, optimiser: str) -> None:
    whole, again = PictureLearner(), PictureLearner()
    short = plan(epochs=2, save_every_s=0, optimiser=optimiser)
    fit(whole, short, tmp_path / "whole", CPU)
    with pytest.raises(Killed):
        fit(PictureLearner(die_at=7), short, tmp_path / "killed", CPU)
    fit(again, short, tmp_path / "killed", CPU)
    assert weights(again.module) == weights(whole.module)


def test_a_finished_run_is_not_run_again(tmp_path: Path) -> None:
    first = LineLearner()
    history = fit(first, plan(), tmp_path, CPU)
    second = LineLearner(die_at=0)
    assert fit(second, plan(), tmp_path, CPU) == history
    assert weights(second.module) == weights(first.module)


def test_the_best_epoch_is_kept_and_the_last_of_equals(tmp_path: Path) -> None:
    learner = LineLearner(judged=[1.0, 3.0, 3.0, 2.0])
    fit(learner, plan(), tmp_path, CPU)
    after_three = LineLearner(judged=[1.0, 3.0, 3.0])
    fit(after_three, plan(epochs=3), tmp_path / "three", CPU)
    assert weights(learner.module) == weights(after_three.module)


def test_a_lucky_epoch_does_not_win_where_figures_are_smoothed(tmp_path: Path) -> None:
    """Means of two: 1, 5.5, 5.5, 4; of the equals the last."""
    learner = LineLearner(judged=[1.0, 10.0, 1.0, 7.0])
    fit(learner, plan(smooth=2), tmp_path / "smooth", CPU)
    for epochs, same in ((2, False), (3, True)):
        other = LineLearner(judged=[1.0, 2.0, 3.0])
        fit(other, plan(epochs=epochs), tmp_path / str(epochs), CPU)
        assert (weights(learner.module) == weights(other.module)) == same


def test_it_stops_when_the_judged_figure_does_not_rise(tmp_path: Path) -> None:
    learner = LineLearner(judged=[1.0, 2.0, 2.0, 9.0])
    history = fit(learner, plan(patience=1), tmp_path, CPU)
    assert [row["judged"] for row in history] == [1, 2, 2]
    assert fit(LineLearner(die_at=0), plan(patience=1), tmp_path, CPU) == history, "and stays stopped"


def test_other_settings_do_not_go_on_from_a_checkpoint(tmp_path: Path) -> None:
    fit(LineLearner(), plan(), tmp_path, CPU)
    with pytest.raises(AspirateError, match="other settings"):
        fit(LineLearner(), plan(learning_rate=0.5), tmp_path, CPU)


def test_bf16_learns_the_same_line(tmp_path: Path) -> None:
    exact = fit(LineLearner(), plan(), tmp_path / "fp32", CPU)
    rounded = fit(LineLearner(), plan(), tmp_path / "bf16", Compute("cpu", 1, bf16=True))
    for a, b in zip(exact, rounded, strict=True):
        assert a["loss"] != b["loss"], "bf16 was really in use"
        assert a["loss"] == pytest.approx(b["loss"], rel=0.05)


def test_tensors_round_trip_and_damage_is_told(tmp_path: Path) -> None:
    tensors = {"a": torch.arange(6.0).view(2, 3), "b": torch.tensor([True])}
    save_tensors(tmp_path / "x", tensors, {"n": 1})
    (tmp_path / "usual").touch()
    assert (tmp_path / "x").stat().st_mode == (tmp_path / "usual").stat().st_mode, "a colleague may read it, too"
    back, note = load_tensors(tmp_path / "x")
    assert note == {"n": 1} and tensors_sha256(back) == tensors_sha256(tensors)
    assert tensors_sha256({"a": tensors["a"].view(3, 2), "b": tensors["b"]}) != tensors_sha256(tensors)
    (tmp_path / "x").write_bytes((tmp_path / "x").read_bytes()[:-3])
    with pytest.raises(AspirateError, match="safetensors"):
        load_tensors(tmp_path / "x")


def test_the_checkpoint_is_the_only_file(tmp_path: Path) -> None:
    fit(LineLearner(), plan(save_every_s=0), tmp_path, CPU)
    assert [p.name for p in tmp_path.iterdir()] == [CHECKPOINT_FILE]


def test_precision_can_be_forced() -> None:
    assert choose_compute("fp32").fabric_precision == "32-true"
    assert choose_compute("bf16").fabric_precision == "bf16-mixed"


class EvenLearner(LineLearner):
    """Without batch normalisation, which would see half a batch in each of two processes."""

    def __init__(self) -> None:
        super().__init__()
        self.module = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))


PROCESS = """
import json, sys
from pathlib import Path
from tests.learning.test_loop import EvenLearner, plan
from aspirate.learning.device import Compute
from aspirate.learning.loop import fit
folder = Path(sys.argv[1])
history = fit(EvenLearner(), plan(), folder, Compute("cpu", 2, bf16=False))
(folder / f"history-{sys.argv[2]}.json").write_text(json.dumps(history))
"""


def test_two_processes_learn_as_one_with_the_same_batches(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    shared = os.environ | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "PYTHONPATH": str(ROOT)}
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", PROCESS, str(tmp_path), rank],
            env=shared | {"LOCAL_RANK": rank, "NODE_RANK": "0"},
            stderr=subprocess.PIPE,
        )
        for rank in ("0", "1")
    ]
    try:
        for rank in ranks:
            assert rank.wait(120) == 0, rank.stderr and rank.stderr.read().decode()[-2000:]
    finally:
        for rank in ranks:
            rank.kill()
            rank.communicate()
    first, second = (json.loads((tmp_path / f"history-{rank}.json").read_text()) for rank in (0, 1))
    alone = fit(EvenLearner(), plan(), tmp_path / "alone", CPU)
    assert first == second, "both know the loss of the whole batch, and the figures of the first"
    assert [row["loss"] for row in first] == pytest.approx([row["loss"] for row in alone], rel=1e-4)
    assert [row["judged"] for row in first] == pytest.approx([row["judged"] for row in alone], rel=1e-3)
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == [
        CHECKPOINT_FILE,
        "history-0.json",
        "history-1.json",
    ]


def test_companions_are_started_for_a_training_and_end_with_it(tmp_path: Path) -> None:
    alone = fit(EvenLearner(), plan(), tmp_path / "alone", CPU)
    for _ in range(2):  # a second training in the same process, on another port
        shutil.rmtree(tmp_path / "both", ignore_errors=True)
        threads, before = torch.get_num_threads(), dict(os.environ)
        both = fit(EvenLearner(), plan(), tmp_path / "both", Compute("cpu", 2, bf16=False))
        assert [row["loss"] for row in both] == pytest.approx([row["loss"] for row in alone], rel=1e-4)
        assert not any("spawn_main" in " ".join(child.cmdline()) for child in psutil.Process().children())
        assert (torch.get_num_threads(), dict(os.environ)) == (threads, before)


class DeadlyLearner(EvenLearner):
    """Ends the second process on its way."""

    def batch(self, step: int) -> Any:
        if step == 3 and os.environ["LOCAL_RANK"] == "1":
            os._exit(7)
        return super().batch(step)


def test_a_companion_that_dies_ends_the_training_with_words(tmp_path: Path) -> None:
    with pytest.raises(AspirateError, match="one of 2 processes of the training ended with exit code 7; the same"):
        fit(DeadlyLearner(), plan(), tmp_path, Compute("cpu", 2, bf16=False))
    assert "LOCAL_RANK" not in os.environ


def test_processes_share_a_batch_row_by_row() -> None:
    batch = torch.arange(6), {"Y": torch.arange(6) * 10}
    parts = [own_rows(batch, rank, 3) for rank in range(3)]
    assert [part[0].tolist() for part in parts] == [[0, 3], [1, 4], [2, 5]]
    assert [part[1]["Y"].tolist() for part in parts] == [[0, 30], [10, 40], [20, 50]]
    assert own_rows(batch, 0, 1) is batch
    with pytest.raises(AspirateError, match="a batch of 6 cannot be shared by 4 processes"):
        own_rows(batch, 1, 4)
