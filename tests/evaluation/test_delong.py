"""The variance of AUCs with slides grouped by patient, pair by pair of patients; Newcombe's limit from its model."""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.optimize import bisect
from scipy.stats import binomtest, norm
from tests.evaluation.by_hand import Floats, auc_covariance, logit_interval

from aspirate.evaluation.delong import delong, delong_difference, delong_interval
from aspirate.evaluation.discrimination import delong_pairs, discrimination


def cohort(seed: int, patients: int = 30) -> tuple[Floats, NDArray[np.bool_], NDArray[np.intp]]:
    """Two methods on one to four slides a patient; some patients have slides of both kinds, some scores are equal."""
    rng = np.random.default_rng(seed)
    whose = np.repeat(np.arange(patients), rng.integers(1, 5, patients))
    y = (rng.random(patients) < 0.4)[whose] ^ (rng.random(len(whose)) < 0.15)
    shared = rng.normal(size=patients)[whose] + 1.2 * y
    return np.round(shared + rng.normal(size=(2, len(whose))) * [[0.6], [1.2]], 1), y, whose


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_grouped_covariance_is_that_of_all_pairs_of_patients(seed: int) -> None:
    f, y, whose = cohort(seed)
    both = [patient for patient in set(whose) if 0 < y[whose == patient].mean() < 1]
    assert len(both) >= 3 and len(set(whose)) < len(y), "patients that link the kinds, and that have many slides"
    aucs, expected = auc_covariance(list(f), y, whose.tolist())
    found = delong(f, y, whose)
    assert found.aucs == pytest.approx(aucs, rel=1e-9)
    assert found.covariance == pytest.approx(expected, rel=1e-9)
    alone = delong(f[:1], y, whose)
    assert alone.covariance[0, 0] == pytest.approx(expected[0, 0], rel=1e-9)
    assert abs(expected[0, 0] / delong(f[:1], y, np.arange(len(y))).covariance[0, 0] - 1) > 0.1, "grouping matters"

    one = delong_interval(found, 0.9, which=1)
    assert (one.low, one.high) == pytest.approx(logit_interval(aucs[1], expected[1, 1], 0.9), rel=1e-9)
    gap = aucs[0] - aucs[1]
    sd = np.sqrt(expected[0, 0] + expected[1, 1] - 2 * expected[0, 1])
    difference, p = delong_difference(found, 0.9)
    half = 1.6448536269514722 * sd
    assert (difference.value, difference.low, difference.high) == pytest.approx((gap, gap - half, gap + half), rel=1e-9)
    assert p == pytest.approx(2 * norm.cdf(-abs(gap) / sd), rel=1e-9)


def test_patients_reach_the_intervals_that_are_reported() -> None:
    f, y, whose = cohort(3)
    slides, names = [f"s{i:03d}" for i in range(len(y))], [f"p{patient}" for patient in whose]
    aucs, covariance = auc_covariance(list(f), y, names)
    own = discrimination(f[0], y, names).auc_delong
    assert (own.low, own.high) == pytest.approx(logit_interval(aucs[0], covariance[0, 0]), rel=1e-9)
    scores = {name: dict(zip(slides, row.tolist(), strict=True)) for name, row in zip("ab", f, strict=True)}
    truth, patients = dict(zip(slides, y.tolist(), strict=True)), dict(zip(slides, names, strict=True))
    (pair,) = delong_pairs(scores, truth, patients)
    sd = np.sqrt(covariance[0, 0] + covariance[1, 1] - 2 * covariance[0, 1])
    assert pair.p == pytest.approx(2 * norm.cdf(-abs(aucs[0] - aucs[1]) / sd), rel=1e-9)


def test_slides_read_thrice_are_worth_one() -> None:
    """Copies of a patient's slides change neither AUC nor variance: DeLong's own (1988) of the slides read once."""
    rng = np.random.default_rng(4)
    y = rng.random(40) < 0.4
    f = np.round(rng.normal(size=(2, 40)) + y, 1)
    once = delong(f, y, np.arange(40))
    thrice = delong(np.tile(f, 3), np.tile(y, 3), np.tile(np.arange(40), 3))
    assert thrice.aucs == pytest.approx(once.aucs, rel=1e-12)
    assert thrice.covariance == pytest.approx(once.covariance, rel=1e-9)
    positives, negatives = f[0][y], f[0][~y]
    won = (positives[:, None] > negatives) + (positives[:, None] == negatives) / 2
    own = won.mean(1).var(ddof=1) / len(positives) + won.mean(0).var(ddof=1) / len(negatives)
    assert once.covariance[0, 0] == pytest.approx(own, rel=1e-9)


def perfect(m: int, n: int, slides: int = 1, level: float = 0.95) -> float:
    """The lower limit of an AUC of 1 between m positive and n negative patients."""
    y = np.repeat(np.arange(m + n) < m, slides)
    found = delong_interval(delong(y.astype(float)[None], y, np.repeat(np.arange(m + n), slides)), level)
    assert (found.value, found.high) == (1, 1)
    assert found.method == f"Newcombe's method 5, {level:.4g}"
    return found.low


def exponential_variance(theta: float, m: float, n: float, cells: float) -> float:
    """Of an AUC whose scores are exponential (Hanley and McNeil 1982), by integrals over the share above a score."""
    rate = theta / (1 - theta)  # of the negatives; positives have rate 1
    two_positives = quad(lambda negatives_above: negatives_above ** (2 / rate), 0, 1)[0]
    two_negatives = quad(lambda positives_above: (1 - positives_above**rate) ** 2, 0, 1)[0]
    variance = theta * (1 - theta) + (m - 1) * (two_positives - theta**2) + (n - 1) * (two_negatives - theta**2)
    return float(variance / cells)


@pytest.mark.parametrize(("m", "n", "level"), [(2, 2, 0.95), (7, 7, 0.95), (40, 40, 0.9), (3, 20, 0.95), (20, 3, 0.8)])
def test_newcombes_limit_is_where_one_is_z_deviations_away(m: int, n: int, level: float) -> None:
    """Newcombe (2006), method 5, puts the mean number of both kinds into the inner terms; as many of each is H & M."""
    z = norm.isf((1 - level) / 2)
    mean = (m + n) / 2
    expected = bisect(lambda t: 1 - t - z * np.sqrt(exponential_variance(t, mean, mean, m * n)), 0.05, 0.995)
    assert perfect(m, n, level=level) == pytest.approx(expected, rel=1e-7)
    assert perfect(m, n, slides=4, level=level) == pytest.approx(expected, rel=1e-7), "patients count, not slides"


def test_newcombes_limit_of_one_pair_is_wilsons_of_one_in_one() -> None:
    wilson = binomtest(1, 1).proportion_ci(0.95, method="wilson").low
    assert perfect(1, 1) == pytest.approx(wilson, rel=1e-9) == pytest.approx(0.2065, abs=5e-5)
