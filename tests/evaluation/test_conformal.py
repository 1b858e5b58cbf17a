"""Sets cover as promised in simulation, are ranges, and grow as a slow reference grows them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from aspirate.core.errors import ConfigError, TableError
from aspirate.evaluation.conformal import Conformal, category_probabilities, coverage, fit_conformal

CUTS = [-2.0, -0.5, 0.5, 2.0]


def simulate(rng: np.random.Generator, n: int, wrong: float = 1.0) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Probabilities, and categories drawn from them; with `wrong` ≠ 1 those shown are too sure or too shy."""
    f = rng.normal(0, 2, n)
    true = category_probabilities(f, CUTS)
    drawn = (rng.random((n, 1)) > true.cumsum(1)).sum(1) + 2
    shown = true**wrong
    return shown / shown.sum(1, keepdims=True), drawn


def test_probabilities_are_those_of_the_cuts() -> None:
    found = category_probabilities([0.3], CUTS)[0]
    exceed = [1.0, *(1 / (1 + np.exp(-(0.3 - cut))) for cut in CUTS), 0.0]
    assert found == pytest.approx([exceed[i] - exceed[i + 1] for i in range(5)])
    with pytest.raises(ConfigError, match="give 4 in rising order"):
        category_probabilities([0.3], [0, 2, 1, 3])


@pytest.mark.parametrize("wrong", [1.0, 3.0, 0.3])
@pytest.mark.parametrize("alpha", [0.1, 0.25])
def test_coverage_is_what_was_promised(wrong: float, alpha: float) -> None:
    """Over many draws of validation and test slides, also where the probabilities are bad."""
    rng = np.random.default_rng(0)
    hits, sizes = [], []
    for _ in range(150):
        fitted = fit_conformal(*simulate(rng, 60, wrong), alpha)
        shown, truth = simulate(rng, 100, wrong)
        found = coverage(fitted.ranges(shown), truth)
        hits.append(found.covered.value)
        sizes.append(found.mean_size.value)
    assert np.mean(hits) >= 1 - alpha - 0.01
    assert np.mean(hits) <= 1 - alpha + 0.06, "and not by naming everything"
    assert np.mean(sizes) < 4


weights = st.lists(st.integers(1, 50), min_size=5, max_size=5, unique=True)


@given(weights, st.integers(50, 990))
def test_ranges_grow_as_the_slow_reference_does(masses: list[int], share: int) -> None:
    limit = share / 997  # a prime, so that no sum of masses is equal to it but for rounding
    p = np.array(masses) / sum(masses)
    inside = [int(p.argmax())]
    while len(inside) < 5:
        neighbours = [i for i in (inside[0] - 1, inside[-1] + 1) if 0 <= i < 5]
        best = max(neighbours, key=lambda i: float(p[i]))
        if p[inside].sum() > limit:
            break
        inside = sorted([*inside, best])
    low, high = Conformal(0.1, limit, 99).ranges([p])[0]
    assert (low, high) == (inside[0] + 2, inside[-1] + 2)


def test_limit_by_hand() -> None:
    """Nine slides of TBS 3 held for TBS 2 with 0.51, 0.52 … 0.59: at α = 0.2 the limit is the eighth smallest."""
    p = [[0.5 + k / 100, 0.5 - k / 100, 0, 0, 0] for k in range(1, 10)]
    truth = [3] * 9
    assert fit_conformal(p, truth, 0.2).limit == pytest.approx(0.58)
    assert fit_conformal(p, truth, 0.1).limit == pytest.approx(0.59)
    assert fit_conformal(p, [2] * 9, 0.1).limit == 0
    assert fit_conformal(p, truth, 0.2).ranges(p).tolist() == [[2, 3]] * 8 + [[2, 2]]
    few = fit_conformal(p, truth, 0.05)
    assert few.limit == np.inf
    assert few.note == "9 validation slides cannot promise 0.95: every set holds all categories"
    assert few.ranges(p).tolist() == [[2, 6]] * 9


def test_coverage_by_counting() -> None:
    found = coverage([[2, 2], [2, 4], [5, 6], [3, 3]], [2, 5, 6, 3])
    assert (found.covered.value, found.covered.n, found.mean_size.value, found.singletons.value) == (0.75, 4, 1.75, 0.5)
    assert (found.by_category[5].value, found.by_category[6].value) == (0, 1)
    assert found.by_category[4].note == "no slides"


def test_bad_input() -> None:
    p = [[0.2] * 5]
    empty = fit_conformal([], [])
    assert (empty.n, empty.limit) == (0, np.inf)
    assert empty.ranges(p).tolist() == [[2, 6]]
    assert coverage(empty.ranges([]), []).covered.note == "no slides"
    assert coverage(empty.ranges([]), []).mean_size.note == "no slides"
    with pytest.raises(ConfigError, match="alpha 5"):
        fit_conformal(p, [2], 5)
    with pytest.raises(TableError, match="category 0 is 1"):
        fit_conformal(p, [1])
    with pytest.raises(TableError, match="2 for 1 slides"):
        fit_conformal(p, [2, 3])
    with pytest.raises(TableError, match=r"shape \(1, 4\)"):
        fit_conformal([[0.25] * 4], [2])
    for bad in ([0.5, 0.5, 0.5, 0, 0], [np.nan, 1, 0, 0, 0], [-0.5, 1.5, 0, 0, 0]):
        with pytest.raises(TableError, match=r"row 0 is .*; it must sum to 1"):
            empty.ranges([bad])
    with pytest.raises(TableError, match="2 for 1 slides"):
        coverage([[2, 2], [2, 2]], [2])
