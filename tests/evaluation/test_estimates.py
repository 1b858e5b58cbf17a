"""Intervals against scipy's own, and input that would make a wrong number."""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binomtest

from aspirate.core.errors import ConfigError, TableError
from aspirate.evaluation.estimates import (
    Bootstrap,
    bootstrapped,
    kinds,
    numbers,
    patient_numbers,
    proportion,
    resample,
)


@pytest.mark.parametrize(("hits", "n", "level"), [(0, 10, 0.95), (10, 10, 0.95), (3, 17, 0.9), (1, 1, 0.95)])
def test_exact_interval_is_scipys(hits: int, n: int, level: float) -> None:
    expected = binomtest(hits, n).proportion_ci(level, method="exact")
    found = proportion(hits, n, level)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))
    assert (found.value, found.n) == (hits / n, n)


def test_a_share_of_nothing_is_unknown_and_nonsense_is_refused() -> None:
    assert np.isnan(proportion(0, 0).value)
    assert proportion(0, 0).note == "no slides"
    with pytest.raises(ConfigError, match="4 of 3 is no share"):
        proportion(4, 3)
    with pytest.raises(ConfigError, match=r"level 95"):
        proportion(1, 3, 95)


def test_bootstrap_of_a_mean_has_the_spread_that_theory_gives() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=200)
    found = bootstrapped(lambda w: w @ x / w.sum(1), np.arange(200), Bootstrap(resamples=4000))
    half = 1.96 * x.std() / np.sqrt(200)
    assert found.value == pytest.approx(x.mean())
    assert (found.low, found.high) == pytest.approx((x.mean() - half, x.mean() + half), abs=0.012)
    assert "200 patients, 4000 resamples" in found.method


def test_whole_patients_are_drawn() -> None:
    """Four equal slides a patient carry the doubt of one: the interval is twice as wide as of as many patients."""
    patients = patient_numbers([f"p{i // 4}" for i in range(400)], 400)
    x = np.repeat(np.random.default_rng(2).normal(size=100), 4)
    by_patient = resample(lambda w: w @ x / w.sum(1), patients, Bootstrap())
    by_slide = resample(lambda w: w @ x / w.sum(1), np.arange(400), Bootstrap())
    assert by_patient.std() / by_slide.std() == pytest.approx(2, rel=0.08)
    drawn = resample(lambda w: np.array([len(set(row[:4])) for row in w], float), patients, Bootstrap(resamples=100))
    assert (drawn == 1).all(), "slides of one patient come equally often"


def test_undefined_resamples_are_dropped_and_counted_and_the_seed_decides() -> None:
    def times_the_first_is_drawn(w: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.where(w[:, 0] > 0, w[:, 0], np.nan)

    found = bootstrapped(times_the_first_is_drawn, np.arange(3), Bootstrap(resamples=2000))
    assert found.dropped / 2000 == pytest.approx((2 / 3) ** 3, abs=0.04)
    assert found == bootstrapped(times_the_first_is_drawn, np.arange(3), Bootstrap(resamples=2000))
    other = Bootstrap(resamples=2000, seed=1)
    assert bootstrapped(times_the_first_is_drawn, np.arange(3), other).dropped != found.dropped


def test_no_spread_is_no_interval() -> None:
    found = bootstrapped(lambda w: np.ones(len(w)), np.arange(5), Bootstrap(resamples=100))
    assert found.value == 1
    assert np.isnan([found.low, found.high]).all()
    assert "do not differ" in found.note


def test_bad_input_is_named() -> None:
    with pytest.raises(TableError, match=r"scores: 2 problems\n.*number 1 is nan; leave.*\n.*number 2 is inf"):
        numbers("scores", [0.0, np.nan, np.inf])
    with pytest.raises(TableError, match="one number for each slide"):
        numbers("scores", [[0.0]])
    with pytest.raises(TableError, match="label 1 is nan; give 0 or 1"):
        kinds(np.array([True, None], object), 2)
    with pytest.raises(TableError, match=r"shape \(1,\) for 2 slides"):
        kinds([1], 2)
    with pytest.raises(TableError, match="1 for 2 slides"):
        patient_numbers(["a"], 2)
    with pytest.raises(ConfigError, match="resamples"):
        Bootstrap.of({"resamples": 1})
