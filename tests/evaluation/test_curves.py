"""ROC and precision–recall points against scikit-learn, with many equal scores."""

import numpy as np
import pytest
from sklearn.metrics import auc, average_precision_score, precision_recall_curve, roc_auc_score, roc_curve

from aspirate.core.errors import TableError
from aspirate.evaluation.curves import curves


@pytest.mark.parametrize("levels", [3, 12, 1000])
def test_points_are_those_of_scikit_learn(levels: int) -> None:
    rng = np.random.default_rng(levels)
    y = rng.random(80) < 0.3
    f = rng.integers(0, levels, 80) + 0.4 * levels * y
    found = curves(f, y)
    fpr, tpr, thresholds = roc_curve(y, f, drop_intermediate=False)
    assert found.false_positive_rate == pytest.approx(fpr[1:])
    assert found.sensitivity == pytest.approx(tpr[1:])
    assert found.thresholds == pytest.approx(thresholds[1:])
    precision, recall, lowest_first = precision_recall_curve(y, f)
    assert found.thresholds == pytest.approx(lowest_first[::-1])
    assert found.precision == pytest.approx(precision[:-1][::-1])
    assert found.sensitivity == pytest.approx(recall[:-1][::-1])
    assert (found.n, found.malignant) == (80, int(y.sum()))


def test_areas_under_the_points_are_auc_and_ap() -> None:
    rng = np.random.default_rng(7)
    y = rng.random(60) < 0.4
    f = np.round(rng.normal(y, 1.0), 1)
    found = curves(f, y)
    assert auc((0, *found.false_positive_rate), (0, *found.sensitivity)) == pytest.approx(roc_auc_score(y, f))
    steps = np.diff((0, *found.sensitivity)) @ np.array(found.precision)
    assert steps == pytest.approx(average_precision_score(y, f))


def test_one_kind_or_none_has_no_curve_and_equal_scores_have_one_point() -> None:
    assert curves([1, 2, 3], [1, 1, 1]).thresholds == () == curves([], []).thresholds
    flat = curves([2, 2, 2, 2], [0, 1, 0, 0])
    assert (flat.false_positive_rate, flat.sensitivity, flat.precision) == ((1,), (1,), (0.25,))
    with pytest.raises(TableError, match="number 1 is nan"):
        curves([1, float("nan")], [0, 1])
