"""Statistics the slow way: every pair of patients counted, every resample drawn out slide by slide."""

from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

Floats = NDArray[np.float64]


def auc_covariance(scores: Sequence[Floats], y: NDArray[np.bool_], patients: Sequence[object]) -> tuple[Floats, Floats]:
    """AUCs (K,) and their covariance (K, K) with slides grouped by patient, as Obuchowski (1997) has it.

    One patient's positives meet another's negatives (or its own) in wins less what θ expects; the sums over opponents
    are each patient's parts, whose sample covariances, times the number of patients, make up the covariance.
    """
    names = sorted({str(patient) for patient in patients})
    own = [[i for i, patient in enumerate(patients) if str(patient) == name] for name in names]
    cells = [(i, j) for i, j in product(range(len(y)), repeat=2) if y[i] and not y[j]]
    wins = [{(i, j): float(f[i] > f[j]) + float(f[i] == f[j]) / 2 for i, j in cells} for f in scores]
    aucs = np.array([sum(won.values()) / len(cells) for won in wins])
    surplus = np.zeros((len(scores), len(names), len(names)))
    for (k, won), p, q in product(enumerate(wins), range(len(names)), range(len(names))):
        surplus[k, p, q] = sum(won[i, j] - aucs[k] for i, j in product(own[p], own[q]) if (i, j) in won)
    surplus /= len(cells)
    a, b = surplus.sum(2), surplus.sum(1)  # of positives, of negatives
    positives, negatives = ([any(y[i] == kind for i in slides) for slides in own] for kind in (True, False))
    covariance = np.zeros((len(scores), len(scores)))
    for k, m in product(range(len(scores)), repeat=2):
        covariance[k, m] = (
            sum(positives) * np.cov(a[k, positives], a[m, positives])[0, 1]
            + sum(negatives) * np.cov(b[k, negatives], b[m, negatives])[0, 1]
            + len(names) * (np.cov(a[k], b[m])[0, 1] + np.cov(b[k], a[m])[0, 1])
        )
    return aucs, covariance


def logit_interval(auc: float, variance: float, level: float = 0.95) -> tuple[float, float]:
    """Wald's on the odds of an AUC, taken back."""
    factor = np.exp(norm.isf((1 - level) / 2) * np.sqrt(variance) / auc / (1 - auc))
    odds = auc / (1 - auc)
    low, high = odds / factor, odds * factor
    return float(low / (1 + low)), float(high / (1 + high))


def resamples(patients: Sequence[object], count: int, seed: int = 0) -> Iterator[NDArray[np.intp]]:
    """Of each resample of whole patients the slides in it, as often as they were drawn."""
    names = sorted({str(patient) for patient in patients})
    whose = np.array([names.index(str(patient)) for patient in patients])
    rng = np.random.default_rng(seed)
    for _ in range(count):
        times = rng.multinomial(len(names), [1 / len(names)] * len(names))
        yield np.repeat(np.arange(len(whose)), times[whose])


def middle(values: Sequence[float], level: float = 0.95) -> tuple[float, float]:
    """What `level` of the values lie between, straight lines between neighbours."""
    ordered = sorted(values)
    places = [(1 - level) / 2 * (len(ordered) - 1), (1 + level) / 2 * (len(ordered) - 1)]
    low, high = (float(np.interp(place, np.arange(len(ordered)), ordered)) for place in places)
    return low, high
