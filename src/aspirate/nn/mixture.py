"""Tiles of a positive bag are a mixture: a share π of them is positive, the others are as in negative bags.

With L(x) = p(x | positive tile) / p(x | negative tile) = e^h, a tile says of the label of its bag

    log p(x | Y = 1) / p(x | Y = 0) = log(1 − π + π·e^h) = t,        logit P(Y = 1 | x) = t + logit P(Y = 1),

the mixture link through which propagated labels are learned; tiles that are independent given the label add up to

    log p(X | Y = 1) / p(X | Y = 0) = Σ_m log(1 − π′ + π′·exp(s·h_m + c)),

the score of a bag. s and c make of h, which a net learned as well as it could, a likelihood ratio again. π → 1 gives
t = h and Σ h, the propagated labels and the mean score of the proposed method. See docs/ppi.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, log, log1p

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, logsigmoid

from aspirate.nn.ordinal import MalignancyLoss
from aspirate.nn.pooling import sums
from aspirate.nn.tile_pooling import AS_IT_IS, Pooling

HASTE = 30.0
"""ρ is learned so much faster than weights: it has farther to go, and is the only one of its kind. At 10 it stays near
where it began, and so does the net (docs/log.md)."""
START = 0.1
"""π before anything is learned. At 0.5 most tiles of positive bags are held against the net from the first step on."""
SHARES = (0.003, 0.01, 0.03, 0.1, 0.2, 0.4, 0.7)
SPREADS = (0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
"""What `refit` tries: π′, and the standard deviation of s·h among tiles of negative bags."""
NEWTON_STEPS = 60
LARGEST_STEP = 1.0


class MixtureLink(nn.Module):
    """h → t + prior, of any shape; π = σ(ρ) is learned. It makes learning robust and is no estimate of the share."""

    def __init__(self, share: float = START, prior: float = 0.0) -> None:
        """`prior` is the logit of a positive bag among those learned from."""
        super().__init__()
        self.raw = nn.Parameter(torch.tensor((log(share) - log1p(-share)) / HASTE))
        self.prior: Tensor
        self.register_buffer("prior", torch.tensor(prior))  # kept with the weights

    @property
    def rho(self) -> Tensor:
        return self.raw * HASTE

    @property
    def share(self) -> float:
        """π as it is now."""
        return float(torch.sigmoid(self.rho.detach()))

    def forward(self, h: Tensor) -> Tensor:
        t = torch.logaddexp(logsigmoid(-self.rho), logsigmoid(self.rho) + h)
        return t + self.prior


class MixtureLoss(nn.Module):
    """As `MalignancyLoss`, but labels of a slide (Y, S) are seen through the link; V is a tile's own, and sees h."""

    outputs = 1

    def __init__(
        self, labels: str, ordered: bool = True, weights: Mapping[str, float] | None = None, prior: float = 0.0
    ) -> None:
        super().__init__()
        self.labels = labels
        self.link = MixtureLink(prior=prior)
        of_slide = labels.replace("V", "")
        self.of_slide = MalignancyLoss(of_slide, ordered, weights) if of_slide else None
        self.of_tile = MalignancyLoss("V", ordered, weights) if "V" in labels else None

    def cuts_of(self, label: str) -> Tensor:
        """Of Y and S on the axis of t, of V on that of h."""
        part = self.of_tile if label == "V" else self.of_slide
        if part is None or label not in self.labels:
            raise ValueError(f"label={label!r}: this loss learns from {self.labels}")
        return part.cuts_of(label)

    def forward(self, scores: Tensor, ranks: Mapping[str, Tensor], tile_weights: Tensor | None = None) -> Tensor:
        """`scores` (N, 1) are h."""
        total = scores.new_zeros(())
        if self.of_slide is not None:
            total = total + self.of_slide(self.link(scores), ranks, tile_weights)
        if self.of_tile is not None:
            total = total + self.of_tile(scores, ranks, tile_weights)
        return total


def pooled(pooling: Pooling, h: Tensor, bag: Tensor, u: Tensor | None = None) -> Tensor:
    """Σ u·evidence of each bag, (B,); `bag` (N,) says whose each tile is. u = 1 unless given."""
    evidence = torch.from_numpy(pooling.evidence(h.numpy()))
    return sums(evidence if u is None else u * evidence, bag)


def candidates(h: Tensor, negative: Tensor) -> list[Pooling]:
    """The sum of scores first, then a grid.

    c is not free: e^h is a likelihood ratio, so that its mean over negative tiles is 1.
    """
    of_negative = h[negative]
    spread = float(of_negative.std())
    made = [AS_IT_IS]
    if not spread > 0:
        return made
    for slope in (wanted / spread for wanted in SPREADS):
        offset = log(len(of_negative)) - float(torch.logsumexp(slope * of_negative, 0))
        made += [Pooling(share, slope, offset) for share in SHARES]
    return made


def refit(h: Tensor, bag: Tensor, positive: Tensor, u: Tensor | None = None) -> Pooling:
    """The pooling whose score tells held-out bags apart best, by the log loss of a logistic curve over it.

    `h` (N,), `bag` (N,) and `u` (N,) of tiles, `positive` (B,) of bags; of equals the simplest.
    """
    h = h.double()
    tried = candidates(h, ~positive[bag])
    scores = torch.stack([pooled(pooling, h, bag, u) for pooling in tried])  # (G, B)
    curves = logistic_curves(scores, positive)
    losses = torch.where(curves.slope > 0, curves.loss, inf)
    return tried[int(losses.argmin())]


@dataclass(frozen=True, slots=True)
class LogisticCurves:
    """P(positive) = σ(slope·score + offset), one curve for each row of scores; all (G,)."""

    slope: Tensor
    offset: Tensor
    loss: Tensor
    """Mean over bags."""


def logistic_curves(scores: Tensor, positive: Tensor) -> LogisticCurves:
    """By Newton's method, with Platt's targets, so that bags told apart perfectly give no cliff."""
    mean, spread = scores.mean(1, keepdim=True), scores.std(1, keepdim=True).clamp_min(1e-12)
    x = torch.stack([(scores - mean) / spread, torch.ones_like(scores)], -1)  # (G, B, 2)
    n_positive, n_negative = int(positive.sum()), int((~positive).sum())
    target = torch.where(positive, (n_positive + 1) / (n_positive + 2), 1 / (n_negative + 2)).to(x)
    w = x.new_zeros(len(x), 2)
    for _ in range(NEWTON_STEPS):
        p = torch.sigmoid((x * w[:, None]).sum(-1))  # (G, B)
        gradient = (x * (p - target)[..., None]).mean(1)
        curvature = (x[..., None] * x[..., None, :] * (p * (1 - p))[..., None, None]).mean(1)
        step = torch.linalg.solve(curvature + 1e-9 * torch.eye(2).to(x), gradient)
        w = w - step.clamp(-LARGEST_STEP, LARGEST_STEP)
    logits = (x * w[:, None]).sum(-1)
    loss = binary_cross_entropy_with_logits(logits, target.expand_as(logits), reduction="none").mean(1)
    slope = w[:, 0] / spread[:, 0]
    return LogisticCurves(slope, w[:, 1] - slope * mean[:, 0], loss)


def even_score(scores: Tensor, positive: Tensor) -> float:
    """Where a logistic curve over scores (B,) of bags crosses one half; their median where it does not rise."""
    curve = logistic_curves(scores[None].double(), positive)
    if not float(curve.slope[0]) > 0:
        return float(scores.median())
    return float(-curve.offset[0] / curve.slope[0])
