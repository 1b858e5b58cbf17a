"""From a slide's score to a probability a person may be shown.

Platt's logistic curve, P(Y = 1 | f) = σ(a·f + b), fitted on held-out slides by maximum a posteriori: targets are
shrunk towards one half as Platt proposed, and a has a log-normal prior about 1/sd(f). So few slides, or slides that the
score separates perfectly, do not give a cliff; with many slides both fade. a > 0: calibration never turns the order
round. No probability goes beyond the shrunk targets: n benign slides cannot show that a risk is below 1/(n + 2).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

SLOPE_SPREAD = 1.0
"""Standard deviation of log a in the prior."""


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
        return np.clip(expit(logit), *self.limits)


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
