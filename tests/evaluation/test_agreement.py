"""Kappa and confusion against scikit-learn's."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score, confusion_matrix

from aspirate.core.errors import TableError
from aspirate.evaluation.agreement import confusion, weighted_kappa
from aspirate.evaluation.estimates import Bootstrap

FEW = Bootstrap(resamples=100)
CATEGORIES = [2, 3, 4, 5, 6]


@given(st.lists(st.tuples(st.sampled_from(CATEGORIES), st.sampled_from(CATEGORIES)), min_size=2, max_size=40))
@settings(deadline=None)
def test_equal_to_scikit_learn(pairs: list[tuple[int, int]]) -> None:
    first, second = [p[0] for p in pairs], [p[1] for p in pairs]
    found = weighted_kappa(first, second, settings=FEW)
    if len(set(first + second)) == 1:
        assert np.isnan(found.value)
        assert "all slides in one category" in found.note
    else:
        expected = cohen_kappa_score(first, second, labels=CATEGORIES, weights="quadratic")
        assert found.value == pytest.approx(expected)
    assert found.n == len(pairs)
    table = confusion(first, second)
    assert (table.counts == confusion_matrix(first, second, labels=CATEGORIES)).all()
    assert table.n == len(pairs)


def test_columns_are_shares_by_hand() -> None:
    table = confusion([2, 2, 3, 6], [2, 2, 2, 6])
    assert table.column_shares[:, 0] == pytest.approx([2 / 3, 1 / 3, 0, 0, 0])
    assert table.column_shares[:, 4] == pytest.approx([0, 0, 0, 0, 1])
    assert np.isnan(table.column_shares[:, 1:4]).all(), "a category no slide is in has no shares"


def test_interval_equals_one_by_resampling_patients_one_by_one() -> None:
    rng = np.random.default_rng(0)
    first = rng.integers(2, 7, 90)
    second = np.clip(first + rng.integers(-1, 2, 90), 2, 6)
    patients = np.arange(90) // 3
    found = weighted_kappa(first, second, [str(p) for p in patients])
    values = []
    for _ in range(500):
        drawn = np.concatenate([np.flatnonzero(patients == p) for p in rng.integers(0, 30, 30)])
        values.append(cohen_kappa_score(first[drawn], second[drawn], labels=CATEGORIES, weights="quadratic"))
    assert (found.low, found.high) == pytest.approx(np.quantile(values, [0.025, 0.975]), abs=0.015)


def test_undefined_resamples_are_counted() -> None:
    found = weighted_kappa([2, 2, 6], [2, 2, 6])
    assert found.value == 1
    assert found.dropped / 2000 == pytest.approx((2 / 3) ** 3 + (1 / 3) ** 3, abs=0.04)
    assert np.isnan(found.low)


def test_bad_input() -> None:
    assert weighted_kappa([], []).note == "no slides"
    assert np.isnan(weighted_kappa([2], [6]).value)
    assert weighted_kappa([2], [6]).note == "one slide says nothing of agreement"
    assert confusion([], []).n == 0
    assert np.isnan(weighted_kappa([4], [4]).value), "a reader with one slide"
    with pytest.raises(TableError, match="category 1 is 1; give TBS 2 to 6"):
        confusion([2, 1], [2, 2])
    with pytest.raises(TableError, match=r"category 0 is 2.5"):
        confusion([2.5], [2])
    with pytest.raises(TableError, match="number 0 is nan"):
        weighted_kappa([np.nan], [2])
    with pytest.raises(TableError, match="1 of the first, 2 of the second"):
        confusion([2], [2, 3])
