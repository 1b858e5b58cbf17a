"""One ordinal loss for malignancy (Y), Bethesda category (S) and abnormality (V).

A score g and K cuts c_0 … c_{K−1} give a rank its probability by

    P(rank > n) = σ(g − c_n),        L(g, rank) = Σ_n BCE(σ(g − c_n), 1[rank > n]).

Y has one cut fixed at 0, so that L is the usual cross entropy; S has four learned cuts β, V two, γ.
"""

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, softplus

from aspirate.core.labels import RANKS

UNKNOWN = -1
"""The rank of a tile that has no such label; it contributes nothing."""


class Cuts(nn.Module):
    """K learned cuts: ordered, c_n = first + Σ_{i ≤ n} softplus(gap_i), or free as in the paper."""

    def __init__(self, count: int, ordered: bool = True) -> None:
        super().__init__()
        start = torch.arange(count, dtype=torch.float32) - (count - 1) / 2  # one apart, about 0
        self.ordered = ordered
        if ordered:
            self.first = nn.Parameter(start[:1].clone())
            gap = torch.ones(count - 1)
            self.gaps = nn.Parameter(torch.log(torch.expm1(gap)))  # softplus⁻¹
        else:
            self.free = nn.Parameter(start)

    def forward(self) -> Tensor:
        """(K,)"""
        if not self.ordered:
            return self.free
        return torch.cat([self.first, self.first + softplus(self.gaps).cumsum(0)])


def ordinal_losses(exceeds: Tensor, ranks: Tensor) -> Tensor:
    """From logits (N, K) of rank > n, as g − c_n are, the loss of each, (N,); 0 where the rank is unknown."""
    steps = torch.arange(exceeds.shape[1], device=ranks.device)
    above = (ranks[:, None] > steps).to(exceeds.dtype)  # (N, K)
    losses = binary_cross_entropy_with_logits(exceeds, above, reduction="none").sum(1)
    return torch.where(ranks == UNKNOWN, 0.0, losses)


def rank_probabilities(scores: Tensor, cuts: Tensor) -> Tensor:
    """P(rank = n) for n = 0 … K, (N, K + 1); sums to 1. Needs ordered cuts."""
    exceed = torch.sigmoid(scores[:, None] - cuts)  # (N, K), falling in n
    one, zero = exceed.new_ones(len(scores), 1), exceed.new_zeros(len(scores), 1)
    return torch.cat([one, exceed], 1) - torch.cat([exceed, zero], 1)


def rank_of(scores: Tensor, cuts: Tensor) -> Tensor:
    """How many cuts a score exceeds, (N,)."""
    return (scores[:, None] > cuts).sum(1)


class MalignancyLoss(nn.Module):
    """The weighted sum of the label sets in use, each a mean over the tiles that carry it.

    With one output every set is read from the same score. With two heads, Y has the first to itself, S and V
    share the second.
    """

    def __init__(
        self,
        labels: str,
        ordered: bool = True,
        weights: Mapping[str, float] | None = None,
        two_heads: bool = False,
    ) -> None:
        super().__init__()
        wrong = set(labels) - set(RANKS)
        if wrong or not labels:
            raise ValueError(f"labels={labels!r}: use letters of {''.join(RANKS)}")
        self.labels = labels
        self.weights = dict.fromkeys(labels, 1.0) | dict(weights or {})
        self.outputs = 2 if two_heads else 1
        self.cuts = nn.ModuleDict({label: Cuts(RANKS[label] - 1, ordered) for label in labels if label != "Y"})

    def cuts_of(self, label: str) -> Tensor:
        if label == "Y":
            return torch.zeros(1)
        cuts: Tensor = self.cuts[label]()
        return cuts

    def forward(self, scores: Tensor, ranks: Mapping[str, Tensor], tile_weights: Tensor | None = None) -> Tensor:
        """`scores` (N, outputs), `ranks` (N,) per label, `tile_weights` (N,) the continuous u of each."""
        total = scores.new_zeros(())
        for label in self.labels:
            score = scores[:, 0 if label == "Y" else self.outputs - 1]
            rank = ranks[label]
            u = torch.ones_like(score) if tile_weights is None else tile_weights
            u = torch.where(rank == UNKNOWN, 0.0, u)
            losses = ordinal_losses(score[:, None] - self.cuts_of(label).to(score), rank)
            total = total + self.weights[label] * (u * losses).sum() / u.sum().clamp_min(1e-12)
        return total
