"""Numbers with their interval, their n and, where one is missing, why; and what makes intervals: exact or resampled."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field
from scipy.stats import beta

from aspirate.core.config import Settings
from aspirate.core.errors import ConfigError, TableError

Statistic = Callable[[NDArray[np.float64]], NDArray[np.float64]]
"""How often each slide is drawn in each resample, (R, N) → the number of each resample, (R,); NaN where undefined."""

NAN = float("nan")


@dataclass(frozen=True, slots=True)
class Estimate:
    """NaN is what the data cannot show; `note` then says why."""

    value: float
    low: float
    high: float
    n: int
    """Slides it rests on."""
    method: str
    """How the interval was made."""
    note: str = ""
    dropped: int = 0
    """Resamples left out since the number is undefined there."""


def unknown(n: int, method: str, note: str) -> Estimate:
    return Estimate(NAN, NAN, NAN, n, method, note)


def check_level(level: float) -> None:
    if not 0 < level < 1:
        raise ConfigError(f"level {level}: an interval covers a share between 0 and 1; give e.g. 0.95")


def proportion(hits: int, n: int, level: float = 0.95) -> Estimate:
    """A share with Clopper and Pearson's exact interval, cases taken as independent."""
    if not 0 <= hits <= n:
        raise ConfigError(f"{hits} of {n} is no share; count the hits among the n")
    check_level(level)
    method = f"exact (Clopper–Pearson), {level:.4g}"
    if n == 0:
        return unknown(0, method, "no slides")
    tail = (1 - level) / 2
    low = float(beta.ppf(tail, hits, n - hits + 1)) if hits else 0.0
    high = float(beta.ppf(1 - tail, hits + 1, n - hits)) if hits < n else 1.0
    return Estimate(hits / n, low, high, n, method)


class Bootstrap(Settings):
    """How to resample; whole patients are drawn, since slides of one patient are alike."""

    resamples: int = Field(2000, ge=100)
    """Those in which the number is undefined (one kind only) are dropped and counted, not drawn again."""
    seed: int = 0
    level: float = Field(0.95, gt=0, lt=1)
    """Share of resamples within the interval."""


BOOTSTRAP = Bootstrap()
AT_ONCE = 250
"""Resamples held in memory together."""


def resample(statistic: Statistic, patients: NDArray[np.intp], settings: Bootstrap) -> NDArray[np.float64]:
    """The statistic of each resample, (resamples,); the same patients and seed draw the same, so results pair up."""
    rng = np.random.default_rng(settings.seed)
    count = int(patients.max()) + 1
    found = []
    for start in range(0, settings.resamples, AT_ONCE):
        draws = rng.multinomial(count, np.full(count, 1 / count), min(AT_ONCE, settings.resamples - start))
        found.append(statistic(draws[:, patients].astype(np.float64)))
    return np.concatenate(found)


def value_of(statistic: Statistic, n: int) -> float:
    """The statistic of the data themselves: every slide once."""
    return float(statistic(np.ones((1, n)))[0])


def percentiles(
    value: float, resampled: NDArray[np.float64], patients: NDArray[np.intp], settings: Bootstrap
) -> Estimate:
    """The interval that resamples span; none where they do not differ, which shows a lack of data, not of doubt."""
    n, count = len(patients), int(patients.max()) + 1
    method = f"bootstrap of {count} patients, {settings.resamples} resamples, percentiles, {settings.level:.4g}"
    kept = resampled[np.isfinite(resampled)]
    dropped = len(resampled) - len(kept)
    if not np.isfinite(value) or len(kept) == 0 or np.ptp(kept) < 1e-12:
        return Estimate(value, NAN, NAN, n, method, "resamples do not differ: no interval", dropped)
    tail = (1 - settings.level) / 2
    low, high = np.quantile(kept, [tail, 1 - tail])
    return Estimate(value, float(low), float(high), n, method, dropped=dropped)


def reflected(found: Estimate) -> Estimate:
    """The interval turned about its value (basic bootstrap), for a number that resampling itself moves one way."""
    low, high = 2 * found.value - found.high, 2 * found.value - found.low
    return replace(found, low=low, high=high, method=found.method.replace("percentiles", "percentiles reflected"))


def bootstrapped(statistic: Statistic, patients: NDArray[np.intp], settings: Bootstrap) -> Estimate:
    return percentiles(value_of(statistic, len(patients)), resample(statistic, patients, settings), patients, settings)


def numbers(what: str, values: ArrayLike, slide_ids: Sequence[str] | None = None) -> NDArray[np.float64]:
    """Finite numbers, (N,); each that is not is named, by its slide where that is known."""
    found = np.asarray(values, np.float64)
    if found.ndim != 1:
        raise TableError(what, [f"has the shape {found.shape}; give one number for each slide"])
    wrong = [int(i) for i in np.flatnonzero(~np.isfinite(found))]
    if wrong:
        which = [f"number {i}" if slide_ids is None else f"slide {slide_ids[i]}" for i in wrong]
        advice = "leave the slide out, or predict it again"
        raise TableError(what, [f"{name} is {found[i]}; {advice}" for name, i in zip(which, wrong, strict=True)])
    return found


def kinds(values: ArrayLike, n: int) -> NDArray[np.bool_]:
    """Malignant or not, (n,); an unknown is refused, since it would count as benign."""
    found = np.asarray(values, np.float64)
    if found.shape != (n,):
        raise TableError("malignant", [f"has the shape {found.shape} for {n} slides; give one label for each"])
    wrong = np.flatnonzero(~np.isin(found, (0, 1)))
    if len(wrong):
        raise TableError("malignant", [f"label {i} is {found[i]}; give 0 or 1, or leave the slide out" for i in wrong])
    return found.astype(bool)


def patient_numbers(patients: Sequence[object] | None, n: int) -> NDArray[np.intp]:
    """0, 1, … for each slide's patient, (n,); each slide its own where patients are not known."""
    if patients is None:
        return np.arange(n)
    if len(patients) != n:
        raise TableError("patients", [f"{len(patients)} for {n} slides; give one for each"])
    return np.unique(np.array([str(patient) for patient in patients]), return_inverse=True)[1]


def missing_kind(positive: NDArray[np.bool_]) -> str:
    """Why two kinds cannot be told apart here; empty where they can."""
    if len(positive) == 0:
        return "no slides"
    if positive.all():
        return "no benign slide"
    return "" if positive.any() else "no malignant slide"
