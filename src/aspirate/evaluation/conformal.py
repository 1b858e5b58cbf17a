"""Sets of TBS categories that hold the right one as often as promised.

Split conformal prediction with the ordinal form of adaptive sets (Lu et al. 2022): from the most probable category the
set grows to whichever neighbour is more probable, so it is always a range, as befits ordered categories; LAC and plain
APS may say "2 or 6". The score of a category is the mass of the range just before it is taken in: 0 for the most
probable, which is so in every set. The limit is the ⌈(n + 1)(1 − α)⌉-th smallest score of the true categories of n
validation slides. Slides that are exchangeable with those (other patients, same kind of cohort) are then covered with
probability ≥ 1 − α, whatever the probabilities are worth.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from aspirate.core.errors import ConfigError, TableError
from aspirate.core.labels import TRAINABLE_BETHESDA
from aspirate.evaluation.agreement import ranks
from aspirate.evaluation.estimates import (
    BOOTSTRAP,
    Bootstrap,
    Estimate,
    bootstrapped,
    numbers,
    patient_numbers,
    proportion,
    unknown,
)

SIZE = len(TRAINABLE_BETHESDA)


def category_probabilities(scores: ArrayLike, cuts: Sequence[float]) -> NDArray[np.float64]:
    """P(TBS = 2 … 6) of slide scores, (N, 5), by P(S − 2 > n) = σ(f − β_n)."""
    f, beta = numbers("scores", scores), numbers("cuts", cuts)
    if len(beta) != SIZE - 1 or (np.diff(beta) < 0).any():
        raise ConfigError(f"cuts {list(beta)}: give {SIZE - 1} in rising order, as the model learned them")
    exceed = expit(f[:, None] - beta)  # (N, 4)
    return -np.diff(exceed, axis=1, prepend=1, append=0)


@dataclass(frozen=True, slots=True)
class Conformal:
    """What `fit_conformal` learned."""

    alpha: float
    limit: float
    """A range grows until it holds more; infinite where validation has too few slides for α, and all are in."""
    n: int
    """Validation slides."""

    @property
    def note(self) -> str:
        if np.isfinite(self.limit):
            return ""
        return f"{self.n} validation slides cannot promise {1 - self.alpha:g}: every set holds all categories"

    def ranges(self, probabilities: ArrayLike) -> NDArray[np.int64]:
        """Lowest and highest TBS of each slide's set, (N, 2)."""
        inside = _scores(_distribution(probabilities)) <= self.limit  # (N, 5)
        lowest, highest = inside.argmax(1), SIZE - 1 - inside[:, ::-1].argmax(1)
        return np.stack([lowest, highest], 1) + TRAINABLE_BETHESDA[0]


def fit_conformal(probabilities: ArrayLike, bethesda: ArrayLike, alpha: float = 0.1) -> Conformal:
    """From validation slides."""
    if not 0 < alpha < 1:
        raise ConfigError(f"alpha {alpha}: give the share of sets that may miss, between 0 and 1")
    p, rank = _labelled(probabilities, bethesda)
    own = np.sort(_scores(p)[np.arange(len(p)), rank])
    place = ceil((len(own) + 1) * (1 - alpha) - 1e-9)  # 9.000000001 is 9
    return Conformal(alpha, float(own[place - 1]) if place <= len(own) else float("inf"), len(own))


def _scores(p: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mass of the range just before it takes in each category, (N, 5)."""
    rows = np.arange(len(p))
    padded = np.pad(p, ((0, 0), (1, 1)), constant_values=-1.0)  # beyond the ends nothing is gained
    low = high = p.argmax(1) + 1  # in columns of `padded`
    scores = np.zeros_like(padded)
    mass = padded[rows, low]
    for _ in range(SIZE - 1):
        up = padded[rows, high + 1] > padded[rows, low - 1]
        high, low = high + up, low - ~up
        taken = np.where(up, high, low)
        scores[rows, taken] = mass
        mass = mass + padded[rows, taken]
    return scores[:, 1:-1]


@dataclass(frozen=True, slots=True)
class Coverage:
    """How the sets did on test slides."""

    covered: Estimate
    by_category: Mapping[int, Estimate]
    """Only the first is promised; a rare category may be covered less."""
    mean_size: Estimate
    singletons: Estimate


def coverage(
    ranges: ArrayLike,
    bethesda: ArrayLike,
    patients: Sequence[object] | None = None,
    settings: Bootstrap = BOOTSTRAP,
) -> Coverage:
    """Shares with exact intervals, the mean size with one by resampling patients."""
    bounds = np.asarray(ranges, np.int64).reshape(-1, 2)
    category = ranks("bethesda", bethesda) + TRAINABLE_BETHESDA[0]
    if len(category) != len(bounds):
        raise TableError("ranges", [f"{len(bounds)} for {len(category)} slides; give one for each"])
    hit = (bounds[:, 0] <= category) & (category <= bounds[:, 1])
    size = bounds[:, 1] - bounds[:, 0] + 1

    def share(of: NDArray[np.bool_]) -> Estimate:
        return proportion(int(of.sum()), len(of), settings.level)

    def mean_size(weights: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(weights @ size / weights.sum(1))

    groups = patient_numbers(patients, len(size))
    mean = bootstrapped(mean_size, groups, settings) if len(size) else unknown(0, "none", "no slides")
    by_category = {c: share(hit[category == c]) for c in TRAINABLE_BETHESDA}
    return Coverage(share(hit), by_category, mean, share(size == 1))


def _labelled(probabilities: ArrayLike, bethesda: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    p, rank = _distribution(probabilities), ranks("bethesda", bethesda)
    if len(p) != len(rank):
        raise TableError("bethesda", [f"{len(rank)} for {len(p)} slides; give one for each"])
    return p, rank


def _distribution(probabilities: ArrayLike) -> NDArray[np.float64]:
    p = np.asarray(probabilities, np.float64)
    p = p.reshape(0, SIZE) if p.size == 0 else p
    if p.ndim != 2 or p.shape[1] != SIZE:
        raise TableError("probabilities", [f"have the shape {p.shape}; give {SIZE} for each slide, TBS 2 to 6"])
    right = (p >= -1e-9).all(1) & (np.abs(p.sum(1) - 1) < 1e-6)  # false for NaN too
    if not right.all():
        wrong = np.flatnonzero(~right)
        raise TableError("probabilities", [f"row {i} is {p[i].tolist()}; it must sum to 1" for i in wrong])
    return p
