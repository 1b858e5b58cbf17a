"""Thresholds against trying every one, rates against counting, predictive values by Bayes' theorem with numbers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest
from sklearn.metrics import confusion_matrix

from aspirate.core.errors import ConfigError, TableError
from aspirate.evaluation.operating_points import (
    BENIGN,
    MALIGNANT,
    UNDECIDED,
    choose_thresholds,
    decision_curve,
    decisions,
    rates,
)

slides = st.lists(st.tuples(st.integers(0, 12), st.booleans()), min_size=1, max_size=40)


@given(slides, st.sampled_from([(0.0, 1.0), (0.03, 0.95), (0.2, 0.8), (0.4, 0.5)]))
def test_zones_are_the_largest_that_keep_to_the_targets(
    rows: list[tuple[int, bool]], target: tuple[float, float]
) -> None:
    f, y = np.array([r[0] for r in rows]), np.array([r[1] for r in rows])
    found = choose_thresholds(f, y, *target)
    calls = found.call(f)

    high = [t for t in range(13) if (f >= t).any() and y[f >= t].sum() >= target[1] * (f >= t).sum() - 1e-9]
    called_malignant = f >= min(high) if high else np.zeros(len(f), bool)
    assert ((calls == MALIGNANT) == called_malignant).all()
    left = ~called_malignant
    low = [
        t
        for t in range(13)
        if (f[left] <= t).any() and y[left][f[left] <= t].sum() <= target[0] * (f[left] <= t).sum() + 1e-9
    ]
    called_benign = left & (f <= max(low)) if low else np.zeros(len(f), bool)
    assert ((calls == BENIGN) == called_benign).all()

    for zone, called in ((found.benign, called_benign), (found.malignant, called_malignant)):
        assert (zone.threshold is None) == (not called.any())
        assert bool(zone.note) == (zone.threshold is None)
        assert zone.validation.n == called.sum()
        if called.any():
            assert zone.validation.value == pytest.approx(y[called].mean())


def test_thresholds_lie_midway_and_test_slides_have_no_say() -> None:
    found = choose_thresholds([0, 1, 2, 3, 4, 5], [0, 0, 1, 0, 1, 1], 0.03, 0.95)
    assert (found.benign.threshold, found.malignant.threshold) == (1.5, 3.5)
    assert found.call([-9, 1.5, 1.6, 3.4, 3.5, 99]).tolist() == [
        BENIGN,
        BENIGN,
        UNDECIDED,
        UNDECIDED,
        MALIGNANT,
        MALIGNANT,
    ]


def test_no_zone_where_the_target_is_out_of_reach() -> None:
    found = choose_thresholds([1, 2, 3], [1, 0, 0])
    assert found.benign.threshold is None
    assert found.benign.note == "no threshold reaches a risk of 0.03 on validation"
    assert found.malignant.threshold is None
    assert found.call([0, 5]).tolist() == [UNDECIDED, UNDECIDED]
    told = decisions(found.call([0, 5]), [0, 1], prevalence=0.3)
    assert told.decided.value == 0
    assert told.benign_risk.note == told.malignant_risk.note == "no slides"
    assert told.rule_in.ppv.note == told.rule_out.npv.note == "no slide is called so"
    equal = choose_thresholds([1, 1, 1, 1], [1, 0, 0, 0])
    assert equal.benign.threshold is equal.malignant.threshold is None
    empty = choose_thresholds([], [])
    assert empty.benign.threshold is empty.malignant.threshold is None


def test_one_kind_on_validation_is_one_zone() -> None:
    found = choose_thresholds([1, 2, 3], [0, 0, 0])
    assert found.benign.threshold == 3, "not beyond what was seen"
    assert found.malignant.threshold is None


def test_decisions_by_counting() -> None:
    calls = [BENIGN] * 20 + [UNDECIDED] * 10 + [MALIGNANT] * 10
    y = [1] + [0] * 19 + [1] * 4 + [0] * 6 + [1] * 9 + [0]
    found = decisions(calls, y, prevalence=0.25)
    for estimate, hits, n in (
        (found.decided, 30, 40),
        (found.called_benign, 20, 40),
        (found.called_malignant, 10, 40),
        (found.benign_risk, 1, 20),
        (found.malignant_risk, 9, 10),
        (found.undecided_risk, 4, 10),
        (found.rule_out.sensitivity, 13, 14),
        (found.rule_out.specificity, 19, 26),
        (found.rule_in.sensitivity, 9, 14),
        (found.rule_in.specificity, 25, 26),
    ):
        exact = binomtest(hits, n).proportion_ci(method="exact")
        assert (estimate.value, estimate.n) == (hits / n, n)
        assert (estimate.low, estimate.high) == pytest.approx((exact.low, exact.high))


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=4, max_size=60))
def test_at_the_observed_share_predictive_values_are_counts(rows: list[tuple[bool, bool]]) -> None:
    called, y = np.array([r[0] for r in rows]), np.array([r[1] for r in rows])
    if not 0 < y.sum() < len(y):
        told = rates(called, y, 0.3)
        assert told.ppv.note == told.npv.note == "one kind is absent"
        return
    (tn, fp), (fn, tp) = confusion_matrix(y, called, labels=[False, True])
    found = rates(called, y, float(y.mean()))
    assert found.sensitivity.value == pytest.approx(tp / (tp + fn))
    assert found.specificity.value == pytest.approx(tn / (tn + fp))
    for estimate, right, all_called in ((found.ppv, tp, tp + fp), (found.npv, tn, tn + fn)):
        if all_called:
            assert estimate.value == pytest.approx(right / all_called)
            assert estimate.low - 1e-9 <= estimate.value <= estimate.high + 1e-9
        else:
            assert np.isnan(estimate.value)


def test_predictive_values_at_the_users_prevalence() -> None:
    """Of 1000 slides, 100 malignant: 80 found, 20 missed; 900 benign: 90 called, 810 not."""
    called = np.array([1] * 8 + [0] * 2 + [1] + [0] * 9)
    found = rates(called, [1] * 10 + [0] * 10, prevalence=0.1)
    assert found.ppv.value == pytest.approx(80 / 170)
    assert found.npv.value == pytest.approx(810 / 830)


def test_predictive_intervals_cover() -> None:
    rng = np.random.default_rng(0)
    se, sp, share = 0.85, 0.9, 0.2
    ppv, npv = share * se / (share * se + 0.8 * 0.1), 0.8 * sp / (0.8 * sp + share * (1 - se))
    y = np.arange(90) < 40
    inside = []
    for _ in range(300):
        found = rates(np.where(y, rng.random(90) < se, rng.random(90) > sp), y, share)
        inside.append((found.ppv.low <= ppv <= found.ppv.high, found.npv.low <= npv <= found.npv.high))
    assert (np.mean(inside, axis=0) >= 0.94).all()


def test_net_benefit_by_counting() -> None:
    rng = np.random.default_rng(1)
    p = np.round(rng.random(60), 1)
    y = rng.random(60) < p
    for point in decision_curve(p, y, [0.0, 0.1, 0.3, 0.9]):
        t = point.threshold
        true = sum(1 for a, b in zip(p, y, strict=True) if a >= t and b)
        false = sum(1 for a, b in zip(p, y, strict=True) if a >= t and not b)
        assert point.method == pytest.approx(true / 60 - false / 60 * t / (1 - t))
        assert point.treat_all == pytest.approx(y.mean() - (1 - y.mean()) * t / (1 - t))
    (observed,), (given_share,) = decision_curve(p, y, [0.3]), decision_curve(p, y, [0.3], float(y.mean()))
    assert observed.method == pytest.approx(given_share.method)
    (rare,) = decision_curve(p, y, [0.3], 0.05)
    assert rare.treat_all == pytest.approx(0.05 - 0.95 * 3 / 7)
    assert rare.method == pytest.approx(0.05 * (p >= 0.3)[y].mean() - 0.95 * (p >= 0.3)[~y].mean() * 3 / 7)


def test_the_band_of_a_decision_curve_by_resampling_patients_by_hand() -> None:
    rng = np.random.default_rng(5)
    p, patients = rng.random(80), [f"p{i // 2}" for i in range(80)]
    y = rng.random(80) < p
    for prevalence in (None, 0.2):
        (found,) = decision_curve(p, y, [0.3], prevalence, patients)
        values = []
        for _ in range(4000):
            drawn = np.concatenate([[2 * i, 2 * i + 1] for i in rng.integers(0, 40, 40)])
            yes, called = y[drawn], p[drawn] >= 0.3
            share = yes.mean() if prevalence is None else prevalence
            values.append(share * called[yes].mean() - (1 - share) * called[~yes].mean() * 3 / 7)
        assert (found.low, found.high) == pytest.approx(np.quantile(values, [0.025, 0.975]), abs=0.012)


def test_bad_input() -> None:
    with pytest.raises(ConfigError, match=r"target risks 0\.9 and 0\.5"):
        choose_thresholds([1], [1], 0.9, 0.5)
    with pytest.raises(ConfigError, match="prevalence 30: give the share"):
        rates([1], [1], 30)
    with pytest.raises(ConfigError, match="prevalence 0: give the share"):
        decision_curve([0.5, 0.2], [1, 0], [0.1], 0)
    with pytest.raises(ConfigError, match=r"threshold 1: a decision threshold"):
        decision_curve([0.5], [1], [1])
    with pytest.raises(TableError, match="number 0 is nan"):
        choose_thresholds([np.nan], [1])
    with pytest.raises(TableError, match="something else than"):
        decisions([2], [1], 0.3)
    assert np.isnan(decision_curve([], [], [0.1])[0].method)
    assert np.isnan(decision_curve([0.5], [1], [0.1], 0.3)[0].method)
    assert decision_curve([0.5], [1], [0.1])[0].method == 1
