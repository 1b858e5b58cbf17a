"""The variance of AUCs by DeLong, with slides grouped by patient as Obuchowski (1997) proposed.

For positives i and negatives j let V_i be the share of negatives below i, W_j the share of positives above j (equal
scores count half), θ = mean V = mean W the AUC, M and N their numbers. With a_p the sum of V − θ and b_p the sum of
W − θ over the slides of patient p, and P₊, P₋, P patients with a positive, with a negative, in all:

    cov(θ, θ') = P₊/(P₊ − 1) Σ_p a_p a'_p / M²  +  P₋/(P₋ − 1) Σ_p b_p b'_p / N²
                 +  P/(P − 1) Σ_p (a_p b'_p + b_p a'_p) / (M N)

One slide per patient makes the last term 0 and the rest DeLong's own (1988).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit, logit
from scipy.stats import norm, rankdata

from aspirate.evaluation.estimates import NAN, Estimate


@dataclass(frozen=True, slots=True)
class DeLong:
    """AUCs of K scores of the same slides."""

    aucs: NDArray[np.float64]
    """(K,)"""
    covariance: NDArray[np.float64]
    """(K, K); NaN with fewer than two patients of a kind."""
    slides: int
    patients: tuple[int, int]
    """With a positive slide, with a negative one."""


def delong(scores: NDArray[np.float64], positive: NDArray[np.bool_], patients: NDArray[np.intp]) -> DeLong:
    """Of `scores` (K, N); both kinds must be present."""
    M, N, count = int(positive.sum()), int((~positive).sum()), int(patients.max()) + 1
    overall = rankdata(scores, axis=1)
    V = (overall[:, positive] - rankdata(scores[:, positive], axis=1)) / N  # (K, M)
    W = 1 - (overall[:, ~positive] - rankdata(scores[:, ~positive], axis=1)) / M  # (K, N)
    aucs = V.mean(1)
    a = _by_patient(V - aucs[:, None], patients[positive], count) / M  # (K, P)
    b = _by_patient(W - aucs[:, None], patients[~positive], count) / N
    with_positive, with_negative = len(np.unique(patients[positive])), len(np.unique(patients[~positive]))
    if min(with_positive, with_negative) < 2:
        covariance = np.full((len(scores), len(scores)), NAN)
    else:
        cross = a @ b.T
        covariance = (
            with_positive / (with_positive - 1) * (a @ a.T)
            + with_negative / (with_negative - 1) * (b @ b.T)
            + count / (count - 1) * (cross + cross.T)
        )
    return DeLong(aucs, covariance, len(positive), (with_positive, with_negative))


def _by_patient(values: NDArray[np.float64], patients: NDArray[np.intp], count: int) -> NDArray[np.float64]:
    return np.stack([np.bincount(patients, row, count) for row in values])


def delong_interval(found: DeLong, level: float, which: int = 0) -> Estimate:
    """On the logit scale, so within 0 … 1; an AUC of 0 or 1 has no DeLong variance and gets Newcombe's interval."""
    auc, variance = float(found.aucs[which]), float(found.covariance[which, which])
    z = float(norm.ppf((1 + level) / 2))
    if auc in (0, 1):
        method = f"Newcombe's method 5, {level:.4g}"
        note = "the kinds are separated perfectly, where DeLong's variance is 0"
        low = _least_below_one(*found.patients, z)
        bounds = (low, 1.0) if auc == 1 else (0.0, 1 - low)
        return Estimate(auc, *bounds, found.slides, method, note)
    method = f"DeLong, logit scale, {level:.4g}"
    if not variance > 0:
        few = min(found.patients) < 2
        why = "fewer than two patients of one kind" if few else "the variance is 0, as where all scores are equal"
        return Estimate(auc, NAN, NAN, found.slides, method, f"{why}: no interval")
    spread = z * np.sqrt(variance) / (auc * (1 - auc))
    return Estimate(auc, float(expit(logit(auc) - spread)), float(expit(logit(auc) + spread)), found.slides, method)


def _least_below_one(m: int, n: int, z: float) -> float:
    """Where 1 − θ = z·sd(θ), Hanley and McNeil's sd with (m + n)/2 of each kind in its inner terms (Newcombe 2006)."""
    inner = (m + n) / 2 - 1

    def excess(theta: float) -> float:
        shape = 1 + inner * ((1 - theta) / (2 - theta) + theta / (1 + theta))
        return (1 - theta) * m * n - z**2 * theta * shape

    return float(brentq(excess, 0, 1))


def delong_difference(found: DeLong, level: float) -> tuple[Estimate, float]:
    """First AUC less the second, and the p value of their equality."""
    difference = float(found.aucs[0] - found.aucs[1])
    C = found.covariance
    variance = float(C[0, 0] + C[1, 1] - 2 * C[0, 1])
    method = f"paired DeLong, {level:.4g}"
    if not variance > 1e-15:
        # Two equal AUCs without variance give no reason to doubt equality; unequal ones cannot be judged.
        p = 1.0 if abs(difference) < 1e-12 else NAN
        return Estimate(difference, NAN, NAN, found.slides, method, "the difference has no variance: no interval"), p
    sd = np.sqrt(variance)
    half = float(norm.ppf((1 + level) / 2) * sd)
    p = float(2 * norm.sf(abs(difference) / sd))
    return Estimate(difference, difference - half, difference + half, found.slides, method), p
