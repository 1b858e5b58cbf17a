"""The one training loop: trainings differ in what they learn, from which batches, and how they are judged.

All that is needed to go on after a kill is in one file: the step, the weights, their running mean, the optimiser's
memory, the best weights so far and the history. A batch is a function of its step alone, so a resumed run sees the same
batches and, on the same device with the same number of threads, ends with the same weights.

Several processes, one device each, make one training: every one takes its rows of each batch, gradients are averaged,
the first one judges and saves. They are started here (`learning/companions.py`) unless `torchrun` has done so. Losses
are those of one process with the whole batch where every row counts alike; batch normalisation sees the rows of its
process alone.
"""

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any, Protocol, cast

import torch
from pydantic import Field
from torch import Tensor, nn

from aspirate.core.errors import AspirateError
from aspirate.learning.augment import coloured
from aspirate.learning.checkpoints import load_tensors, prefixed, save_tensors, without_prefix
from aspirate.learning.companions import companions, is_one_of_several, leave_in_order
from aspirate.learning.device import Compute
from aspirate.learning.memory import kept_memory
from aspirate.learning.pace import Pace
from aspirate.learning.prefetch import Prefetch

CHECKPOINT_FILE = "checkpoint.safetensors"

Watch = Callable[[int, float], None]
"""Called after each step with the number of steps done and the loss."""


class Learner(Protocol):
    """What differs between one training and another."""

    @property
    def module(self) -> nn.Module:
        """All that is learned."""

    def batch(self, step: int) -> Any:
        """A pure function of the step; called ahead of time in another thread."""

    def loss(self, module: nn.Module, batch: Any) -> Tensor: ...

    def validate(self, module: nn.Module) -> Mapping[str, float]:
        """Figures on slides not trained on; `judged` is to be as high as possible."""


class FitPlan(Pace):
    """How long and how fast to learn."""

    epochs: int
    """At most so many."""
    steps_per_epoch: int
    smooth: int = Field(1, ge=1)
    """An epoch is judged by the mean figure of so many epochs, itself the last: few slides judge with much noise."""
    patience: int | None = None
    """Stop after so many epochs without a rise of the judged figure; None runs all epochs."""
    average: float = Field(0.0, ge=0)
    """Weights are judged and kept as their running mean over about so many epochs; 0 takes them as they are."""
    save_every_s: float = 300.0
    """A kill loses at most so many seconds."""

    @property
    def steps(self) -> int:
        return self.epochs * self.steps_per_epoch

    def newest(self, step: int) -> float:
        """Share of the newest weights in the running mean after so many steps, a plain mean at first."""
        return max(1 / step, 1 / max(1.0, self.average * self.steps_per_epoch))


@dataclass(slots=True)
class State:
    """Everything that a resumed run needs beside the weights and the optimiser's memory."""

    step: int = 0
    losses: list[float] = field(default_factory=list)
    """Of the epoch under way."""
    history: list[dict[str, float]] = field(default_factory=list)
    best: dict[str, Tensor] = field(default_factory=dict)
    mean: dict[str, Tensor] = field(default_factory=dict)
    """Of the weights of the steps so far; empty where they are taken as they are."""

    def judged(self, smooth: int) -> list[float]:
        """Of each epoch, the mean figure of itself and those just before it."""
        figures = [row["judged"] for row in self.history]
        return [fmean(figures[max(0, i - smooth + 1) : i + 1]) for i in range(len(figures))]

    def last_is_best(self, smooth: int) -> bool:
        """Of equals the last, which has learned longer: order may be perfect long before the cuts are in place."""
        judged = self.judged(smooth)
        return judged[-1] >= max(judged) - 1e-12

    def finished(self, plan: FitPlan) -> bool:
        judged = self.judged(plan.smooth)
        stale = len(judged) - 1 - judged.index(max(judged)) if judged else 0
        return self.step >= plan.steps or (plan.patience is not None and stale >= plan.patience)


def fit(
    learner: Learner, plan: FitPlan, folder: Path, compute: Compute, watch: Watch = lambda _step, _loss: None
) -> list[dict[str, float]]:
    """Train to the end of the plan; the module keeps its best epoch's weights. Returns a row per epoch."""
    if compute.devices > 1 and is_one_of_several():
        leave_in_order()
    if compute.devices == 1 or is_one_of_several():
        return _fit(learner, plan, folder, compute, watch)
    with companions(compute.devices, _fit, learner, plan, folder, compute):
        return _fit(learner, plan, folder, compute, watch)


def _fit(
    learner: Learner, plan: FitPlan, folder: Path, compute: Compute, watch: Watch = lambda _step, _loss: None
) -> list[dict[str, float]]:
    from lightning_fabric import Fabric  # here, since it takes seconds to import

    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)  # says of each process that it was started

    fabric = Fabric(accelerator=compute.accelerator, devices=compute.devices, precision=compute.fabric_precision)
    fabric.launch()
    inner = learner.module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimiser = plan.moves(inner.parameters(), fused=compute.accelerator in ("cpu", "cuda"))
    module, wrapped = fabric.setup(inner, optimiser)
    state = _resume(folder, inner, optimiser, plan)

    def batch_of(step: int) -> Any:
        return own_rows(learner.batch(step), fabric.global_rank, fabric.world_size)

    end = state.step if state.finished(plan) else plan.steps
    saved = time.monotonic()
    with kept_memory(), Prefetch(batch_of, range(state.step, end)) as batches:
        for batch in batches:
            module.train()
            for group in optimiser.param_groups:
                group["lr"] = plan.rate(state.step, plan.steps)
            shown = coloured(fabric.to_device(batch))
            with fabric.autocast():
                loss = learner.loss(module, shown)
            fabric.backward(loss)
            wrapped.step()
            wrapped.zero_grad(set_to_none=True)
            state.step += 1
            if plan.average:
                _follow(state.mean, inner, plan.newest(state.step))
            state.losses.append(float(cast(Tensor, fabric.all_reduce(loss.detach()))))
            watch(state.step, state.losses[-1])

            epoch_ends = state.step % plan.steps_per_epoch == 0
            if epoch_ends:
                with _weights(inner, state.mean):
                    figures = evaluate(learner, inner) if fabric.is_global_zero else {}
                    _end_epoch(fabric.broadcast(figures), inner, state, plan)
            if fabric.is_global_zero and (epoch_ends or time.monotonic() - saved > plan.save_every_s):
                _save(folder, inner, optimiser, state, plan)
                saved = time.monotonic()
            if epoch_ends and state.finished(plan):
                break
    inner.load_state_dict(state.best)
    return state.history


def own_rows(batch: Any, rank: int, processes: int) -> Any:
    """One process's part of a batch: together they see every row once."""
    if processes == 1:
        return batch
    from lightning_utilities.core.apply_func import apply_to_collection

    def part(rows: Tensor) -> Tensor:
        if len(rows) % processes:
            raise AspirateError(f"a batch of {len(rows)} cannot be shared by {processes} processes; use a multiple")
        return rows[rank::processes]

    return apply_to_collection(batch, Tensor, part)


def _end_epoch(figures: Mapping[str, float], module: nn.Module, state: State, plan: FitPlan) -> None:
    loss = sum(state.losses) / len(state.losses)
    state.history.append({"epoch": len(state.history) + 1, "loss": loss, **figures})
    state.losses = []
    if state.last_is_best(plan.smooth) or not state.best:
        state.best = {name: tensor.detach().clone() for name, tensor in module.state_dict().items()}


@torch.inference_mode()
def evaluate(learner: Learner, module: nn.Module) -> dict[str, float]:
    """Figures of a module as it will be used: normalisation frozen, no gradients."""
    module.eval()
    return dict(learner.validate(module))


@torch.no_grad()
def _follow(mean: dict[str, Tensor], module: nn.Module, newest: float) -> None:
    """One step of the running mean of all that is a number; counts are taken as they are."""
    now = module.state_dict()
    if not mean:
        mean.update({name: tensor.clone() for name, tensor in now.items()})
    numbers = [name for name in now if now[name].is_floating_point()]
    torch._foreach_lerp_([mean[name] for name in numbers], [now[name] for name in numbers], newest)
    for name in now.keys() - set(numbers):
        mean[name].copy_(now[name])


@contextmanager
def _weights(module: nn.Module, others: Mapping[str, Tensor]) -> Iterator[None]:
    """The module with other weights, where there are any, and then again with its own."""
    if not others:
        yield
        return
    own = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    module.load_state_dict(others)
    yield
    module.load_state_dict(own)


def _save(folder: Path, module: nn.Module, optimiser: torch.optim.Optimizer, state: State, plan: FitPlan) -> None:
    memory = {
        f"{i}.{name}": tensor
        for i, parameter in enumerate(module.parameters())
        for name, tensor in optimiser.state[parameter].items()
    }
    tensors = {
        **prefixed("module", module.state_dict()),
        **prefixed("optimiser", memory),
        **prefixed("best", state.best),
        **prefixed("mean", state.mean),
    }
    note = {
        "plan": plan.fingerprint(),
        "step": state.step,
        "losses": state.losses,
        "history": state.history,
    }
    save_tensors(folder / CHECKPOINT_FILE, tensors, note)


def _resume(folder: Path, module: nn.Module, optimiser: torch.optim.Optimizer, plan: FitPlan) -> State:
    path = folder / CHECKPOINT_FILE
    if not path.exists():
        return State()
    tensors, note = load_tensors(path)
    if note.get("plan") != plan.fingerprint():
        raise AspirateError(
            f"{path}: belongs to a training with other settings; choose another folder, or remove this one"
        )
    module.load_state_dict(without_prefix("module", tensors))
    parameters = list(module.parameters())
    for key, tensor in without_prefix("optimiser", tensors).items():
        number, name = key.split(".")
        parameter = parameters[int(number)]
        # in the parameter's own order of axes: the fused step walks through both as they lie in memory
        of_same_shape = tensor.shape == parameter.shape
        optimiser.state[parameter][name] = torch.empty_like(parameter).copy_(tensor) if of_same_shape else tensor
    best, mean = (without_prefix(kind, tensors) for kind in ("best", "mean"))
    return State(note["step"], note["losses"], note["history"], best, mean)
