"""From the tiles of a bag to the bag: the rivals' ways, each for any number of tiles and of ordinal cuts.

Tiles of several bags lie in one tensor; `bag` (N,) says whose each is, bags being 0 … B − 1 and none empty. With
z = g − c_n the logit of a tile's rank above cut n and p = σ(z), a bag has P(rank > n) as one of

    max           max_m p_m                                          the paper's NoisyOr
    noisy-or      1 − Π_m (1 − p_m)                                  the textbook's
    mean          Σ_m p_m / M                                        AveragePooling
    noisy-and     (σ(a(p̄ − b)) − σ(−ab)) / (σ(a(1 − b)) − σ(−ab))     p̄ the mean, a fixed, b learned (Kraus 2016)
    attention     σ(wᵀ Σ_m α_m h_m − c_n), α = softmax(vᵀ tanh(V h_m))  and its gated form (Ilse 2018)

All give logits of P, (B, K), so that one loss serves all.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

STEEPNESS = 10.0
"""a of noisy-and; Kraus et al. use 5 to 10."""
ATTENTION_UNITS = 128
SMALLEST = 1e-6
"""Probabilities are kept so far from 0 and 1 before their logit is taken."""


def bags_in(bag: Tensor) -> int:
    """How many bags there are; each must have a tile."""
    count = int(bag.max()) + 1 if len(bag) else 0
    if count == 0 or (torch.bincount(bag, minlength=count) == 0).any():
        raise ValueError("a bag without tiles cannot be pooled")
    return count


def sums(values: Tensor, bag: Tensor) -> Tensor:
    """(N, …) → (B, …)"""
    return values.new_zeros(bags_in(bag), *values.shape[1:]).index_add(0, bag, values)


def means(values: Tensor, bag: Tensor) -> Tensor:
    sizes = torch.bincount(bag).to(values)
    return sums(values, bag) / sizes.view(-1, *[1] * (values.ndim - 1))


def highest(values: Tensor, bag: Tensor) -> Tensor:
    index = bag.view(-1, *[1] * (values.ndim - 1)).expand_as(values)
    return values.new_zeros(bags_in(bag), *values.shape[1:]).scatter_reduce(
        0, index, values, "amax", include_self=False
    )


def softmax_within(values: Tensor, bag: Tensor) -> Tensor:
    """(N,) → weights (N,) that sum to 1 within each bag."""
    weights = (values - highest(values, bag).detach()[bag]).exp()
    return weights / sums(weights, bag)[bag]


def logit(probability: Tensor) -> Tensor:
    return torch.logit(probability, eps=SMALLEST)


class TileScorePool(nn.Module, ABC):
    """Scores every tile with one linear layer, and pools what the scores say at each cut."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.score = nn.Linear(features, 1)

    def forward(self, features: Tensor, bag: Tensor, cuts: Tensor) -> Tensor:
        z = self.score(features) - cuts  # (N, K)
        return self.pooled(z, bag)

    @abstractmethod
    def pooled(self, z: Tensor, bag: Tensor) -> Tensor:
        """Logits of tiles (N, K) → of bags (B, K)."""


class MaxPool(TileScorePool):
    def pooled(self, z: Tensor, bag: Tensor) -> Tensor:
        return highest(z, bag)


class NoisyOrPool(TileScorePool):
    def pooled(self, z: Tensor, bag: Tensor) -> Tensor:
        none = sums(logsigmoid(-z), bag).clamp_max(-SMALLEST)  # log Π (1 − p)
        return torch.log(-torch.expm1(none)) - none


class MeanPool(TileScorePool):
    def pooled(self, z: Tensor, bag: Tensor) -> Tensor:
        return logit(means(torch.sigmoid(z), bag))


class NoisyAndPool(TileScorePool):
    def __init__(self, features: int, steepness: float = STEEPNESS) -> None:
        super().__init__(features)
        self.steepness = steepness
        self.place = nn.Parameter(torch.tensor(0.5))  # b

    def pooled(self, z: Tensor, bag: Tensor) -> Tensor:
        a, b = self.steepness, self.place.clamp(0, 1)
        share = means(torch.sigmoid(z), bag)
        lowest, greatest = torch.sigmoid(-a * b), torch.sigmoid(a * (1 - b))
        return logit((torch.sigmoid(a * (share - b)) - lowest) / (greatest - lowest))


class AttentionPool(nn.Module):
    """A weighted mean of features, scored once."""

    def __init__(self, features: int, units: int = ATTENTION_UNITS, gated: bool = False) -> None:
        super().__init__()
        self.hidden = nn.Linear(features, units)
        self.gate = nn.Linear(features, units) if gated else None
        self.attend = nn.Linear(units, 1)
        self.score = nn.Linear(features, 1)

    def weights(self, features: Tensor, bag: Tensor) -> Tensor:
        """α, (N,)."""
        hidden = torch.tanh(self.hidden(features))
        if self.gate is not None:
            hidden = hidden * torch.sigmoid(self.gate(features))
        return softmax_within(self.attend(hidden)[:, 0], bag)

    def forward(self, features: Tensor, bag: Tensor, cuts: Tensor) -> Tensor:
        pooled = sums(self.weights(features, bag)[:, None] * features, bag)  # (B, D)
        logits: Tensor = self.score(pooled) - cuts
        return logits


POOLS: dict[str, Callable[[int], nn.Module]] = {
    "max": MaxPool,
    "noisy-or": NoisyOrPool,
    "mean": MeanPool,
    "noisy-and": NoisyAndPool,
    "attention": AttentionPool,
    "gated-attention": lambda features: AttentionPool(features, gated=True),
}
"""Name → a function of the number of features; the module takes features (N, D), `bag` (N,) and cuts (K,)."""
