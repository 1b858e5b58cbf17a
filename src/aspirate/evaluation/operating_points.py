"""What a score would do in a clinic: whom it decides, at which risk, and what is gained by it.

Two thresholds are chosen on validation slides alone: at or below the first a slide is called benign, the most slides
for which the share of malignant ones is within its target; at or above the second malignant, likewise. Between them
nothing is decided. The malignant zone is chosen first and the benign one below it, so that they never overlap.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aspirate.core.errors import ConfigError, TableError
from aspirate.evaluation.estimates import (
    BOOTSTRAP,
    NAN,
    Bootstrap,
    Estimate,
    kinds,
    missing_kind,
    numbers,
    patient_numbers,
    percentiles,
    proportion,
    resample,
    unknown,
)
from aspirate.evaluation.probabilities import checked_probabilities

BENIGN, UNDECIDED, MALIGNANT = -1, 0, 1
"""What a slide is called."""


@dataclass(frozen=True, slots=True)
class Zone:
    """A range of scores at one end; empty where no threshold reached the target."""

    threshold: float | None
    target: float
    validation: Estimate
    """Risk of malignancy among the validation slides in the zone."""

    @property
    def note(self) -> str:
        return "" if self.threshold is not None else f"no threshold reaches a risk of {self.target:g} on validation"


@dataclass(frozen=True, slots=True)
class Thresholds:
    benign: Zone
    malignant: Zone

    def call(self, scores: ArrayLike) -> NDArray[np.int64]:
        """BENIGN, UNDECIDED or MALIGNANT for each, (N,)."""
        f = numbers("scores", scores)
        calls = np.full(len(f), UNDECIDED)
        if self.benign.threshold is not None:
            calls[f <= self.benign.threshold] = BENIGN
        if self.malignant.threshold is not None:
            calls[f >= self.malignant.threshold] = MALIGNANT
        return calls


def choose_thresholds(
    validation_scores: ArrayLike, malignant: ArrayLike, benign_risk: float = 0.03, malignant_risk: float = 0.95
) -> Thresholds:
    """The largest zones whose observed risk on validation is ≤ `benign_risk` and ≥ `malignant_risk`."""
    if not 0 <= benign_risk < malignant_risk <= 1:
        raise ConfigError(
            f"target risks {benign_risk} and {malignant_risk}: the benign must be below the malignant, both 0 to 1"
        )
    f = numbers("validation scores", validation_scores)
    y = kinds(malignant, len(f))
    # Seen from above, the benign are those to be rare: both zones are one search.
    upper = _largest(-f, ~y, 1 - malignant_risk)
    malignant_from = None if upper is None else -upper
    below = f < malignant_from if malignant_from is not None else np.full(len(f), True)
    benign_to = _largest(f[below], y[below], benign_risk)
    lower = y[f <= benign_to] if benign_to is not None else y[:0]
    higher = y[f >= malignant_from] if malignant_from is not None else y[:0]
    return Thresholds(
        Zone(_between(f, benign_to, +1), benign_risk, proportion(int(lower.sum()), len(lower))),
        Zone(_between(f, malignant_from, -1), malignant_risk, proportion(int(higher.sum()), len(higher))),
    )


def _largest(f: NDArray[np.float64], wrong: NDArray[np.bool_], most: float) -> float | None:
    """The highest score up to which at most the share `most` is wrong, None where there is none."""
    order = np.argsort(f)
    ascending = f[order]
    last_of_equals = np.flatnonzero(np.diff(ascending, append=np.inf))
    shares = wrong[order].cumsum()[last_of_equals] / (last_of_equals + 1)
    within = np.flatnonzero(shares <= most + 1e-12)  # 1 of 20 is 5 %, whatever 1 − 0.95 rounds to
    return float(ascending[last_of_equals[within[-1]]]) if len(within) else None


def _between(f: NDArray[np.float64], edge: float | None, direction: int) -> float | None:
    """Midway to the next score outside the zone; the edge itself where there is none."""
    if edge is None:
        return None
    outside = f[f > edge] if direction > 0 else f[f < edge]
    if len(outside) == 0:
        return edge
    return float((edge + (outside.min() if direction > 0 else outside.max())) / 2)


@dataclass(frozen=True, slots=True)
class Rates:
    """One yes-or-no decision; exact intervals take slides as independent."""

    sensitivity: Estimate
    specificity: Estimate
    ppv: Estimate
    npv: Estimate
    prevalence: float
    """The share of malignant slides that PPV and NPV are for."""


@dataclass(frozen=True, slots=True)
class Decisions:
    """What the calls came to on slides they were not chosen on."""

    decided: Estimate
    called_benign: Estimate
    called_malignant: Estimate
    benign_risk: Estimate
    """Share of malignant slides among those called benign, …"""
    malignant_risk: Estimate
    """… among those called malignant, …"""
    undecided_risk: Estimate
    """… and among the rest."""
    rule_out: Rates
    """Called benign against all others."""
    rule_in: Rates
    """Called malignant against all others."""


def decisions(calls: ArrayLike, malignant: ArrayLike, prevalence: float, level: float = 0.95) -> Decisions:
    """Of test slides; calls by thresholds of several folds may be put together."""
    c = numbers("calls", calls)
    y = kinds(malignant, len(c))
    if not np.isin(c, (BENIGN, UNDECIDED, MALIGNANT)).all():
        raise TableError("calls", ["holds something else than −1, 0 and 1; take them from Thresholds.call"])

    def share(of: NDArray[np.bool_]) -> Estimate:
        return proportion(int(of.sum()), len(of), level)

    return Decisions(
        share(c != UNDECIDED),
        share(c == BENIGN),
        share(c == MALIGNANT),
        share(y[c == BENIGN]),
        share(y[c == MALIGNANT]),
        share(y[c == UNDECIDED]),
        rates(c != BENIGN, y, prevalence, level),
        rates(c == MALIGNANT, y, prevalence, level),
    )


def rates(called: ArrayLike, malignant: ArrayLike, prevalence: float, level: float = 0.95) -> Rates:
    """Sensitivity and specificity, and what they mean for the user's share of malignant slides.

    PPV = π·se / (π·se + (1 − π)(1 − sp)), NPV = (1 − π)·sp / ((1 − π)·sp + π(1 − se)). Both rise with se and sp, which
    come from different slides: at level √L each, their limits bound PPV and NPV at level L or more.
    """
    _check_prevalence(prevalence)
    yes = kinds(called, len(np.asarray(called)))
    y = kinds(malignant, len(yes))
    found, wide = (
        (
            proportion(int(yes[y].sum()), int(y.sum()), at),
            proportion(int((~yes[~y]).sum()), int((~y).sum()), at),
        )
        for at in (level, level**0.5)
    )
    return Rates(
        *found,
        _predictive(*found, *wide, prevalence, level, len(y)),
        _predictive(*found[::-1], *wide[::-1], 1 - prevalence, level, len(y)),
        prevalence,
    )


def _check_prevalence(prevalence: float) -> None:
    if not 0 < prevalence < 1:
        raise ConfigError(f"prevalence {prevalence}: give the share of malignant slides you expect, between 0 and 1")


def _predictive(
    hit: Estimate, reject: Estimate, wide_hit: Estimate, wide_reject: Estimate, share: float, level: float, n: int
) -> Estimate:
    """PPV; with the kinds exchanged, NPV."""
    method = f"Bayes, from exact limits, {level:.4g}"
    if hit.n == 0 or reject.n == 0:
        return unknown(n, method, "one kind is absent")

    def at(hits: float, rejects: float) -> float:
        true, false = share * hits, (1 - share) * (1 - rejects)
        return true / (true + false) if true + false > 0 else NAN

    value = at(hit.value, reject.value)
    if np.isnan(value):
        return unknown(n, method, "no slide is called so")
    return Estimate(value, at(wide_hit.low, wide_reject.low), at(wide_hit.high, wide_reject.high), n, method)


@dataclass(frozen=True, slots=True)
class NetBenefit:
    """In malignant slides found per slide, false alarms weighed by the odds of the threshold; treating none is 0."""

    threshold: float
    method: float
    low: float
    high: float
    """Of the method's, at each threshold by itself."""
    treat_all: float
    n: int


def decision_curve(
    probabilities: ArrayLike,
    malignant: ArrayLike,
    thresholds: Sequence[float],
    prevalence: float | None = None,
    patients: Sequence[object] | None = None,
    settings: Bootstrap = BOOTSTRAP,
) -> tuple[NetBenefit, ...]:
    """TP/n − FP/n · t/(1 − t), called malignant at p ≥ t; for another share of malignant slides if one is given."""
    p, y = checked_probabilities(probabilities, malignant)
    wrong = [t for t in thresholds if not 0 <= t < 1]
    if wrong:
        raise ConfigError(f"threshold {wrong[0]}: a decision threshold is a probability from 0 to below 1")
    if missing_kind(y) and (prevalence is not None or len(y) == 0):
        return tuple(NetBenefit(t, NAN, NAN, NAN, NAN, len(y)) for t in thresholds)
    if prevalence is not None:
        _check_prevalence(prevalence)
    at = np.asarray(thresholds, np.float64)
    worth = np.where(y[:, None], 1.0, -at / (1 - at))  # (N, T), of a slide that is called malignant
    called = p[:, None] >= at

    def benefit(drawn: NDArray[np.float64], of: NDArray[np.float64] = worth * called) -> NDArray[np.float64]:
        """(R, N) → (R, T)"""
        if prevalence is None:
            return np.asarray(drawn @ of / drawn.sum(1, keepdims=True))
        with np.errstate(invalid="ignore"):  # a resample that lacks a kind says nothing
            both = ((prevalence, drawn * y), (1 - prevalence, drawn * ~y))
            return np.asarray(sum(share * own @ of / own.sum(1, keepdims=True) for share, own in both))

    groups = patient_numbers(patients, len(y))
    resampled = resample(benefit, groups, settings)  # (resamples, T)
    every = np.ones((1, len(y)))
    found = zip(at, benefit(every)[0], benefit(every, worth)[0], resampled.T, strict=True)
    intervals = ((t, percentiles(float(own), drawn, groups, settings), all_) for t, own, all_, drawn in found)
    return tuple(NetBenefit(float(t), e.value, e.low, e.high, float(all_), len(y)) for t, e, all_ in intervals)
