import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import rankdata, spearmanr
from sklearn.metrics import average_precision_score, roc_auc_score

from aspirate.core.ranking import auc, average_precision, concordance, rank_correlation, ranks_of


@given(st.lists(st.tuples(st.integers(0, 6), st.booleans()), min_size=2, max_size=60))
def test_auc_equals_scikit_learn_with_ties(pairs: list[tuple[int, bool]]) -> None:
    scores, positive = np.array([p[0] for p in pairs]), np.array([p[1] for p in pairs])
    if positive.all() or not positive.any():
        assert np.isnan(auc(scores, positive))
    else:
        assert auc(scores, positive) == pytest.approx(roc_auc_score(positive, scores))


@given(st.lists(st.tuples(st.integers(0, 6), st.booleans()), min_size=1, max_size=60))
def test_average_precision_equals_scikit_learn_with_ties(pairs: list[tuple[int, bool]]) -> None:
    scores, positive = np.array([p[0] for p in pairs]), np.array([p[1] for p in pairs])
    if not positive.any():
        assert np.isnan(average_precision(scores, positive))
    else:
        assert average_precision(scores, positive) == pytest.approx(average_precision_score(positive, scores))


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 4)), min_size=2, max_size=30))
def test_concordance_by_counting_pairs(pairs: list[tuple[int, int]]) -> None:
    credit = [1.0 if a[0] > b[0] else 0.5 if a[0] == b[0] else 0.0 for a in pairs for b in pairs if a[1] > b[1]]
    found = concordance([p[0] for p in pairs], [p[1] for p in pairs])
    assert np.isnan(found) if not credit else found == pytest.approx(np.mean(credit))


def test_for_two_ranks_concordance_is_auc() -> None:
    rng = np.random.default_rng(0)
    scores, y = rng.normal(size=50), rng.integers(0, 2, 50)
    assert concordance(scores, y) == pytest.approx(auc(scores, y))


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=2, max_size=60))
def test_rank_correlation_equals_scipy_with_ties(pairs: list[tuple[int, int]]) -> None:
    one, other = np.array(pairs).T
    if len(set(one)) == 1 or len(set(other)) == 1:
        assert np.isnan(rank_correlation(one, other))
    else:
        assert rank_correlation(one, other) == pytest.approx(spearmanr(one, other).statistic)


@given(st.lists(st.integers(-3, 6), max_size=60))
def test_ranks_equal_scipy_with_ties(values: list[int]) -> None:
    np.testing.assert_array_equal(ranks_of(values), rankdata(values))


def test_no_number_has_no_rank() -> None:
    assert np.isnan(ranks_of([1.0, np.nan, 2.0])).all()
    assert np.isnan(auc([1.0, np.nan, 2.0], [True, False, False]))
