import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_curve

from aspirate.stages.calibration import decision_threshold, fit_calibration, fit_cuts


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


def graded(n: int, cuts: list[float], slope: float = 1.3, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Scores, and categories as one latent number with logistic noise would give them."""
    rng = np.random.default_rng(seed)
    f = rng.normal(0.2, 1.5, n)
    latent = f + rng.logistic(0, 1 / slope, n)
    return f, 2 + (latent[:, None] > np.array(cuts)).sum(1)


def test_with_many_slides_cuts_are_where_four_logistic_regressions_cross_one_half() -> None:
    true = [-1.0, 0.1, 0.9, 2.2]
    f, bethesda = graded(20_000, true)
    found = fit_cuts(f, bethesda)
    for n, cut in enumerate(found):
        reference = LogisticRegression(C=1e9).fit(f[:, None], bethesda > 2 + n)
        assert cut == pytest.approx(float(-reference.intercept_[0] / reference.coef_[0, 0]), abs=0.04)
    np.testing.assert_allclose(found, true, atol=0.06)


def test_scale_and_place_of_the_score_do_not_matter_to_categories() -> None:
    f, bethesda = graded(60, [-1.0, 0.1, 0.9, 2.2])
    np.testing.assert_allclose(fit_cuts(50 * f - 7, bethesda), 50 * np.array(fit_cuts(f, bethesda)) - 7, atol=0.5)


@pytest.mark.parametrize("missing", [2, 4, 6])
def test_a_category_that_no_slide_has_keeps_its_room(missing: int) -> None:
    f, bethesda = graded(40, [-1.0, 0.1, 0.9, 2.2])
    found = fit_cuts(f[bethesda != missing], bethesda[bethesda != missing])
    assert len(found) == 4 and list(found) == sorted(found) and np.isfinite(found).all()
    assert found[2] - found[1] > 0.05 and found[0] > -8 and found[3] < 8


def test_slides_of_one_category_or_none_give_no_cuts() -> None:
    assert fit_cuts([0.1, 0.2], [3, 3]) == () == fit_cuts([], [])


def test_a_score_that_runs_the_wrong_way_gives_cuts_all_the_same() -> None:
    found = fit_cuts([3.0, 2.0, 1.0, 0.0, -1.0], [2, 3, 4, 5, 6])
    assert list(found) == sorted(found) and np.isfinite(found).all()
