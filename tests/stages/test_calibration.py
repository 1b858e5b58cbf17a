import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_curve

from aspirate.stages.calibration import decision_threshold, fit_calibration


def simulated(n: int, slope: float, offset: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    f = rng.normal(0.3, 1.5, n)
    return f, rng.random(n) < 1 / (1 + np.exp(-(slope * f + offset)))


def test_with_many_slides_it_is_plain_logistic_regression() -> None:
    f, y = simulated(20_000, slope=1.7, offset=-0.8)
    found = fit_calibration(f, y)
    reference = LogisticRegression(C=1e9).fit(f[:, None], y)
    assert found.slope == pytest.approx(float(reference.coef_[0, 0]), rel=0.01)
    assert found.offset == pytest.approx(float(reference.intercept_[0]), abs=0.01)
    assert found.slides == 20_000 and found.malignant == y.sum()


def test_few_perfectly_separated_slides_give_no_cliff() -> None:
    f = np.array([-3.0, -2.5, -2.0, 2.0, 2.5])
    p = fit_calibration(f, f > 0).probability(f)
    assert ((p > 0.02) & (p < 0.98)).all()
    assert (np.diff(p) >= 0).all()


def test_no_probability_beyond_what_the_slides_can_show() -> None:
    found = fit_calibration([-1.0, -0.5, -0.4, 0.1, 0.6], [False, False, False, True, True])
    assert found.limits == (1 / 5, 3 / 4)
    assert found.probability([-100.0, 100.0]).tolist() == [1 / 5, 3 / 4]


def test_order_is_never_turned_round() -> None:
    f = np.array([1.0, 2.0, 3.0, 4.0])
    assert fit_calibration(f, np.array([True, True, False, False])).slope > 0


def test_scale_of_the_score_does_not_matter() -> None:
    f, y = simulated(40, 1.0, 0.0)
    np.testing.assert_allclose(
        fit_calibration(f, y).probability(f), fit_calibration(100 * f, y).probability(100 * f), atol=2e-3
    )


def test_few_slides_are_calibrated_better_than_without_a_prior() -> None:
    """Mean log loss on fresh slides over many small calibrations."""
    test_f, test_y = simulated(4000, 1.0, -0.5, seed=99)
    ours: list[float] = []
    plain: list[float] = []
    for seed in range(40):
        f, y = simulated(12, 1.0, -0.5, seed)
        if not 1 < y.sum() < 11:
            continue
        reference = LogisticRegression(C=1e6).fit(f[:, None], y).predict_proba(test_f[:, None])[:, 1]
        for losses, p in ((ours, fit_calibration(f, y).probability(test_f)), (plain, reference)):
            p = np.clip(p, 1e-9, 1 - 1e-9)
            losses.append(-np.where(test_y, np.log(p), np.log(1 - p)).mean())
    assert np.mean(ours) < np.mean(plain)


def test_one_class_cannot_be_calibrated() -> None:
    with pytest.raises(ValueError, match="0 malignant and 3 benign"):
        fit_calibration([1.0, 2.0, 3.0], [False, False, False])


def test_threshold_has_the_highest_youden_index() -> None:
    f, y = simulated(200, 1.2, 0.0)
    beta = decision_threshold(f, y)
    called = f > beta
    false_positive, true_positive, _ = roc_curve(y, f)
    assert called[y].mean() - called[~y].mean() == pytest.approx((true_positive - false_positive).max())
    assert decision_threshold([1.0, 1.0], [True, False]) == 1.0
