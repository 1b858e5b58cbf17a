"""From a slide's score to a probability a person may be shown, and to a category.

Platt's logistic curve, P(Y = 1 | f) = σ(a·f + b), fitted on held-out slides by maximum a posteriori: targets are
shrunk towards one half as Platt proposed, and a has a log-normal prior about 1/sd(f). So few slides, or slides that the
score separates perfectly, do not give a cliff; with many slides both fade. a > 0: calibration never turns the order
round. No probability goes beyond the shrunk targets: n benign slides cannot show that a risk is below 1/(n + 2).

Cuts learned for tiles are too far apart for slides: a mean over tiles, some of which look like any slide's, is nearer
the middle than the tiles that made the difference. So those of slides are fitted to the scores of held-out slides, by
maximum a posteriori again: P(S − 2 > n) = σ(a·f − b_n), cuts b_n / a, with the same prior on a, log-normal ones on the
gaps between b's, and a wide one on the first b, so that a category which no held-out slide has keeps its room.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aspirate.core.labels import TRAINABLE_BETHESDA
from aspirate.core.logits import sigmoid

SLOPE_SPREAD = 1.0
"""Standard deviation of log a in the prior."""
GAP_SPREAD, PLACE_SPREAD = 1.0, 3.0
"""Of the logarithm of a gap between two b, in logits; and of the first b about the middle of all scores."""


@dataclass(frozen=True, slots=True)
class Calibration:
    slope: float
    offset: float
    benign: int
    malignant: int
    """How many slides it rests on."""

    @property
    def slides(self) -> int:
        return self.benign + self.malignant

    @property
    def limits(self) -> tuple[float, float]:
        """Platt's targets: what so many slides can show at the most."""
        return 1 / (self.benign + 2), (self.malignant + 1) / (self.malignant + 2)

    def probability(self, score: ArrayLike) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        logit = self.slope * np.asarray(score, np.float64) + self.offset
        return np.clip(sigmoid(logit), *self.limits)


def fit_calibration(scores: ArrayLike, malignant: ArrayLike) -> Calibration:
    from scipy.optimize import minimize  # here, since whoever only predicts never fits

    f, y = np.asarray(scores, np.float64), np.asarray(malignant, bool)
    n_positive, n_negative = int(y.sum()), int((~y).sum())
    if n_positive == 0 or n_negative == 0:
        raise ValueError(
            f"{n_positive} malignant and {n_negative} benign slides to calibrate on: at least one of each is needed"
        )
    low, high = Calibration(1.0, 0.0, n_negative, n_positive).limits
    target = np.where(y, high, low)
    scale = float(f.std()) or 1.0

    def cost(parameters: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> float:
        log_slope, offset = parameters
        logit = np.exp(log_slope) * f + offset
        likelihood = (target * np.logaddexp(0, -logit) + (1 - target) * np.logaddexp(0, logit)).sum()
        prior = 0.5 * ((log_slope + np.log(scale)) / SLOPE_SPREAD) ** 2
        return float(likelihood + prior)

    start = np.array([-np.log(scale), np.log(n_positive / n_negative) - float(f.mean()) / scale])
    found = minimize(cost, start, method="BFGS")
    return Calibration(float(np.exp(found.x[0])), float(found.x[1]), n_negative, n_positive)


def decision_threshold(scores: ArrayLike, malignant: ArrayLike) -> float:
    """β: midway between the two scores where sensitivity + specificity is highest (the middle of equals)."""
    f, y = np.asarray(scores, np.float64), np.asarray(malignant, bool)
    steps = np.unique(f)
    if len(steps) == 1:
        return float(steps[0])
    middles = (steps[1:] + steps[:-1]) / 2
    above = f[None, :] > middles[:, None]  # (T, N)
    youden = above[:, y].mean(1) - above[:, ~y].mean(1)
    best = np.flatnonzero(youden == youden.max())
    return float(middles[best[len(best) // 2]])


def fit_cuts(scores: ArrayLike, bethesda: ArrayLike) -> tuple[float, ...]:
    """Of the categories 2 … 6 on the axis of slide scores, rising; none where all slides are of one category."""
    from scipy.optimize import minimize

    f, rank = np.asarray(scores, np.float64), np.asarray(bethesda, np.int64) - TRAINABLE_BETHESDA[0]
    gaps = len(TRAINABLE_BETHESDA) - 2
    if len(set(rank.tolist())) < 2:
        return ()
    scale, middle, rows = float(f.std()) or 1.0, float(f.mean()), np.arange(len(f))

    def places(parameters: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        log_slope, first, *log_gaps = parameters
        return float(np.exp(log_slope)), first + np.concatenate([[0.0], np.cumsum(np.exp(log_gaps))])

    def cost(parameters: NDArray[np.float64]) -> float:
        a, b = places(parameters)
        exceeds = np.pad(sigmoid(a * f[:, None] - b), ((0, 0), (1, 1)), constant_values=((0, 0), (1, 0)))
        likelihood = -np.log(np.maximum(exceeds[rows, rank] - exceeds[rows, rank + 1], 1e-12)).sum()
        of_slope = ((parameters[0] + np.log(scale)) / SLOPE_SPREAD) ** 2
        of_place = ((b[0] - a * middle) / PLACE_SPREAD) ** 2
        return float(likelihood + 0.5 * (of_slope + of_place + ((parameters[2:] / GAP_SPREAD) ** 2).sum()))

    found = minimize(cost, np.array([-np.log(scale), middle / scale - 1, *[0.0] * gaps]), method="BFGS")
    a, b = places(found.x)
    return tuple((b / a).tolist())
