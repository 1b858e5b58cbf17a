"""Points of ROC and precision–recall curves, one for each distinct score, highest first."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from aspirate.evaluation.estimates import kinds, missing_kind, numbers


@dataclass(frozen=True, slots=True)
class Curves:
    """Slides with a score of at least `thresholds[i]` are called malignant; all empty where one kind is absent."""

    thresholds: tuple[float, ...]
    sensitivity: tuple[float, ...]
    """Recall."""
    false_positive_rate: tuple[float, ...]
    precision: tuple[float, ...]
    n: int
    malignant: int


def curves(scores: ArrayLike, malignant: ArrayLike) -> Curves:
    f = numbers("scores", scores)
    y = kinds(malignant, len(f))
    if missing_kind(y):
        return Curves((), (), (), (), len(y), int(y.sum()))
    order = np.argsort(-f, kind="stable")
    last_of_equals = np.flatnonzero(np.diff(f[order], append=-np.inf))
    true = y[order].cumsum()[last_of_equals]
    called = last_of_equals + 1
    return Curves(
        tuple(f[order][last_of_equals].tolist()),
        tuple((true / y.sum()).tolist()),
        tuple(((called - true) / (~y).sum()).tolist()),
        tuple((true / called).tolist()),
        len(y),
        int(y.sum()),
    )
