"""Labels behave as published, and nothing else knows them."""

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from aspirate.synth.model import P_CATEGORY, CohortLabels, draw_labels, group_sizes_px0, mean_oracle_auc
from aspirate.synth.palette import draw_scanner
from aspirate.synth.plan import draw_appearance
from aspirate.synth.settings import SynthSettings

PUBLISHED = {  # (malignant, TBS): normal, atypical, malignant groups
    (1, 2): (15, 30, 0),
    (1, 3): (20, 32, 0),
    (1, 4): (0, 51, 100),
    (1, 5): (4, 28, 28),
    (1, 6): (4, 110, 1027),
    (0, 2): (1234, 328, 0),
    (0, 3): (281, 373, 46),
    (0, 4): (41, 619, 38),
    (0, 5): (4, 74, 0),
}


@pytest.fixture(scope="module")
def many() -> CohortLabels:
    return draw_labels(SynthSettings(slides=20_000), np.random.default_rng(1))


def test_categories_follow_the_table_and_the_clinic(many: CohortLabels) -> None:
    assert many.malignant.mean() == pytest.approx(0.27, abs=0.01)
    for y in (0, 1):
        drawn = many.bethesda[many.malignant == bool(y)]
        shares = [(drawn == tbs).mean() for tbs in range(2, 7)]
        assert shares == pytest.approx(P_CATEGORY[y], abs=0.015)
    assert many.malignant[many.bethesda == 2].mean() < 0.03
    assert many.malignant[many.bethesda == 6].all()
    risk = [many.malignant[many.bethesda == tbs].mean() for tbs in range(2, 7)]
    assert risk == sorted(risk)


def test_grades_follow_the_published_table(many: CohortLabels) -> None:
    for (y, tbs), counts in PUBLISHED.items():
        slides = np.flatnonzero((many.malignant == bool(y)) & (many.bethesda == tbs))
        shares = np.mean([np.bincount(many.grades[i], minlength=3) / len(many.grades[i]) for i in slides], axis=0)
        expected = np.array(counts) / sum(counts)
        error = np.sqrt(expected * (1 - expected) / len(slides))  # slides differ by at most a full share
        assert (np.abs(shares - expected) <= 3.5 * error + 1e-12).all(), (y, tbs)


def test_slides_are_overdispersed_as_a_dirichlet_multinomial() -> None:
    """Var(share) = p (1 − p) / n · (n + κ) / (1 + κ), with n groups in every slide."""
    settings = SynthSettings(slides=20_000, informative=(1e-4, 1e-4), min_groups=10, overdispersion=3.0)
    labels = draw_labels(settings, np.random.default_rng(2))
    chosen = [g for g, y, s in zip(labels.grades, labels.malignant, labels.bethesda, strict=True) if not y and s == 2]
    chosen = [g for g in chosen if len(g) == 10]
    p, n, kappa = 328 / 1562, 10, 3.0
    variance = np.var([(g == 1).mean() for g in chosen])
    assert variance == pytest.approx(p * (1 - p) / n * (n + kappa) / (1 + kappa), rel=0.06)


def test_the_oracle_is_good_but_not_perfect() -> None:
    settings = SynthSettings()
    values = []
    for seed in range(200):
        labels = draw_labels(settings, np.random.default_rng([seed, 77]))
        score = [((g == 2).sum() + 0.25 * (g == 1).sum()) / len(g) for g in labels.grades]
        values.append(roc_auc_score(labels.malignant, score))
    assert 0.92 < np.mean(values) < 0.95
    assert mean_oracle_auc(settings) == pytest.approx(np.mean(values), abs=0.012)


def test_readers_are_as_good_as_published_and_differ(many: CohortLabels) -> None:
    aucs = [roc_auc_score(many.malignant, reader) for reader in many.readers.T]
    assert all(0.90 < value < 0.93 for value in aucs)
    assert set(np.unique(many.readers)) == {2, 3, 4, 5, 6}
    columns = np.column_stack([many.readers, many.bethesda])[~many.malignant]
    correlation = np.asarray(np.corrcoef(columns.T))[np.triu_indices(4, k=1)]
    assert (correlation > 0.2).all()
    assert (correlation < 0.9).all()


def test_patients_keep_their_diagnosis_and_site() -> None:
    labels = draw_labels(SynthSettings(slides=300, patients=120), np.random.default_rng(3))
    assert sorted(set(labels.patient)) == list(range(120))
    for patient in range(120):
        own = labels.patient == patient
        assert len(set(labels.malignant[own])) == 1
        assert len(set(labels.site[own])) == 1


def test_informative_area_keeps_its_range_on_a_large_slide() -> None:
    settings = SynthSettings(size=(40_000, 25_000))
    rng = np.random.default_rng(4)
    sizes = [group_sizes_px0(settings, False, rng) for _ in range(400)]
    shares = np.array([box.prod(axis=1).sum() / 1e9 for box in sizes])
    assert shares.min() > 0.9e-4
    assert shares.max() < 2.1e-2
    assert np.quantile(shares, [0.25, 0.75]) == pytest.approx([4e-4, 5.3e-3], rel=0.5)  # log-uniform
    assert min(len(box) for box in sizes) >= 6


def test_inadequate_slides_have_too_few_groups_and_no_reading() -> None:
    labels = draw_labels(SynthSettings(slides=50, inadequate=0.2), np.random.default_rng(5))
    few = labels.bethesda == 1
    assert few.sum() == 10
    assert all((len(g) < 6) == bool(f) for g, f in zip(labels.grades, few, strict=True))
    assert (labels.readers[few] == 0).all()
    assert (labels.readers[~few] >= 2).all()


def _nuisance(labels: CohortLabels, seed: int) -> NDArray[np.float64]:
    """All that is drawn of a slide beside its grades: groups' count and sizes, site, stain, scanner, look."""
    scanners = [draw_scanner(np.random.default_rng([seed, site]), site) for site in range(3)]
    rows = []
    for index, (boxes, site) in enumerate(zip(labels.boxes_px0, labels.site, strict=True)):
        look = draw_appearance(scanners[site], np.random.default_rng([seed, 9, index]))
        area = boxes.prod(axis=1)
        sizes = [len(boxes), area.sum(), area.max(), area.min(), *boxes.mean(axis=0)]
        rows.append([*sizes, site, labels.annotated[index], *look.numbers()])
    return np.array(rows, dtype=np.float64)


def test_nothing_but_grades_gives_the_label_away() -> None:
    """2,000 slides: the standard error of a chance AUC is about 0.014, so 0.045 is three of them."""
    labels = draw_labels(SynthSettings(slides=2000), np.random.default_rng(6))
    features = _nuisance(labels, seed=6)
    for target in (labels.malignant, labels.bethesda >= 4):
        for classifier in (
            make_pipeline(StandardScaler(), LogisticRegression(C=0.1)),
            RandomForestClassifier(60, min_samples_leaf=10, random_state=0),
        ):
            guess = cross_val_predict(classifier, features, target, cv=5, method="predict_proba")[:, 1]
            assert abs(roc_auc_score(target, guess) - 0.5) < 0.045
    leaky = np.column_stack([features, labels.oracle_score])
    guess = cross_val_predict(
        make_pipeline(StandardScaler(), LogisticRegression(C=0.1)),
        leaky,
        labels.malignant,
        cv=5,
        method="predict_proba",
    )[:, 1]
    assert roc_auc_score(labels.malignant, guess) > 0.85  # the check would see a leak
