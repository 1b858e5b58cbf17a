"""How well scores tell malignant slides from benign ones, and whether one method does so better than another."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aspirate.core.errors import TableError
from aspirate.core.ranking import auc, average_precision
from aspirate.evaluation.delong import delong, delong_difference, delong_interval
from aspirate.evaluation.estimates import (
    BOOTSTRAP,
    NAN,
    Bootstrap,
    Estimate,
    Statistic,
    bootstrapped,
    check_level,
    kinds,
    missing_kind,
    numbers,
    patient_numbers,
    percentiles,
    resample,
    unknown,
    value_of,
)

Measure = Literal["auc", "ap"]
PAIRED_BOOTSTRAP = "paired bootstrap"


@dataclass(frozen=True, slots=True)
class Discrimination:
    auc: Estimate
    ap: Estimate
    """A score without any information has the share of malignant slides for its AP."""
    auc_delong: Estimate
    malignant: int
    benign: int


def discrimination(
    scores: ArrayLike,
    malignant: ArrayLike,
    patients: Sequence[object] | None = None,
    settings: Bootstrap = BOOTSTRAP,
) -> Discrimination:
    """AUC and average precision of one method."""
    f = numbers("scores", scores)
    y = kinds(malignant, len(f))
    groups = patient_numbers(patients, len(f))
    counts = int(y.sum()), int((~y).sum())
    if reason := missing_kind(y):
        gap = unknown(len(y), "none", reason)
        return Discrimination(gap, gap, gap, *counts)
    by_delong = delong_interval(delong(f[None], y, groups), settings.level)
    return Discrimination(
        bootstrapped(weighted_auc(f, y), groups, settings),
        bootstrapped(weighted_ap(f, y), groups, settings),
        by_delong,
        *counts,
    )


def discrimination_of(
    scores: Mapping[str, float],
    malignant: Mapping[str, bool | None],
    patients: Mapping[str, str] | None = None,
    settings: Bootstrap = BOOTSTRAP,
) -> Discrimination:
    """The same by slide; slides whose truth is unknown are left out."""
    ids = sorted(i for i in scores if malignant.get(i) is not None)
    whose = None if patients is None else [patients.get(i, f"slide:{i}") for i in ids]
    return discrimination([scores[i] for i in ids], [float(malignant[i] or 0) for i in ids], whose, settings)


Steps = Callable[[NDArray[np.float64]], tuple[NDArray[np.float64], NDArray[np.float64]]]


def _steps(f: NDArray[np.float64], y: NDArray[np.bool_]) -> Steps:
    """Weight of positives and of negatives at each distinct score, rising; sorted once for all resamples."""
    order = np.argsort(f)
    starts = np.flatnonzero(np.diff(f[order], prepend=-np.inf))
    sign = y[order].astype(np.float64)

    def weigh(weights: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        w = weights[:, order]  # (R, N)
        both = np.add.reduceat(w, starts, axis=1)  # (R, distinct)
        positives = np.add.reduceat(w * sign, starts, axis=1)
        return positives, both - positives

    return weigh


def weighted_auc(f: NDArray[np.float64], y: NDArray[np.bool_]) -> Statistic:
    """P(positive above negative) + ½ P(equal), each slide as often as it was drawn."""
    steps = _steps(f, y)

    def statistic(weights: NDArray[np.float64]) -> NDArray[np.float64]:
        p, n = steps(weights)
        below = n.cumsum(1) - n / 2
        pairs = p.sum(1) * n.sum(1)
        return _ratio((p * below).sum(1), pairs, pairs > 0)

    return statistic


def weighted_ap(f: NDArray[np.float64], y: NDArray[np.bool_]) -> Statistic:
    """Mean over positives of the precision at their score; undefined, as AUC is, where one kind was not drawn."""
    steps = _steps(f, y)

    def statistic(weights: NDArray[np.float64]) -> NDArray[np.float64]:
        p, n = steps(weights)
        true, false = p[:, ::-1].cumsum(1), n[:, ::-1].cumsum(1)
        precision = np.divide(true, true + false, out=np.zeros_like(true), where=true > 0)
        total = (p[:, ::-1] * precision).sum(1)
        both = (true[:, -1] > 0) & (false[:, -1] > 0)
        return _ratio(total, true[:, -1], both)

    return statistic


def _ratio(above: NDArray[np.float64], below: NDArray[np.float64], defined: NDArray[np.bool_]) -> NDArray[np.float64]:
    found = np.full(len(above), NAN)
    found[defined] = above[defined] / below[defined]
    return found


WEIGHTED: Mapping[Measure, Callable[[NDArray[np.float64], NDArray[np.bool_]], Statistic]] = {
    "auc": weighted_auc,
    "ap": weighted_ap,
}


@dataclass(frozen=True, slots=True)
class OverFolds:
    """As papers print it: mean ± standard deviation (n − 1) over folds."""

    mean: float
    sd: float
    values: Mapping[str, float]
    """NaN in a fold that lacks a kind; it is left out of mean and sd."""
    n: int
    note: str = ""


def over_folds(scores: ArrayLike, malignant: ArrayLike, folds: Sequence[object], measure: Measure) -> OverFolds:
    f = numbers("scores", scores)
    y = kinds(malignant, len(f))
    if len(folds) != len(f):
        raise TableError("folds", [f"{len(folds)} for {len(f)} slides; give one for each"])
    names = np.array([str(fold) for fold in folds])
    count = auc if measure == "auc" else average_precision
    parts = {str(name): names == name for name in np.unique(names)}
    values = {name: NAN if missing_kind(y[at]) else count(f[at], y[at]) for name, at in parts.items()}
    known = [value for value in values.values() if np.isfinite(value)]
    lacking = len(values) - len(known)
    note = f"{lacking} of {len(values)} folds lack a kind" if lacking else missing_kind(y)
    mean = float(np.mean(known)) if known else NAN
    sd = float(np.std(known, ddof=1)) if len(known) > 1 else NAN
    return OverFolds(mean, sd, values, len(f), note)


@dataclass(frozen=True, slots=True)
class Difference:
    """The first method less the second, on the slides that both have."""

    first: str
    second: str
    estimate: Estimate
    p: float
    p_holm: float
    tests: int
    """How many p values were adjusted together, by Holm."""


Scores = Mapping[str, Mapping[str, float]]
"""Of each method, by slide."""
Pairs = Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class _Shared:
    slide_ids: tuple[str, ...]
    f: NDArray[np.float64]
    y: NDArray[np.bool_]
    patients: NDArray[np.intp]


def _shared(
    scores: Scores, pair: tuple[str, str], malignant: Mapping[str, bool | None], patients: Mapping[str, str] | None
) -> _Shared:
    """Slides that both methods scored and whose truth is known; `f` is (2, N)."""
    common = set(scores[pair[0]]) & set(scores[pair[1]])
    ids = tuple(sorted(i for i in common if malignant.get(i) is not None))
    f = np.stack([numbers(name, [scores[name][i] for i in ids], ids) for name in pair])
    y = kinds([float(malignant[i] or 0) for i in ids], len(ids))
    whose = None if patients is None else [patients.get(i, f"slide:{i}") for i in ids]
    return _Shared(ids, f, y, patient_numbers(whose, len(ids)))


def delong_pairs(
    scores: Scores,
    malignant: Mapping[str, bool | None],
    patients: Mapping[str, str] | None = None,
    pairs: Pairs | None = None,
    level: float = 0.95,
) -> tuple[Difference, ...]:
    """Differences in AUC by DeLong; all pairs of methods, or those named."""
    check_level(level)
    found = []
    for pair in list(combinations(scores, 2)) if pairs is None else pairs:
        on = _shared(scores, pair, malignant, patients)
        if reason := missing_kind(on.y):
            found.append((pair, unknown(len(on.y), "paired DeLong", reason), NAN))
        else:
            found.append((pair, *delong_difference(delong(on.f, on.y, on.patients), level)))
    return _adjusted(found)


def bootstrap_pairs(
    scores: Scores,
    malignant: Mapping[str, bool | None],
    measure: Measure,
    patients: Mapping[str, str] | None = None,
    pairs: Pairs | None = None,
    settings: Bootstrap = BOOTSTRAP,
) -> tuple[Difference, ...]:
    """Differences in AUC or AP by one resampling of patients for both; p is twice the share beyond 0, never 0."""
    done: dict[tuple[str, tuple[str, ...]], tuple[float, NDArray[np.float64]]] = {}
    found = []
    for pair in list(combinations(scores, 2)) if pairs is None else pairs:
        on = _shared(scores, pair, malignant, patients)
        if reason := missing_kind(on.y):
            found.append((pair, unknown(len(on.y), PAIRED_BOOTSTRAP, reason), NAN))
            continue
        for name, f in zip(pair, on.f, strict=True):
            if (name, on.slide_ids) not in done:  # methods on the same slides are resampled once
                statistic = WEIGHTED[measure](f, on.y)
                resampled = resample(statistic, on.patients, settings)
                done[name, on.slide_ids] = value_of(statistic, len(on.y)), resampled
        (first, firsts), (second, seconds) = (done[name, on.slide_ids] for name in pair)
        beyond = firsts - seconds
        estimate = percentiles(first - second, beyond, on.patients, settings)
        found.append((pair, estimate, _bootstrap_p(beyond)))
    return _adjusted(found)


def _bootstrap_p(differences: NDArray[np.float64]) -> float:
    kept = np.round(differences[np.isfinite(differences)], 12)  # equal but for rounding is equal
    beyond = min((kept <= 0).sum(), (kept >= 0).sum())
    return float(min(1.0, 2 * (beyond + 1) / (len(kept) + 1)))


def _adjusted(found: Sequence[tuple[tuple[str, str], Estimate, float]]) -> tuple[Difference, ...]:
    adjusted = holm([p for *_, p in found])
    tests = sum(np.isfinite(p) for *_, p in found)
    return tuple(
        Difference(*pair, estimate, p, p_holm, tests)
        for (pair, estimate, p), p_holm in zip(found, adjusted, strict=True)
    )


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down adjustment; a p value that could not be computed stays NaN and is not counted."""
    p = np.asarray(p_values, np.float64)
    order = np.argsort(p)[: np.isfinite(p).sum()]  # NaN sorts last
    adjusted = np.full(len(p), NAN)
    steps = np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(1, np.maximum.accumulate(p[order] * steps)) if len(order) else []
    return [float(value) for value in adjusted]
