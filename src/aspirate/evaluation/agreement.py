"""How far two give the same TBS categories: counts, and kappa with quadratic weights.

κ = 1 − Σ w O / Σ w E,   w_ij = (i − j)²,   O the observed shares, E those of independent raters with the same margins
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aspirate.core.errors import TableError
from aspirate.core.labels import TRAINABLE_BETHESDA
from aspirate.evaluation.estimates import (
    BOOTSTRAP,
    NAN,
    Bootstrap,
    Estimate,
    bootstrapped,
    numbers,
    patient_numbers,
    unknown,
)

SIZE = len(TRAINABLE_BETHESDA)


@dataclass(frozen=True, slots=True, eq=False)
class Confusion:
    """Rows are what the first says (the algorithm), columns what the second does (the reader), TBS 2 … 6."""

    counts: NDArray[np.int64]
    """(5, 5)"""

    @property
    def n(self) -> int:
        return int(self.counts.sum())

    @property
    def column_shares(self) -> NDArray[np.float64]:
        """Each column sums to 1; NaN in one without a slide."""
        totals = self.counts.sum(0)
        return np.where(totals > 0, self.counts / np.maximum(totals, 1), NAN)


def confusion(first: ArrayLike, second: ArrayLike) -> Confusion:
    cells = _cells(first, second)
    return Confusion(np.bincount(cells, minlength=SIZE**2).reshape(SIZE, SIZE).astype(np.int64))


def weighted_kappa(
    first: ArrayLike,
    second: ArrayLike,
    patients: Sequence[object] | None = None,
    settings: Bootstrap = BOOTSTRAP,
) -> Estimate:
    """κ with its bootstrap interval; unknown where both give all slides one and the same category."""
    cells = _cells(first, second)
    groups = patient_numbers(patients, len(cells))
    if len(cells) == 0:
        return unknown(0, "none", "no slides")
    if len(cells) == 1:
        return unknown(1, "none", "one slide says nothing of agreement")
    if len(np.unique(cells)) == 1 and cells[0] // SIZE == cells[0] % SIZE:
        return unknown(len(cells), "none", "all slides in one category: kappa is undefined")
    member = np.eye(SIZE**2)[cells]  # (N, 25)
    return bootstrapped(lambda weights: _kappa((weights @ member).reshape(-1, SIZE, SIZE)), groups, settings)


def _kappa(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """(R, 5, 5) → (R,)"""
    distance = (np.arange(SIZE)[:, None] - np.arange(SIZE)) ** 2
    observed = (counts * distance).sum((1, 2))
    margins = counts.sum(2)[:, :, None] * counts.sum(1)[:, None, :]
    expected = (margins * distance).sum((1, 2)) / counts.sum((1, 2))
    found = np.full(len(counts), NAN)
    defined = expected > 0
    found[defined] = 1 - observed[defined] / expected[defined]
    return found


def _cells(first: ArrayLike, second: ArrayLike) -> NDArray[np.int64]:
    """5 × rank of the first + rank of the second, (N,)."""
    rows, columns = ranks("first", first), ranks("second", second)
    if len(rows) != len(columns):
        raise TableError("categories", [f"{len(rows)} of the first, {len(columns)} of the second; give both for each"])
    return rows * SIZE + columns


def ranks(what: str, categories: ArrayLike) -> NDArray[np.int64]:
    """TBS 2 … 6 as 0 … 4; TBS 1 says nothing of malignancy and is refused."""
    given = numbers(what, categories)
    wrong = np.flatnonzero(~np.isin(given, TRAINABLE_BETHESDA))
    if len(wrong):
        raise TableError(
            what, [f"category {i} is {given[i]:g}; give TBS 2 to 6, or leave the slide out" for i in wrong]
        )
    return given.astype(np.int64) - TRAINABLE_BETHESDA[0]
