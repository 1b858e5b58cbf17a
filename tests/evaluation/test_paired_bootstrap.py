"""Differences between methods: each resample of patients drawn out, its pairs counted or given to scikit-learn."""

from collections.abc import Callable
from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score, roc_auc_score
from tests.evaluation.by_hand import Floats, middle, resamples

from aspirate.evaluation.discrimination import Measure, bootstrap_pairs
from aspirate.evaluation.estimates import Bootstrap

COUNT, SEED, LEVEL = 270, 5, 0.9
"""More resamples than are held in memory together."""


def pairs_in_order(y: NDArray[np.bool_], f: Floats) -> float:
    """AUC; scikit-learn's, given to each resample, would take seconds."""
    positives, negatives = f[y][:, None], f[~y]
    return float(np.mean((positives > negatives) + (positives == negatives) / 2))


def by_counting(differences: list[float]) -> float:
    """Twice the share at or beyond 0 on the rarer side, the data themselves counted as one resample."""
    below, above = sum(d <= 1e-9 for d in differences), sum(d >= -1e-9 for d in differences)
    return min(1.0, 2 * (min(below, above) + 1) / (len(differences) + 1))


@pytest.mark.parametrize("patients", [40, 5])
@pytest.mark.parametrize(("measure", "reference"), [("auc", pairs_in_order), ("ap", average_precision_score)])
def test_intervals_and_p_values(measure: Measure, reference: Callable[..., float], patients: int) -> None:
    """Three methods, the last without the first patient's slides; of five patients some resamples are of one kind."""
    rng = np.random.default_rng(patients + 1)
    whose = {f"s{i:03d}": f"p{i // 2}" for i in range(2 * patients)}
    truth = {slide: i // 2 % 3 == 1 or i % 11 == 10 for i, slide in enumerate(whose)}
    noise = {"good": 1.2, "fair": 1.8, "poor": 3.0}
    scores = {
        name: {slide: round(1.5 * truth[slide] + rng.normal() * sd, 1) for slide in whose} for name, sd in noise.items()
    }
    scores["poor"] = {slide: f for slide, f in scores["poor"].items() if whose[slide] != "p0"}
    how = Bootstrap(resamples=COUNT, seed=SEED, level=LEVEL)
    found = bootstrap_pairs(scores, truth, measure, whose, settings=how)

    expected_p = []
    for pair, (first, second) in zip(found, combinations(noise, 2), strict=True):
        slides = sorted(scores[first].keys() & scores[second].keys())
        y = np.array([truth[slide] for slide in slides])
        f, g = (np.array([scores[name][slide] for slide in slides]) for name in (first, second))
        drawn = [i for i in resamples([whose[slide] for slide in slides], COUNT, SEED) if 0 < y[i].mean() < 1]
        differences = [reference(y[i], f[i]) - reference(y[i], g[i]) for i in drawn]
        assert (pair.first, pair.second, pair.estimate.n) == (first, second, len(slides))
        assert pair.estimate.value == pytest.approx(reference(y, f) - reference(y, g), rel=1e-9, abs=1e-12)
        assert pairs_in_order(y, f) == pytest.approx(roc_auc_score(y, f), rel=1e-12)
        assert (pair.estimate.low, pair.estimate.high) == pytest.approx(middle(differences, LEVEL), rel=1e-9, abs=1e-12)
        assert pair.estimate.dropped == COUNT - len(drawn)
        expected_p.append(by_counting(differences))
    assert [pair.p for pair in found] == pytest.approx(expected_p, rel=1e-12)
    assert len(set(expected_p)) > 1 and min(expected_p) >= 2 / (COUNT + 1)
    ordered = sorted(expected_p)
    holm = [min(1.0, max((3 - k) * q for k, q in enumerate(ordered) if q <= p)) for p in expected_p]
    assert [pair.p_holm for pair in found] == pytest.approx(holm, rel=1e-12)
    assert any(pair.estimate.dropped for pair in found) == (patients == 5)
