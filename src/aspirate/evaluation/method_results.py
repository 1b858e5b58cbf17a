"""Everything that is said of one method: how well it ranks, whether its probabilities hold, what it would decide."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import expit

from aspirate.core.labels import INDETERMINATE_BETHESDA, TRAINABLE_BETHESDA
from aspirate.core.predictions import Prediction
from aspirate.evaluation.agreement import Confusion, confusion, weighted_kappa
from aspirate.evaluation.conformal import Coverage, category_probabilities, coverage, fit_conformal
from aspirate.evaluation.curves import Curves, curves
from aspirate.evaluation.discrimination import Discrimination, OverFolds, discrimination, over_folds
from aspirate.evaluation.estimates import Estimate, missing_kind, unknown
from aspirate.evaluation.material import EvaluateSettings, Material
from aspirate.evaluation.operating_points import Decisions, Rates, Thresholds, choose_thresholds, decisions, rates
from aspirate.evaluation.probabilities import ProbabilityQuality, probability_quality

PooledBy = Literal["probability", "score", "nothing"]
GroupKind = Literal["site", "bethesda"]


@dataclass(frozen=True, slots=True)
class SlideCounts:
    """Slides of a method; figures are of those judged whose truth is known."""

    used: int
    unlabelled: int
    """Judged, but whether they are malignant is unknown."""
    inadequate: int
    failed: int


@dataclass(frozen=True, slots=True)
class Subgroup:
    kind: GroupKind
    name: str
    discrimination: Discrimination
    decisions: Decisions | None
    """By the thresholds of all slides; None where there are none."""


@dataclass(frozen=True, slots=True)
class Operating:
    """Calls by thresholds that each fold chose on its validation slides."""

    thresholds: Mapping[str, Thresholds]
    decisions: Decisions
    calls: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class TbsSets:
    """Conformal sets, fitted on the validation slides of each fold."""

    alpha: float
    coverage: Coverage
    ranges: Mapping[str, tuple[int, int]]
    """Lowest and highest TBS of each test slide's set."""
    note: str


@dataclass(frozen=True, slots=True)
class MethodResult:
    name: str
    counts: SlideCounts
    auc_folds: OverFolds
    ap_folds: OverFolds
    pooled_by: PooledBy
    """What slides of all folds are ranked by; scores of different folds are not on one scale."""
    pooled: Discrimination
    curves: Curves
    kappa: Estimate
    """Of the method's TBS with the one reported."""
    confusion: Confusion
    before: ProbabilityQuality | None
    """σ(score), as if the score were a calibrated logit."""
    after: ProbabilityQuality | None
    """The probability as given."""
    own_rates: Rates | None
    """Of the method's own call, malignant or benign."""
    operating: Operating | None
    sets: TbsSets | None
    subgroups: tuple[Subgroup, ...]
    notes: tuple[str, ...]


def usable(rows: Sequence[Prediction]) -> list[Prediction]:
    """Judged slides whose truth is known, by id."""
    return sorted((r for r in rows if r.status == "ok" and r.malignant is not None), key=lambda r: r.slide_id)


def pooled_scores(rows: Sequence[Prediction]) -> tuple[PooledBy, dict[str, float]]:
    """What ranks the slides of all folds together; empty where nothing does."""
    if all(row.probability is not None for row in rows):
        return "probability", {row.slide_id: row.probability for row in rows if row.probability is not None}
    if len({row.fold for row in rows}) == 1:
        return "score", {row.slide_id: row.score for row in rows if row.score is not None}
    return "nothing", {}


def fold_score(row: Prediction) -> float:
    """What ranks slides within a fold."""
    return row.score if row.score is not None else row.probability if row.probability is not None else float("nan")


def tbs_of(rows: Sequence[Prediction]) -> dict[str, int]:
    """The method's TBS by slide; only what says how malignant."""
    said = {row.slide_id: row.predicted_bethesda for row in rows if row.status == "ok"}
    return {slide_id: tbs for slide_id, tbs in said.items() if tbs in TRAINABLE_BETHESDA}


def prevalence_in(rows: Sequence[Prediction], settings: EvaluateSettings) -> float:
    return settings.prevalence or float(np.mean([bool(row.malignant) for row in rows]))


class MethodAnalysis:
    """One method's rows, and what all its figures share."""

    def __init__(self, name: str, material: Material, settings: EvaluateSettings) -> None:
        self.name, self.material, self.settings = name, material, settings
        self.rows = [row for row in material.predictions if row.method == name]
        self.used = usable(self.rows)
        self.truth = [float(bool(row.malignant)) for row in self.used]
        self.pooled_by, self.scores = pooled_scores(self.used)
        self.notes: list[str] = []

    def run(self) -> MethodResult:
        pooled = self.discrimination([row.slide_id for row in self.used])
        auc, ap = self.over_folds()
        kappa, table = self.agreement()
        operating = self.operating()
        return MethodResult(
            name=self.name,
            counts=self.counts(),
            auc_folds=auc,
            ap_folds=ap,
            pooled_by=self.pooled_by,
            pooled=pooled,
            curves=curves(list(self.scores.values()), self.truth if self.scores else []),
            kappa=kappa,
            confusion=table,
            before=self.quality(
                [None if row.score is None else float(expit(row.score)) for row in self.used],
            ),
            after=self.quality([row.probability for row in self.used]),
            own_rates=self.own_rates(),
            operating=operating,
            sets=self.sets(),
            subgroups=self.subgroups(operating),
            notes=tuple(self.notes),
        )

    def counts(self) -> SlideCounts:
        by_status = Counter(row.status for row in self.rows)
        unlabelled = by_status["ok"] - len(self.used)
        return SlideCounts(len(self.used), unlabelled, by_status["inadequate"], by_status["failed"])

    def whose(self, slide_ids: Sequence[str]) -> list[str] | None:
        patients = self.material.patients
        return None if patients is None else [patients[slide_id] for slide_id in slide_ids]

    def discrimination(self, slide_ids: Sequence[str]) -> Discrimination:
        """Of these slides, all folds together."""
        truth = {row.slide_id: bool(row.malignant) for row in self.used}
        y = [float(truth[slide_id]) for slide_id in slide_ids]
        if self.pooled_by == "nothing":
            why = "scores of different folds are not on one scale; give probabilities"
            gap = unknown(len(y), "none", why)
            return Discrimination(gap, gap, gap, int(sum(y)), int(len(y) - sum(y)))
        scores = [self.scores[slide_id] for slide_id in slide_ids]
        return discrimination(scores, y, self.whose(slide_ids), self.settings.bootstrap)

    def over_folds(self) -> tuple[OverFolds, OverFolds]:
        scores, folds = [fold_score(row) for row in self.used], [row.fold for row in self.used]
        return over_folds(scores, self.truth, folds, "auc"), over_folds(scores, self.truth, folds, "ap")

    def agreement(self) -> tuple[Estimate, Confusion]:
        said, reported = tbs_of(self.rows), self.material.bethesda
        both = sorted(slide_id for slide_id in said if reported.get(slide_id) in TRAINABLE_BETHESDA)
        first, second = [said[i] for i in both], [float(reported[i] or 0) for i in both]
        return weighted_kappa(first, second, self.whose(both), self.settings.bootstrap), confusion(first, second)

    def quality(self, probabilities: Sequence[float | None]) -> ProbabilityQuality | None:
        known = [p for p in probabilities if p is not None]
        if len(known) < len(probabilities) or not known:
            return None
        whose = self.whose([row.slide_id for row in self.used])
        return probability_quality(known, self.truth, whose, settings=self.settings.bootstrap)

    def own_rates(self) -> Rates | None:
        called = [row.predicted_malignant for row in self.used]
        if None in called or missing_kind(np.array(self.truth, bool)):
            return None
        return rates([float(bool(c)) for c in called], self.truth, prevalence_in(self.used, self.settings))

    def operating(self) -> Operating | None:
        """Test slides of folds that have validation slides to choose on."""
        thresholds: dict[str, Thresholds] = {}
        calls: dict[str, int] = {}
        for fold in sorted({row.fold for row in self.used}):
            own = usable([r for r in self.material.validation if (r.method, r.fold) == (self.name, fold)])
            if not own:
                continue
            chosen = choose_thresholds(
                [fold_score(row) for row in own],
                [float(bool(row.malignant)) for row in own],
                self.settings.benign_risk,
                self.settings.malignant_risk,
            )
            test = [row for row in self.used if row.fold == fold]
            thresholds[fold] = chosen
            called = chosen.call([fold_score(row) for row in test]).tolist()
            calls |= dict(zip([row.slide_id for row in test], called, strict=True))
        judged = [row for row in self.used if row.slide_id in calls]
        y = [float(bool(row.malignant)) for row in judged]
        if not judged or missing_kind(np.array(y, bool)):
            return None
        made = decisions([calls[row.slide_id] for row in judged], y, prevalence_in(judged, self.settings))
        if len(judged) < len(self.used):
            self.notes.append(
                f"operating points rest on {len(judged)} of {len(self.used)} slides: folds lack validation"
            )
        return Operating(thresholds, made, calls)

    def sets(self) -> TbsSets | None:
        """Of folds whose cuts are known."""
        ranges: dict[str, tuple[int, int]] = {}
        notes: dict[str, None] = {}
        for fold in sorted({row.fold for row in self.rows}):
            learned = self.material.learned.get((fold, self.name))
            own = _with_category([r for r in self.material.validation if (r.method, r.fold) == (self.name, fold)])
            test = _with_category([row for row in self.rows if row.fold == fold])
            if learned is None or not learned.cuts or not own or not test:
                continue
            said = category_probabilities([fold_score(row) for row in own], learned.cuts)
            fitted = fit_conformal(said, [float(row.bethesda or 0) for row in own], self.settings.alpha)
            found = fitted.ranges(category_probabilities([fold_score(row) for row in test], learned.cuts))
            ranges |= {row.slide_id: (low, high) for row, (low, high) in zip(test, found.tolist(), strict=True)}
            if fitted.note:
                notes[f"fold {fold}: {fitted.note}" if fold else fitted.note] = None
        if not ranges:
            return None
        reported = self.material.bethesda
        self.notes += notes
        found_by = coverage(
            list(ranges.values()),
            [float(reported[slide_id] or 0) for slide_id in ranges],
            self.whose(list(ranges)),
            self.settings.bootstrap,
        )
        return TbsSets(self.settings.alpha, found_by, ranges, "; ".join(notes))

    def subgroups(self, operating: Operating | None) -> tuple[Subgroup, ...]:
        """By site, and by the reported TBS where it decides least."""
        sites = {entry.slide_id: entry.site for entry in self.material.entries if entry.site is not None}
        tbs = self.material.bethesda
        groups: list[tuple[GroupKind, str, list[str]]] = [
            ("bethesda", "TBS 3–5", [r.slide_id for r in self.used if tbs[r.slide_id] in INDETERMINATE_BETHESDA])
        ]
        groups += [
            ("bethesda", f"TBS {category}", [r.slide_id for r in self.used if tbs[r.slide_id] == category])
            for category in INDETERMINATE_BETHESDA
        ]
        groups += [
            ("site", name, [r.slide_id for r in self.used if sites.get(r.slide_id) == name])
            for name in sorted(set(sites.values()))
        ]
        return tuple(
            Subgroup(kind, name, self.discrimination(ids), self.decisions(ids, operating))
            for kind, name, ids in groups
            if ids
        )

    def decisions(self, slide_ids: Sequence[str], operating: Operating | None) -> Decisions | None:
        """Of these slides, as far as thresholds of their folds are known."""
        if operating is None:
            return None
        known = operating.calls.keys() & set(slide_ids)
        judged = [row for row in self.used if row.slide_id in known]
        if not judged:
            return None
        y = [float(bool(row.malignant)) for row in judged]
        return decisions([operating.calls[row.slide_id] for row in judged], y, prevalence_in(self.used, self.settings))


def _with_category(rows: Sequence[Prediction]) -> list[Prediction]:
    """Judged slides with a score whose reported category says how malignant."""
    return [r for r in rows if r.status == "ok" and r.score is not None and r.bethesda in TRAINABLE_BETHESDA]
