"""By what rule weights are moved, and how fast: the settings that every training has."""

from collections.abc import Iterable
from math import cos, pi
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from aspirate.core.config import Settings

if TYPE_CHECKING:
    import torch
    from torch import nn

WARM_UP = 0.1


class Pace(Settings):
    """Stochastic gradient descent as in the paper, or AdamW, which needs a third of the tiles."""

    optimiser: Literal["sgd", "adamw"] = "adamw"
    learning_rate: float = Field(0.001, gt=0)
    momentum: float = Field(0.9, ge=0, lt=1)
    """Of `sgd`; `adamw` has its own."""
    weight_decay: float = Field(0.01, ge=0)
    schedule: Literal["constant", "cosine"] = "cosine"
    """`cosine` rises over the first tenth of the steps and falls to 0 at the end."""

    def pace(self) -> dict[str, Any]:
        """These settings alone, to be handed on."""
        return {name: getattr(self, name) for name in Pace.model_fields}

    def rate(self, step: int, steps: int) -> float:
        """The learning rate of a step."""
        if self.schedule == "constant":
            return self.learning_rate
        done = (step + 1) / steps
        if done < WARM_UP:
            return self.learning_rate * done / WARM_UP
        return self.learning_rate * (1 + cos(pi * (done - WARM_UP) / (1 - WARM_UP))) / 2

    def moves(self, parameters: "Iterable[nn.Parameter]", fused: bool) -> "torch.optim.Optimizer":
        import torch  # here, since whoever only reads settings needs none

        if self.optimiser == "adamw":
            return torch.optim.AdamW(parameters, self.learning_rate, weight_decay=self.weight_decay, fused=fused)
        return torch.optim.SGD(
            parameters, self.learning_rate, momentum=self.momentum, weight_decay=self.weight_decay, fused=fused
        )
