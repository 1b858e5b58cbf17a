"""Whether probabilities mean what they say.

    Brier = mean (p − y)²     log loss = −mean [y log p + (1 − y) log(1 − p)]     ECE = Σ_b n_b/n |ȳ_b − p̄_b|

Bins hold equally many slides; equal p stay together, and empty bins vanish. ECE is above 0 by chance alone, the more so
the fewer slides; so beside it stands what perfectly calibrated probabilities would show. Resampling adds that chance a
second time: percentiles of resampled ECEs lie above the truth, the more so the better the calibration. They are
reflected about the value instead (basic bootstrap), and the interval reaches down to 0 where chance explains it.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from math import isfinite

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aspirate.core.errors import ConfigError, TableError
from aspirate.evaluation.estimates import (
    BOOTSTRAP,
    NAN,
    Bootstrap,
    Estimate,
    bootstrapped,
    kinds,
    numbers,
    patient_numbers,
    proportion,
    reflected,
    unknown,
)

BINS = 10


@dataclass(frozen=True, slots=True)
class ReliabilityPoint:
    """One bin: what was said, and what came of it."""

    lowest: float
    highest: float
    mean: float
    observed: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationError(Estimate):
    bins: int
    """Bins with slides; fewer than asked for where probabilities repeat."""
    chance_mean: float
    """ECE of outcomes drawn from the very same probabilities: the mean of many draws …"""
    chance_high: float
    """… and what 95 % of them stay below. An ECE below it shows no miscalibration."""


@dataclass(frozen=True, slots=True)
class ProbabilityQuality:
    brier: Estimate
    log_loss: Estimate
    ece: CalibrationError
    reliability: tuple[ReliabilityPoint, ...]


def probability_quality(
    probabilities: ArrayLike,
    malignant: ArrayLike,
    patients: Sequence[object] | None = None,
    bins: int = BINS,
    settings: Bootstrap = BOOTSTRAP,
) -> ProbabilityQuality:
    p, y = checked_probabilities(probabilities, malignant)
    groups = patient_numbers(patients, len(p))
    given = np.where(y, p, 1 - p)  # the probability of what came true
    with np.errstate(divide="ignore"):
        losses = -np.log(given)
    return ProbabilityQuality(
        _mean((p - y) ** 2, groups, settings),
        _mean(losses, groups, settings),
        calibration_error(p, y, patients, bins, settings),
        reliability(p, y, bins, settings.level),
    )


def _mean(losses: NDArray[np.float64], groups: NDArray[np.intp], settings: Bootstrap) -> Estimate:
    if len(losses) == 0:
        return unknown(0, "none", "no slides")
    impossible = int(np.isinf(losses).sum())
    if impossible:
        note = f"{impossible} slides were given probability 0 of what they are"
        return Estimate(float("inf"), NAN, NAN, len(losses), "none", note)
    return bootstrapped(lambda weights: (weights @ losses) / weights.sum(1), groups, settings)


def calibration_error(
    probabilities: ArrayLike,
    malignant: ArrayLike,
    patients: Sequence[object] | None = None,
    bins: int = BINS,
    settings: Bootstrap = BOOTSTRAP,
) -> CalibrationError:
    """ECE; its chance level is drawn as often, and with the seed, that `settings` say. Bins stay in resamples."""
    p, y = checked_probabilities(probabilities, malignant)
    groups = patient_numbers(patients, len(p))
    if len(p) == 0:
        return CalibrationError(NAN, NAN, NAN, 0, "none", "no slides", bins=0, chance_mean=NAN, chance_high=NAN)
    bin_of = _bins(p, bins)
    member = np.eye(bin_of.max() + 1)[bin_of]  # (N, B)
    drawn = np.random.default_rng(settings.seed).random((settings.resamples, len(p))) < p
    chance = np.abs((drawn - p) @ member).sum(1) / len(p)
    error = bootstrapped(lambda w: np.abs((w * (y - p)) @ member).sum(1) / w.sum(1), groups, settings)
    chance_high = float(np.quantile(chance, 0.95))
    found = reflected(error)
    if found.low < 0 or (isfinite(found.low) and found.value <= chance_high):
        found = replace(found, low=0.0)
    more = {"bins": member.shape[1], "chance_mean": float(chance.mean()), "chance_high": chance_high}
    return CalibrationError(**asdict(found), **more)


def reliability(
    probabilities: ArrayLike, malignant: ArrayLike, bins: int = BINS, level: float = 0.95
) -> tuple[ReliabilityPoint, ...]:
    """The points of a reliability curve, lowest first, each with an exact interval."""
    p, y = checked_probabilities(probabilities, malignant)
    if len(p) == 0:
        return ()
    bin_of = _bins(p, bins)
    points = []
    for number in range(bin_of.max() + 1):
        inside = p[bin_of == number]
        observed = proportion(int(y[bin_of == number].sum()), len(inside), level)
        points.append(ReliabilityPoint(float(inside.min()), float(inside.max()), float(inside.mean()), observed))
    return tuple(points)


def _bins(p: NDArray[np.float64], bins: int) -> NDArray[np.intp]:
    """Which bin each is in, (N,), numbered without gaps."""
    if bins < 1:
        raise ConfigError(f"{bins} bins: give at least 1")
    below = np.searchsorted(np.sort(p), p)  # how many are lower
    return np.unique(below * bins // len(p), return_inverse=True)[1]


def checked_probabilities(
    probabilities: ArrayLike, malignant: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    p = numbers("probabilities", probabilities)
    wrong = np.flatnonzero((p < 0) | (p > 1))
    if len(wrong):
        problems = [f"number {i} is {p[i]:g}; a probability is 0 to 1, calibrate scores first" for i in wrong]
        raise TableError("probabilities", problems)
    return p, kinds(malignant, len(p))
