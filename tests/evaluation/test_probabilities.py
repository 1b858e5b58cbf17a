"""Brier, log loss, ECE and reliability against scikit-learn and counting."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest
from sklearn.calibration import calibration_curve
from sklearn.metrics import brier_score_loss, log_loss
from tests.evaluation.by_hand import middle, resamples

from aspirate.core.errors import ConfigError, TableError
from aspirate.evaluation.estimates import Bootstrap
from aspirate.evaluation.probabilities import calibration_error, probability_quality, reliability

FEW = Bootstrap(resamples=100)


@given(st.lists(st.tuples(st.integers(1, 19), st.booleans()), min_size=2, max_size=60), st.integers(1, 12))
@settings(deadline=None)
def test_equal_to_scikit_learn_and_counting(rows: list[tuple[int, bool]], bins: int) -> None:
    p, y = np.array([r[0] / 20 for r in rows]), np.array([r[1] for r in rows])
    found = probability_quality(p, y, bins=bins, settings=FEW)
    assert found.brier.value == pytest.approx(brier_score_loss(y, p, labels=[0, 1]))
    assert found.log_loss.value == pytest.approx(log_loss(y, p, labels=[0, 1]))

    members: dict[int, list[int]] = {}
    for i, (twentieths, _) in enumerate(rows):
        below = sum(other < twentieths for other, _ in rows)
        members.setdefault(below * bins // len(rows), []).append(i)  # the bin of the first among equals
    counted = [members[number] for number in sorted(members)]
    assert [point.observed.n for point in found.reliability] == [len(bin_) for bin_ in counted]
    assert [point.mean for point in found.reliability] == pytest.approx([p[bin_].mean() for bin_ in counted])
    assert [point.observed.value for point in found.reliability] == pytest.approx([y[b].mean() for b in counted])
    expected = sum(abs(y[bin_].mean() - p[bin_].mean()) * len(bin_) for bin_ in counted) / len(p)
    assert found.ece.value == pytest.approx(expected)
    assert (found.ece.bins, found.ece.n) == (len(counted), len(p))


def test_reliability_is_scikit_learns() -> None:
    rng = np.random.default_rng(3)
    p = rng.random(120)
    y = rng.random(120) < p
    shares, means = calibration_curve(y, p, n_bins=8, strategy="quantile")
    found = reliability(p, y, 8)
    assert [point.observed.value for point in found] == pytest.approx(list(shares))
    assert [point.mean for point in found] == pytest.approx(list(means))


def test_ten_equal_bins_by_hand() -> None:
    p = np.arange(100) / 100
    y = p > 0.5
    found = calibration_error(p, y)
    by_hand = np.mean([abs(y[i : i + 10].mean() - p[i : i + 10].mean()) for i in range(0, 100, 10)])
    assert found.value == pytest.approx(by_hand)
    assert found.bins == 10
    points = reliability(p, y)
    assert (points[0].lowest, points[0].highest, points[0].observed.n) == (0, 0.09, 10)
    exact = binomtest(9, 10).proportion_ci(method="exact")
    assert points[5].observed.value == 0.9
    assert (points[5].observed.low, points[5].observed.high) == pytest.approx((exact.low, exact.high))


def test_chance_level_is_what_calibrated_probabilities_show() -> None:
    rng = np.random.default_rng(0)
    p = rng.random(150)
    errors = [calibration_error(p, rng.random(150) < p, settings=FEW).value for _ in range(300)]
    found = calibration_error(p, p > 0.5)
    assert found.chance_mean == pytest.approx(np.mean(errors), rel=0.05)
    assert found.chance_high == pytest.approx(np.quantile(errors, 0.95), rel=0.1)
    assert found.value > found.chance_high, "0 and 1 for what was said to be uncertain"


def test_intervals_cover_and_know_patients() -> None:
    rng = np.random.default_rng(1)
    p = rng.random(60)
    y = rng.random(60) < p
    once = probability_quality(p, y)
    spread = 1.96 * ((p - y) ** 2).std() / np.sqrt(60)
    assert (once.brier.low, once.brier.high) == pytest.approx(
        (once.brier.value - spread, once.brier.value + spread), abs=0.015
    )
    thrice = probability_quality(np.tile(p, 3), np.tile(y, 3), list(range(60)) * 3)
    assert (thrice.brier.low, thrice.brier.high) == pytest.approx((once.brier.low, once.brier.high), abs=0.005)


def test_the_interval_of_ece_is_reflected_about_it_and_reaches_0_where_chance_explains_it() -> None:
    rng = np.random.default_rng(4)
    patients = [f"p{i // 2}" for i in range(80)]
    p = rng.random(80)
    chosen = Bootstrap(resamples=260, seed=5, level=0.9)
    said = {"chance": rng.random(80) < p, "wrong": rng.random(80) < 1 - p}
    bins = np.argsort(np.argsort(p)) // 20
    for name, y in said.items():
        found = calibration_error(p, y, patients, 4, chosen)
        errors = [
            sum(abs((y[i] - p[i])[bins[i] == number].sum()) for number in range(4)) / len(i)
            for i in resamples(patients, 260, seed=5)
        ]
        low, high = middle(errors, 0.9)
        assert found.high == pytest.approx(2 * found.value - low)
        assert found.low == pytest.approx(0 if name == "chance" else 2 * found.value - high)
        assert (found.value <= found.chance_high) == (name == "chance")
        assert found.method == "bootstrap of 40 patients, 260 resamples, percentiles reflected, 0.9"


@pytest.mark.parametrize(("steeper", "least"), [(1.0, 0.9), (0.4, 0.8)])
def test_the_interval_of_ece_mostly_holds_the_truth(steeper: float, least: float) -> None:
    """The percentiles of resamples never hold it where probabilities are calibrated."""
    rng = np.random.default_rng(7)
    held = 0
    for _ in range(100):
        p = rng.beta(1, 2, 150)
        true = 1 / (1 + (1 / p - 1) ** steeper)
        gaps = [abs(group.sum()) for group in np.split((true - p)[np.argsort(p)], 10)]
        found = calibration_error(p, rng.random(150) < true, settings=Bootstrap(resamples=200))
        held += found.low <= sum(gaps) / 150 <= found.high
    assert held >= 100 * least


def test_intervals_are_those_of_scikit_learn_on_each_resample_of_patients() -> None:
    rng = np.random.default_rng(6)
    patients = [f"p{i // 3}" for i in range(50)]
    p = np.round(rng.random(50), 2).clip(0.01, 0.99)
    y = rng.random(50) < p
    found = probability_quality(p, y, patients, settings=Bootstrap(resamples=260, seed=3, level=0.8))
    drawn = list(resamples(patients, 260, seed=3))
    losses = [log_loss(y[i], p[i], labels=[0, 1]) for i in drawn]
    squares = [brier_score_loss(y[i], p[i], labels=[0, 1]) for i in drawn]
    assert (found.log_loss.low, found.log_loss.high) == pytest.approx(middle(losses, 0.8), rel=1e-9)
    assert (found.brier.low, found.brier.high) == pytest.approx(middle(squares, 0.8), rel=1e-9)
    assert found.log_loss.low < found.log_loss.value < found.log_loss.high


def test_bad_input() -> None:
    empty = probability_quality([], [])
    assert empty.brier.note == empty.log_loss.note == empty.ece.note == "no slides"
    assert empty.reliability == ()
    sure = probability_quality([0.0, 1.0, 0.4], [1, 1, 0], settings=FEW)
    assert sure.log_loss.value == np.inf
    assert "1 slides were given probability 0" in sure.log_loss.note
    assert sure.brier.value == pytest.approx(1.16 / 3)
    one_kind = probability_quality([0.2, 0.4], [0, 0], settings=FEW)
    assert one_kind.brier.value == pytest.approx(0.1)
    same = probability_quality([0.3] * 10, [1] * 3 + [0] * 7, settings=FEW)
    assert same.ece.bins == 1
    assert same.ece.value == pytest.approx(0)
    with pytest.raises(TableError, match=r"number 1 is 1\.2; a probability is 0 to 1"):
        probability_quality([0.1, 1.2], [0, 1])
    with pytest.raises(TableError, match="number 0 is nan"):
        reliability([np.nan], [0])
    with pytest.raises(ConfigError, match="0 bins"):
        calibration_error([0.1], [0], bins=0)
