"""AUC, AP and their differences against scikit-learn, counting of pairs, and one another."""

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import norm
from sklearn.metrics import average_precision_score, roc_auc_score

from aspirate.core.errors import ConfigError, TableError
from aspirate.evaluation.delong import delong, delong_interval
from aspirate.evaluation.discrimination import (
    bootstrap_pairs,
    delong_pairs,
    discrimination,
    discrimination_of,
    holm,
    over_folds,
    weighted_ap,
    weighted_auc,
)
from aspirate.evaluation.estimates import Bootstrap

FEW = Bootstrap(resamples=300)
Floats = NDArray[np.float64]


def sample(seed: int, n: int = 120, apart: float = 1.0) -> tuple[Floats, NDArray[np.bool_]]:
    rng = np.random.default_rng(seed)
    y = rng.random(n) < 0.35
    return np.round(rng.normal(size=n) + apart * y.astype(np.float64), 1), y  # rounded: equal scores occur


@given(st.lists(st.tuples(st.integers(0, 4), st.booleans(), st.integers(0, 3)), min_size=2, max_size=30))
def test_weighted_measures_equal_scikit_learns(rows: list[tuple[int, bool, int]]) -> None:
    f, y, w = (np.array(column) for column in zip(*rows, strict=True))
    both = w[y].sum() > 0 and w[~y].sum() > 0
    for weigh, reference in ((weighted_auc, roc_auc_score), (weighted_ap, average_precision_score)):
        found = weigh(f.astype(float), y)(w[None].astype(float))[0]
        if both:
            repeated = np.repeat(np.arange(len(f)), w)
            assert found == pytest.approx(reference(y[repeated], f[repeated]))
        else:
            assert np.isnan(found)


def test_bootstrap_interval_equals_one_by_resampling_slide_by_slide() -> None:
    f, y = sample(0)
    patients = np.arange(120) // 2
    found = discrimination(f, y, [str(p) for p in patients], Bootstrap(resamples=3000))
    assert found.auc.value == pytest.approx(roc_auc_score(y, f))
    assert found.ap.value == pytest.approx(average_precision_score(y, f))
    assert (found.malignant, found.benign, found.auc.n) == (y.sum(), (~y).sum(), 120)

    rng = np.random.default_rng(5)
    aucs, aps = [], []
    for _ in range(800):
        drawn = np.concatenate([np.flatnonzero(patients == p) for p in rng.integers(0, 60, 60)])
        aucs.append(roc_auc_score(y[drawn], f[drawn]))
        aps.append(average_precision_score(y[drawn], f[drawn]))
    assert (found.auc.low, found.auc.high) == pytest.approx(np.quantile(aucs, [0.025, 0.975]), abs=0.015)
    assert (found.ap.low, found.ap.high) == pytest.approx(np.quantile(aps, [0.025, 0.975]), abs=0.025)


def brute_force_covariance(scores: list[Floats], y: NDArray[np.bool_]) -> Floats:
    """DeLong's structural components, pair by pair."""
    positives, negatives = np.flatnonzero(y), np.flatnonzero(~y)
    m, n = len(positives), len(negatives)
    V10, V01 = np.zeros((len(scores), m)), np.zeros((len(scores), n))
    for k, f in enumerate(scores):
        for (i, a), (j, b) in product(enumerate(positives), enumerate(negatives)):
            psi = 1.0 if f[a] > f[b] else 0.5 if f[a] == f[b] else 0.0
            V10[k, i] += psi / n
            V01[k, j] += psi / m
    return np.asarray(np.cov(V10) / m + np.cov(V01) / n, np.float64)


def test_delong_is_the_brute_force_one() -> None:
    f, y = sample(1, 60)
    g = f + np.round(np.random.default_rng(9).normal(size=60), 1)
    found = delong(np.stack([f, g]), y, np.arange(60))
    expected = brute_force_covariance([f, g], y)
    assert found.covariance == pytest.approx(expected)
    assert found.aucs == pytest.approx([roc_auc_score(y, f), roc_auc_score(y, g)])

    interval = delong_interval(found, 0.95)
    a, sd = found.aucs[0], np.sqrt(expected[0, 0])
    half = 1.959964 * sd / (a * (1 - a))
    logit = np.log(a / (1 - a))
    assert (interval.low, interval.high) == pytest.approx(
        [1 / (1 + np.exp(-(logit - half))), 1 / (1 + np.exp(-(logit + half)))]
    )

    names = [f"s{i}" for i in range(60)]
    by_method = {"f": dict(zip(names, f, strict=True)), "g": dict(zip(names, g, strict=True))}
    (pair,) = delong_pairs(by_method, dict(zip(names, y.tolist(), strict=True)))
    difference = found.aucs[0] - found.aucs[1]
    sd = np.sqrt(expected[0, 0] + expected[1, 1] - 2 * expected[0, 1])
    assert pair.estimate.value == pytest.approx(difference)
    assert pair.p == pytest.approx(2 * (1 - norm.cdf(abs(difference) / sd)))
    assert (pair.estimate.low, pair.estimate.high) == pytest.approx(
        (difference - 1.959964 * sd, difference + 1.959964 * sd)
    )


def test_delong_and_bootstrap_agree_also_where_patients_have_many_slides() -> None:
    rng = np.random.default_rng(3)
    patients = np.repeat(np.arange(80), 3)
    y = (rng.random(80) < 0.35)[patients] ^ (rng.random(240) < 0.05)  # a few patients have slides of both kinds
    f = rng.normal(size=80)[patients] + 0.3 * rng.normal(size=240) + 1.2 * y
    clustered = delong(f[None], y, patients)
    boot = discrimination(f, y, [str(p) for p in patients]).auc
    sd = (boot.high - boot.low) / 3.92
    assert np.sqrt(clustered.covariance[0, 0]) == pytest.approx(sd, rel=0.12)
    assert np.sqrt(delong(f[None], y, np.arange(240)).covariance[0, 0]) < 0.8 * sd, "slides alone look too sure"


def test_paired_tests_agree() -> None:
    f, y = sample(4, 200)
    g = f + 0.8 * np.random.default_rng(4).normal(size=200)
    names = [f"s{i}" for i in range(200)]
    scores = {"f": dict(zip(names, f, strict=True)), "g": dict(zip(names, g, strict=True))}
    truth = dict(zip(names, y.tolist(), strict=True))
    (by_delong,) = delong_pairs(scores, truth)
    (by_bootstrap,) = bootstrap_pairs(scores, truth, "auc", settings=Bootstrap(resamples=4000))
    assert by_bootstrap.estimate.value == pytest.approx(by_delong.estimate.value)
    assert by_bootstrap.estimate.low == pytest.approx(by_delong.estimate.low, abs=0.01)
    assert by_bootstrap.estimate.high == pytest.approx(by_delong.estimate.high, abs=0.01)
    assert by_bootstrap.p == pytest.approx(by_delong.p, abs=0.03)


def test_under_equality_p_values_are_uniform() -> None:
    """Two equally noisy copies of one signal: 5 % of p values below 0.05, by either test."""
    rng = np.random.default_rng(6)
    names = [f"s{i}" for i in range(80)]
    p_delong, p_bootstrap = [], []
    for _ in range(150):
        y = rng.random(80) < 0.4
        signal = y + rng.normal(size=80)
        scores = {m: dict(zip(names, signal + rng.normal(size=80), strict=True)) for m in "ab"}
        truth = dict(zip(names, y.tolist(), strict=True))
        p_delong.append(delong_pairs(scores, truth)[0].p)
        p_bootstrap.append(bootstrap_pairs(scores, truth, "auc", settings=Bootstrap(resamples=200))[0].p)
    assert np.mean(np.array(p_delong) < 0.05) == pytest.approx(0.05, abs=0.045)
    assert np.mean(np.array(p_bootstrap) < 0.05) == pytest.approx(0.05, abs=0.045)
    assert np.mean(p_delong) == pytest.approx(0.5, abs=0.08)


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.6, 0.7]) == [1.0, 1.0]
    assert holm([]) == []
    with_gap = holm([0.02, np.nan, 0.5])
    assert (with_gap[0], with_gap[2]) == (0.04, 0.5)
    assert np.isnan(with_gap[1])


def test_pairs_use_the_slides_both_have_and_say_how_many() -> None:
    truth: dict[str, bool | None] = {"a": True, "b": False, "c": True, "d": False, "e": None, "f": True, "g": False}
    scores = {
        "full": {"a": 3, "b": 1, "c": 2, "d": 0, "e": 9, "f": 1, "g": 2},
        "part": {"a": 3, "b": 1, "c": 0, "d": 2, "e": 9},
        "one": {"a": 1},
    }
    found = {(d.first, d.second): d for d in delong_pairs(scores, truth)}
    assert found["full", "part"].estimate.n == 4
    assert found["full", "part"].estimate.value == pytest.approx(1 - 0.5)
    assert (found["full", "one"].estimate.n, found["full", "one"].estimate.note) == (1, "no benign slide")
    assert np.isnan([found["full", "one"].p, found["full", "one"].p_holm]).all()
    assert found["full", "part"].tests == 1
    boot = {(d.first, d.second): d for d in bootstrap_pairs(scores, truth, "ap", settings=FEW)}
    a, b = ([scores[m][i] for i in "abcd"] for m in ("full", "part"))
    y = [1, 0, 1, 0]
    expected = average_precision_score(y, a) - average_precision_score(y, b)
    assert boot["full", "part"].estimate.value == pytest.approx(expected)
    assert boot["full", "part"].estimate.dropped > 0
    assert boot["part", "one"].estimate.note == "no benign slide"
    only = delong_pairs(scores, truth, pairs=[("part", "full")])
    assert [(d.first, d.second) for d in only] == [("part", "full")]
    assert only[0].estimate.value == pytest.approx(-0.5)


def test_a_method_against_itself_is_no_different() -> None:
    f, y = sample(7)
    mine = {str(i): float(v) for i, v in enumerate(f)}
    truth = {str(i): bool(v) for i, v in enumerate(y)}
    for (found,) in (
        delong_pairs({"a": mine, "b": mine}, truth),
        bootstrap_pairs({"a": mine, "b": mine}, truth, "auc", settings=FEW),
    ):
        assert (found.estimate.value, found.p) == (0, 1)
        assert found.estimate.note


@given(st.integers(1, 60), st.integers(1, 60))
@settings(max_examples=20, deadline=None)
def test_a_perfect_score_has_an_honest_lower_limit(m: int, n: int) -> None:
    y = np.repeat([True, False], [m, n])
    found = discrimination(y.astype(float), y, settings=Bootstrap(resamples=100))
    low = found.auc_delong.low
    assert (found.auc_delong.value, found.auc_delong.high) == (1, 1)
    assert 0 < low < 1
    spread = low * (1 - low) / (m * n) * (1 + ((m + n) / 2 - 1) * ((1 - low) / (2 - low) + low / (1 + low)))
    assert 1 - low == pytest.approx(1.959964 * np.sqrt(spread), rel=1e-5)
    reverse = discrimination(-y.astype(float), y, settings=Bootstrap(resamples=100)).auc_delong
    assert (reverse.value, reverse.low) == (0, 0)
    assert reverse.high == pytest.approx(1 - low)
    assert np.isnan(found.auc.low), "the bootstrap cannot see beyond perfection, and says so"
    assert "do not differ" in found.auc.note


def test_perfect_limit_shrinks_with_more_slides() -> None:
    lows = [
        discrimination(y.astype(float), y, settings=FEW).auc_delong.low
        for y in (np.arange(n) < n // 2 for n in (6, 30, 300))
    ]
    assert lows[0] < 0.7 < lows[1] < 0.95 < lows[2]


@pytest.mark.parametrize(
    ("f", "y", "note"),
    [([], [], "no slides"), ([1, 2], [1, 1], "no benign slide"), ([1.0], [0], "no malignant slide")],
)
def test_one_kind_is_unknown(f: list[float], y: list[int], note: str) -> None:
    found = discrimination(f, y)
    for estimate in (found.auc, found.ap, found.auc_delong):
        assert np.isnan([estimate.value, estimate.low, estimate.high]).all()
        assert (estimate.note, estimate.n) == (note, len(f))


def test_equal_scores_order_nothing() -> None:
    found = discrimination([5.0] * 6, [1, 0, 0, 1, 0, 0], settings=FEW)
    assert (found.auc.value, found.auc_delong.value) == (0.5, 0.5)
    assert found.ap.value == pytest.approx(1 / 3)
    assert np.isnan([found.auc.low, found.auc_delong.low]).all()
    assert "all scores are equal" in found.auc_delong.note


def test_one_malignant_patient_has_no_delong_interval() -> None:
    found = discrimination([1, 0, 2, 3], [1, 0, 0, 0], settings=FEW).auc_delong
    assert found.value == pytest.approx(1 / 3)
    assert np.isnan(found.low)
    assert "fewer than two patients" in found.note


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_scores_that_are_no_numbers_are_refused(bad: float) -> None:
    with pytest.raises(TableError, match="number 1 is"):
        discrimination([0, bad], [0, 1])
    with pytest.raises(TableError, match=r"mine: 1 problem\n.*slide a is"):
        delong_pairs({"mine": {"a": bad}, "yours": {"a": 0}}, {"a": True})


def test_by_slide_leaves_out_what_is_unknown() -> None:
    found = discrimination_of({"a": 2, "b": 1, "c": 9, "d": 0}, {"a": True, "b": False, "c": None}, {"a": "p"}, FEW)
    assert (found.auc.value, found.malignant, found.benign) == (1, 1, 1)
    with pytest.raises(ConfigError, match="level 95"):
        delong_pairs({}, {}, level=95)


def test_folds_by_hand() -> None:
    f: list[Any] = [1, 0, 0, 1, 2, 1, 3]
    y = [1, 0, 1, 0, 1, 0, 1]
    found = over_folds(f, y, [0, 0, 1, 1, 2, 2, 3], "auc")
    assert {k: v for k, v in found.values.items() if k != "3"} == {"0": 1, "1": 0, "2": 1}
    assert np.isnan(found.values["3"])
    assert found.mean == pytest.approx(2 / 3)
    assert found.sd == pytest.approx(np.sqrt(1 / 3))
    assert (found.note, found.n) == ("1 of 4 folds lack a kind", 7)
    assert over_folds(f, y, [0] * 7, "ap").mean == pytest.approx(average_precision_score(y, f))
    assert np.isnan(over_folds(f, y, [0] * 7, "auc").sd)
    assert over_folds([], [], [], "auc").note == "no slides"
    with pytest.raises(TableError, match="2 for 7 slides"):
        over_folds(f, y, [0, 1], "auc")
