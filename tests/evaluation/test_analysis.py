"""The whole analysis: its numbers against scikit-learn and plain counts, and its gaps where the data have them."""

import json
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from sklearn.metrics import (
    average_precision_score,
    brier_score_loss,
    cohen_kappa_score,
    confusion_matrix,
    log_loss,
    roc_auc_score,
)
from tests.evaluation.by_hand import auc_covariance, logit_interval, middle, resamples
from tests.evaluation.simulated import CUTS, FOLDS, RIVAL, simulated

from aspirate.core.predictions import Prediction
from aspirate.evaluation.analysis import Analysis, ReadersAnalysis, analyse
from aspirate.evaluation.material import PROPOSED, EvaluateSettings, Material
from aspirate.evaluation.metrics import as_json
from aspirate.evaluation.readers import Reader

SETTINGS = EvaluateSettings(resamples=100, benign_risk=0.1, malignant_risk=0.8)


@cache
def found() -> Analysis:
    return analyse(simulated(), SETTINGS)


def _readers() -> ReadersAnalysis:
    readers = found().readers
    assert readers is not None
    return readers


def rows(method: str = PROPOSED) -> list[Prediction]:
    return [r for r in simulated().predictions if r.method == method and r.status == "ok"]


def test_ranking_over_folds_and_all_folds_together() -> None:
    for method in (PROPOSED, RIVAL):
        own, result = rows(method), found().method(method)
        y, p = [r.malignant for r in own], [r.probability for r in own]
        assert result.pooled.auc.value == pytest.approx(roc_auc_score(y, p))
        assert result.pooled.ap.value == pytest.approx(average_precision_score(y, p))
        by_fold = []
        for fold in range(FOLDS):
            part = [r for r in own if r.fold == str(fold)]
            by_fold.append(roc_auc_score([r.malignant for r in part], [r.score for r in part]))
        assert result.auc_folds.mean == pytest.approx(np.mean(by_fold))
        assert result.auc_folds.sd == pytest.approx(np.std(by_fold, ddof=1))
    assert "bootstrap of 60 patients" in found().method(RIVAL).pooled.auc.method
    assert found().method(PROPOSED).counts.inadequate == 1
    assert (found().method(PROPOSED).counts.used, found().method(RIVAL).counts.used) == (119, 120)


def test_comparison_uses_the_slides_that_both_have() -> None:
    (gain,) = found().against_reference
    shared = {r.slide_id for r in rows()}
    rival = [r for r in rows(RIVAL) if r.slide_id in shared]
    aucs = [roc_auc_score([r.malignant for r in part], [r.probability for r in part]) for part in (rows(), rival)]
    assert gain.auc_delong.estimate.value == pytest.approx(aucs[0] - aucs[1])
    assert gain.auc.estimate.n == 119 and (gain.auc.first, gain.auc.second) == (PROPOSED, RIVAL)
    assert len(found().pairs) == 1


def test_probabilities_before_and_after() -> None:
    own, result = rows(), found().method(PROPOSED)
    y = np.array([bool(r.malignant) for r in own])
    before = 1 / (1 + np.exp(-np.array([r.score or 0 for r in own])))
    after = [r.probability for r in own]
    assert result.before is not None and result.after is not None
    assert result.before.brier.value == pytest.approx(brier_score_loss(y, before))
    assert result.after.brier.value == pytest.approx(brier_score_loss(y, after))
    assert result.after.log_loss.value == pytest.approx(log_loss(y, after))
    benefit = found().decision_curve[19]
    called = np.array(after) >= 0.2
    assert benefit.threshold == 0.2
    assert benefit.method == pytest.approx(((called & y).sum() - (called & ~y).sum() * 0.2 / 0.8) / len(y))


def test_subgroups_are_the_same_figures_on_fewer_slides() -> None:
    sites = {entry.slide_id: entry.site for entry in simulated().entries}
    groups = {group.name: group.discrimination for group in found().method(PROPOSED).subgroups}
    assert list(groups) == ["TBS 3–5", "TBS 3", "TBS 4", "TBS 5", "A", "B"]
    for name, part in (
        ("TBS 3–5", [r for r in rows() if r.bethesda in (3, 4, 5)]),
        ("TBS 4", [r for r in rows() if r.bethesda == 4]),
        ("B", [r for r in rows() if sites[r.slide_id] == "B"]),
    ):
        y, p = [r.malignant for r in part], [r.probability for r in part]
        assert groups[name].auc.value == pytest.approx(roc_auc_score(y, p))
        assert groups[name].ap.value == pytest.approx(average_precision_score(y, p))
        assert groups[name].malignant + groups[name].benign == len(part)


def test_decisions_of_subgroups_by_counting() -> None:
    own = found().method(PROPOSED)
    assert own.operating is not None
    (group,) = (group for group in own.subgroups if group.name == "TBS 3–5")
    part = [r for r in rows() if r.bethesda in (3, 4, 5)]
    calls = [own.operating.calls[r.slide_id] for r in part]
    benign = [bool(r.malignant) for r, call in zip(part, calls, strict=True) if call == -1]
    assert group.decisions is not None
    assert group.decisions.decided.value == pytest.approx(np.mean([call != 0 for call in calls]))
    assert (group.decisions.benign_risk.n, group.decisions.decided.n) == (len(benign), len(part))
    assert group.decisions.benign_risk.value == pytest.approx(np.mean(benign), nan_ok=True)


def test_intervals_of_subgroups_know_their_patients() -> None:
    """DeLong's pair by pair of patients, the bootstrap's resample by resample, each on the subgroup alone."""
    entries = {entry.slide_id: entry for entry in simulated().entries}
    groups = {group.name: group.discrimination for group in found().method(PROPOSED).subgroups}
    for name, part in (
        ("TBS 3–5", [r for r in rows() if r.bethesda in (3, 4, 5)]),
        ("TBS 4", [r for r in rows() if r.bethesda == 4]),
        ("A", [r for r in rows() if entries[r.slide_id].site == "A"]),
    ):
        y, p = np.array([bool(r.malignant) for r in part]), np.array([r.probability or 0 for r in part])
        patients = [entries[r.slide_id].patient for r in part]
        (auc,), covariance = auc_covariance([p], y, patients)
        own = groups[name]
        expected = logit_interval(auc, covariance[0, 0])
        assert (own.auc_delong.low, own.auc_delong.high) == pytest.approx(expected, rel=1e-9)
        assert own.auc_delong.value == pytest.approx(roc_auc_score(y, p)) and own.auc_delong.n == len(part)
        drawn = list(resamples(patients, SETTINGS.resamples))
        aucs, aps = ([count(y[i], p[i]) for i in drawn] for count in (roc_auc_score, average_precision_score))
        assert (own.auc.low, own.auc.high) == pytest.approx(middle(aucs), rel=1e-9)
        assert (own.ap.low, own.ap.high) == pytest.approx(middle(aps), rel=1e-9)


def test_the_interval_of_the_log_loss_knows_its_patients() -> None:
    patients = {entry.slide_id: entry.patient for entry in simulated().entries}
    y, p = np.array([bool(r.malignant) for r in rows()]), np.array([r.probability or 0 for r in rows()])
    drawn = resamples([patients[r.slide_id] for r in rows()], SETTINGS.resamples)
    expected = middle([log_loss(y[i], p[i]) for i in drawn])
    after = found().method(PROPOSED).after
    assert after is not None
    assert (after.log_loss.low, after.log_loss.high) == pytest.approx(expected, rel=1e-9)


def test_tbs_agreement_and_rates() -> None:
    own, result = rows(), found().method(PROPOSED)
    said, reported = [r.predicted_bethesda for r in own], [r.bethesda for r in own]
    assert result.kappa.value == pytest.approx(cohen_kappa_score(said, reported, weights="quadratic"))
    assert (result.confusion.counts == confusion_matrix(said, reported, labels=[2, 3, 4, 5, 6])).all()
    y, called = np.array([bool(r.malignant) for r in own]), np.array([bool(r.predicted_malignant) for r in own])
    assert result.own_rates is not None
    assert result.own_rates.sensitivity.value == pytest.approx(called[y].mean())
    assert result.own_rates.specificity.value == pytest.approx((~called[~y]).mean())
    assert result.own_rates.ppv.value == pytest.approx(y[called].mean()), "at the prevalence found"


def test_operating_points_come_from_validation_slides_of_each_fold() -> None:
    operating = found().method(PROPOSED).operating
    assert operating is not None and set(operating.thresholds) == {str(fold) for fold in range(FOLDS)}
    validation = [r for r in simulated().validation if r.method == PROPOSED]
    for fold, thresholds in operating.thresholds.items():
        benign_to, malignant_from = thresholds.benign.threshold, thresholds.malignant.threshold
        assert benign_to is not None and malignant_from is not None
        f = np.array([r.score for r in validation if r.fold == fold], float)
        y = np.array([bool(r.malignant) for r in validation if r.fold == fold])
        assert y[f <= benign_to].mean() <= 0.1 and y[f >= malignant_from].mean() >= 0.8
        for r in (r for r in rows() if r.fold == fold):
            expected = 1 if (r.score or 0) >= malignant_from else -1 if (r.score or 0) <= benign_to else 0
            assert operating.calls[r.slide_id] == expected
    benign = [bool(r.malignant) for r in rows() if operating.calls[r.slide_id] == -1]
    assert operating.decisions.benign_risk.value == pytest.approx(np.mean(benign))
    assert operating.decisions.benign_risk.n == len(benign)


def test_conformal_sets_are_fitted_where_cuts_are_known() -> None:
    sets = found().method(PROPOSED).sets
    assert sets is not None and found().method(RIVAL).sets is None
    assert set(sets.ranges) == {r.slide_id for r in rows()}
    inside = [low <= (r.bethesda or 0) <= high for r in rows() for low, high in (sets.ranges[r.slide_id],)]
    assert sets.coverage.covered.value == pytest.approx(np.mean(inside))
    for r in rows():  # the most probable category is in every set
        edges = np.array([-np.inf, *CUTS, np.inf])
        p = np.diff(1 / (1 + np.exp(-(edges - (r.score or 0)))))
        low, high = sets.ranges[r.slide_id]
        assert low <= p.argmax() + 2 <= high


def test_readers_beside_and_with_the_reference() -> None:
    readers = found().readers
    assert readers is not None
    read = {e.slide_id: e.readers["r0"] for e in simulated().entries if e.readers}
    both = [r for r in rows() if r.slide_id in read]
    first = readers.comparisons[0]
    assert first.own.auc.n == len(both) == 79
    assert first.own.auc.value == pytest.approx(
        roc_auc_score([r.malignant for r in both], [read[r.slide_id] for r in both])
    )
    assert first.algorithm.auc.value == pytest.approx(
        roc_auc_score([r.malignant for r in both], [r.probability for r in both])
    )
    assert len(readers.combinations) == 4 and len(readers.agreements) == 3
    assert readers.curves["algorithm"].n == 79 and readers.curves["r1"].n == 80


def changed(**values: object) -> Material:
    return replace(simulated(), predictions=tuple(replace(r, **values) for r in simulated().predictions))  # type: ignore[arg-type]


def test_one_class_only_is_a_gap_and_no_number() -> None:
    material = simulated()
    kept = {e.slide_id for e in material.entries if e.malignant}
    one = replace(material, predictions=tuple(r for r in material.predictions if r.slide_id in kept))
    analysis = analyse(one, SETTINGS)
    own = analysis.method(PROPOSED)
    assert np.isnan(own.pooled.auc.value) and own.pooled.auc.note == "no benign slide"
    assert own.operating is None and own.own_rates is None and analysis.decision_curve == ()
    assert any("no benign slide" in note for note in analysis.notes)
    assert own.after is not None and own.after.brier.value > 0, "Brier needs no second kind"


def test_equal_scores_tell_nothing() -> None:
    analysis = analyse(changed(score=1.0, probability=0.5), SETTINGS)
    own = analysis.method(RIVAL).pooled
    assert own.auc.value == 0.5 and np.isnan(own.auc.low) and np.isnan(own.auc_delong.low)
    assert analysis.against_reference[0].auc_delong.p == 1


def test_no_tbs_no_validation_no_cohort() -> None:
    bare = Material(tuple(replace(r, bethesda=None, predicted_bethesda=None) for r in simulated().predictions))
    analysis = analyse(bare, SETTINGS)
    own = analysis.method(PROPOSED)
    assert own.pooled.auc.value == pytest.approx(found().method(PROPOSED).pooled.auc.value)
    assert own.kappa.n == 0 and own.sets is None and own.operating is None and own.subgroups == ()
    assert analysis.readers is None and analysis.ppi is None and analysis.slides.patients is None
    for gap in ("no slide has a reported TBS", "no validation predictions", "no readers", "patients are not known"):
        assert any(gap in note for note in analysis.notes), gap


def test_scores_of_several_folds_without_probabilities_are_not_pooled() -> None:
    analysis = analyse(changed(probability=None), SETTINGS)
    own = analysis.method(RIVAL)
    assert own.pooled_by == "nothing" and np.isnan(own.pooled.auc.value) and "not on one scale" in own.pooled.auc.note
    assert own.auc_folds.mean == pytest.approx(found().method(RIVAL).auc_folds.mean)
    assert analysis.pairs == () and own.after is None and own.before is not None
    assert any("scores of different folds are not on one scale" in note for note in analysis.notes)
    assert analysis.readers is not None
    for alone, beside in zip(analysis.readers.comparisons, _readers().comparisons, strict=True):
        assert np.isfinite(alone.own.auc.value) and np.isnan(alone.algorithm.auc.value)
        assert alone.own.auc.n >= beside.own.auc.n
    one_fold = replace(simulated(), predictions=tuple(replace(r, fold="", probability=None) for r in rows(RIVAL)))
    by_score = analyse(replace(one_fold, validation=()), SETTINGS).method(RIVAL)
    assert by_score.pooled_by == "score"
    assert by_score.pooled.auc.value == pytest.approx(
        roc_auc_score([r.malignant for r in rows(RIVAL)], [r.score for r in rows(RIVAL)])
    )


def test_a_reader_with_one_slide_and_one_of_slides_nobody_predicted() -> None:
    readers = (Reader("one", {"s003": 4}), Reader("else", {"x": 2, "y": 6}, ("s001",)))
    analysis = analyse(replace(simulated(), readers=readers), SETTINGS)
    assert analysis.readers is not None
    assert all(np.isnan(one.own.auc.value) for one in analysis.readers.comparisons)
    said = [note for note in analysis.notes if note.startswith("reader ")]
    assert said == [
        "reader one read 1 slide that was predicted: nothing can be compared",
        "reader else read no slide that was predicted: nothing can be compared",
        "reader else read slides that were not predicted (2): left out",
        "reader else read slides as TBS 1 (1): left out",
    ]


def test_as_json_is_the_same_each_time_and_holds_no_nan() -> None:
    first, second = (json.dumps(as_json(analyse(simulated(40), SETTINGS)), allow_nan=False) for _ in range(2))
    assert first == second
    own = next(m for m in json.loads(first)["methods"] if m["name"] == PROPOSED)
    assert set(own["pooled"]["auc"]) == {"value", "low", "high", "n", "method", "note", "dropped"}
