"""From everything known of a set of predictions to everything that can be said of them: one function, one record."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from aspirate.core.labels import TRAINABLE_BETHESDA
from aspirate.core.learning_points import LearningPoint
from aspirate.core.predictions import Prediction
from aspirate.core.progress import Advance, silent
from aspirate.evaluation.curves import Curves, curves
from aspirate.evaluation.estimates import missing_kind
from aspirate.evaluation.material import EvaluateSettings, Material, TileFacts, brought_together
from aspirate.evaluation.method_results import (
    MethodAnalysis,
    MethodResult,
    pooled_scores,
    prevalence_in,
    tbs_of,
    usable,
)
from aspirate.evaluation.operating_points import NetBenefit, decision_curve
from aspirate.evaluation.ppi import AbnormalityTable, SlidePpi, abnormality_table, slide_ppis
from aspirate.evaluation.readers import (
    ALGORITHM,
    Combination,
    Gain,
    PairAgreement,
    Reader,
    ReaderComparison,
    combine_with_readers,
    compare_with_readers,
    gains,
    pair_agreements,
)

DECISION_THRESHOLDS = tuple(round(0.01 * i, 2) for i in range(1, 100))


@dataclass(frozen=True, slots=True)
class Slides:
    """Who is in the test: every slide that any method has a row for."""

    slides: int
    patients: int | None
    """None where nobody said."""
    malignant: int
    benign: int
    unlabelled: int
    by_bethesda: Mapping[str, int]
    by_site: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class ReadersAnalysis:
    """Readers beside the reference method, and both together."""

    comparisons: tuple[ReaderComparison, ...]
    agreements: tuple[PairAgreement, ...]
    combinations: tuple[Combination, ...]
    curves: Mapping[str, Curves]
    """Of each reader on the slides read, and of the algorithm on all that any reader read."""


@dataclass(frozen=True, slots=True)
class PpiAnalysis:
    """PPI by annotations, and by what the reference method says of tiles, which is no truth."""

    marks: AbnormalityTable | None
    annotated: tuple[SlidePpi, ...]
    model: tuple[TileFacts, ...]


@dataclass(frozen=True, slots=True)
class Analysis:
    settings: EvaluateSettings
    reference: str
    slides: Slides
    truth: Mapping[str, bool | None]
    """Malignant or not, by slide."""
    bethesda: Mapping[str, int | None]
    """As reported, by slide."""
    reference_scores: Mapping[str, float]
    """What ranks the reference's slides of all folds."""
    methods: tuple[MethodResult, ...]
    against_reference: tuple[Gain, ...]
    """The reference less each other method; each p is adjusted for all of them."""
    pairs: tuple[Gain, ...]
    """Every method less every later one; each p is adjusted for all pairs."""
    prevalence: float | None
    """What PPV, NPV and net benefit of the reference are for."""
    decision_curve: tuple[NetBenefit, ...]
    """Of the reference."""
    readers: ReadersAnalysis | None
    ppi: PpiAnalysis | None
    stage_1: Mapping[str, Mapping[str, float]]
    """Figures by fold."""
    learning_curve: tuple[LearningPoint, ...]
    """Of the proposed method, by annotations learned from."""
    skipped: Mapping[str, str]
    """Methods that were not run, and why."""
    notes: tuple[str, ...]
    """What is left out, and why."""

    def method(self, name: str) -> MethodResult:
        return next(method for method in self.methods if method.name == name)


def analyse(material: Material, settings: EvaluateSettings, advance: Advance = silent) -> Analysis:
    """`advance` is called once for each method."""
    material = brought_together(material)
    reference = material.reference(settings)
    results = []
    for name in material.methods:
        results.append(MethodAnalysis(name, material, settings).run())
        advance(1)
    own = usable(material.methods[reference])
    against, pairs = _comparisons(material, reference, settings)
    prevalence = prevalence_in(own, settings) if own else None
    analysis = Analysis(
        settings=settings,
        reference=reference,
        slides=_slides(material),
        truth=material.malignant,
        bethesda=material.bethesda,
        reference_scores=pooled_scores(own)[1],
        methods=tuple(results),
        against_reference=against,
        pairs=pairs,
        prevalence=prevalence,
        decision_curve=_decision_curve(own, material.patients, settings),
        readers=_readers(material, reference, settings) if material.readers else None,
        ppi=_ppi(material),
        stage_1=material.stage_1,
        learning_curve=material.learning_curve,
        skipped=material.skipped,
        notes=(),
    )
    return replace(analysis, notes=(*material.notes, *_gaps(analysis, material)))


def _slides(material: Material) -> Slides:
    truth, tbs = material.malignant, material.bethesda
    known = [value for value in truth.values() if value is not None]
    patients = material.patients
    sites = {entry.slide_id: entry.site or "unknown" for entry in material.entries}
    found = sorted({sites[slide] for slide in truth} - {"unknown"}) if sites else []
    return Slides(
        slides=len(truth),
        patients=None if patients is None else len({patients[slide] for slide in truth}),
        malignant=sum(known),
        benign=len(known) - sum(known),
        unlabelled=len(truth) - len(known),
        by_bethesda={f"TBS {c}": sum(value == c for value in tbs.values()) for c in range(1, 7) if c in tbs.values()},
        by_site={name: sum(sites[slide] == name for slide in truth) for name in found},
    )


def _comparisons(
    material: Material, reference: str, settings: EvaluateSettings
) -> tuple[tuple[Gain, ...], tuple[Gain, ...]]:
    """With the reference, and of all pairs; of methods that rank the slides of all folds together."""
    scores = {name: pooled_scores(usable(rows))[1] for name, rows in material.methods.items()}
    ranked = [name for name, own in scores.items() if own]
    truth, patients, how = material.malignant, material.patients, settings.bootstrap
    against = [(reference, name) for name in ranked if name != reference] if reference in ranked else []
    every = list(combinations(ranked, 2))
    return tuple(gains(scores, truth, patients, against, how)), tuple(gains(scores, truth, patients, every, how))


def _decision_curve(
    own: Sequence[Prediction], patients: Mapping[str, str] | None, settings: EvaluateSettings
) -> tuple[NetBenefit, ...]:
    probabilities = [row.probability for row in own if row.probability is not None]
    truth = np.array([bool(row.malignant) for row in own], bool)
    if len(probabilities) < len(own) or missing_kind(truth):
        return ()
    whose = None if patients is None else [patients[row.slide_id] for row in own]
    return decision_curve(probabilities, truth, DECISION_THRESHOLDS, settings.prevalence, whose, settings.bootstrap)


def _readers(material: Material, reference: str, settings: EvaluateSettings) -> ReadersAnalysis:
    own = material.methods[reference]
    scores, categories = pooled_scores(usable(own))[1], tbs_of(own)
    truth, patients, how = material.malignant, material.patients, settings.bootstrap
    readers = [_of_predicted(reader, truth) for reader in material.readers]
    said = {reader.name: reader.categories for reader in readers}
    read = {slide for reader in readers for slide in reader.categories}
    beside = {ALGORITHM: {slide: score for slide, score in scores.items() if slide in read}}
    return ReadersAnalysis(
        comparisons=compare_with_readers(scores, readers, truth, patients, how),
        agreements=pair_agreements(({ALGORITHM: categories} if categories else {}) | said, patients, how),
        combinations=combine_with_readers(categories, readers, truth, patients, how) if categories else (),
        curves={name: _curves(by_slide, truth) for name, by_slide in (beside | said).items()},
    )


def _of_predicted(reader: Reader, truth: Mapping[str, bool | None]) -> Reader:
    """Readings of slides that were predicted; of others neither truth nor patient is known."""
    kept = {slide: category for slide, category in reader.categories.items() if slide in truth}
    return Reader(reader.name, kept, tuple(slide for slide in reader.inadequate if slide in truth))


def _curves(by_slide: Mapping[str, float], truth: Mapping[str, bool | None]) -> Curves:
    known = sorted(slide for slide in by_slide if truth.get(slide) is not None)
    return curves([by_slide[slide] for slide in known], [float(bool(truth[slide])) for slide in known])


def _ppi(material: Material) -> PpiAnalysis | None:
    if not material.marks and not material.tiles:
        return None
    marks = abnormality_table(material.entries, material.marks) if material.marks else None
    return PpiAnalysis(marks, slide_ppis(material.entries, material.marks), material.tiles)


def _gaps(analysis: Analysis, material: Material) -> list[str]:
    """What a reader of the report would look for and not find."""
    own = analysis.method(analysis.reference)
    truth = np.array([value for value in material.malignant.values() if value is not None], bool)
    gaps = []
    if reason := missing_kind(truth):
        why = reason if len(truth) else "whether slides are malignant is not known"
        gaps.append(f"{why}: nothing that tells malignant from benign can be computed")
    if own.pooled_by == "nothing":
        gaps.append(
            f"{own.name} gives scores without probabilities, and scores of different folds are not on one scale: no "
            "figures of all folds together, no comparison with readers"
        )
    if analysis.slides.patients is None:
        gaps.append("patients are not known: each slide counts as its own, so intervals may be too narrow")
    if not material.validation:
        gaps.append(
            "no validation predictions: no operating points, no conformal sets; test slides must not choose them"
        )
    elif own.operating is None and not missing_kind(truth):
        gaps.append(f"no validation predictions of {own.name} in its own folds: no operating points of it")
    if own.after is None and own.counts.used:
        gaps.append(f"{own.name} gives no probabilities: no calibration, no decision curve")
    if not any(c in TRAINABLE_BETHESDA for c in material.bethesda.values()):
        gaps.append("no slide has a reported TBS: no agreement with it, no conformal sets, no figures for TBS 3–5")
    elif own.confusion.n == 0:
        gaps.append(f"{own.name} gives no TBS: no agreement, no combination with readers")
    if absent := len({entry.slide_id for entry in material.entries} - material.malignant.keys()):
        gaps.append(f"slides of the cohort that were not predicted: {absent}")
    gaps += _reader_gaps(material)
    noted: dict[str, list[str]] = {}
    for method in analysis.methods:
        for note in method.notes:
            noted.setdefault(note, []).append(method.name)
    gaps += [f"{', '.join(names)}: {note}" for note, names in noted.items()]
    gaps += [f"{name} was not run: {why}" for name, why in analysis.skipped.items()]
    return gaps


def _reader_gaps(material: Material) -> list[str]:
    if not material.readers:
        return ["no readers: no comparison with them, no combination"]
    predicted = material.malignant.keys()
    gaps = []
    for reader in material.readers:
        read, other = len(reader.categories.keys() & predicted), len(reader.categories.keys() - predicted)
        said = (
            (read < 2, f"{read or 'no'} slide that was predicted: nothing can be compared"),
            (other > 0, f"slides that were not predicted ({other}): left out"),
            (len(reader.inadequate) > 0, f"slides as TBS 1 ({len(reader.inadequate)}): left out"),
        )
        gaps += [f"reader {reader.name} read {what}" for so, what in said if so]
    return gaps
