"""What is evaluated: predictions and whatever else is known, checked and brought together before any number is made."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import TypeVar

from pydantic import Field, model_validator

from aspirate.core.config import Settings
from aspirate.core.errors import ConfigError, TableError
from aspirate.core.labels import BETHESDA_NAMES
from aspirate.core.learning_points import LearningPoint
from aspirate.core.predictions import Prediction
from aspirate.core.records import SlideEntry
from aspirate.evaluation.estimates import Bootstrap
from aspirate.evaluation.ppi import Marks
from aspirate.evaluation.readers import Reader

PROPOSED = "Proposed (U,Y,S)"
UNNAMED = "algorithm"
"""A method whose predictions do not name it."""


class EvaluateSettings(Settings):
    """What a person may ask of an evaluation."""

    prevalence: float | None = Field(None, gt=0, lt=1)
    """Share of malignant slides that PPV, NPV and net benefit are for; None is the share found."""
    benign_risk: float = Field(0.03, ge=0, le=1)
    """Highest risk of malignancy wanted among slides called benign, …"""
    malignant_risk: float = Field(0.95, ge=0, le=1)
    """… and the lowest among those called malignant."""
    alpha: float = Field(0.1, gt=0, lt=1)
    """Share of conformal sets that may miss the TBS category."""
    resamples: int = Field(2000, ge=100)
    """Of every bootstrap."""
    reference: str | None = None
    """The method that others are compared with, and that figures are about."""

    @model_validator(mode="after")
    def _risks_in_order(self) -> "EvaluateSettings":
        if self.benign_risk >= self.malignant_risk:
            raise ValueError(f"benign_risk {self.benign_risk} must be below malignant_risk {self.malignant_risk}")
        return self

    @property
    def bootstrap(self) -> Bootstrap:
        return Bootstrap(resamples=self.resamples)


@dataclass(frozen=True, slots=True)
class Learned:
    """What a method learned in one fold, as far as it is needed here."""

    cuts: tuple[float, ...] = ()
    """Of S, rising; empty where it has none."""
    threshold: float | None = None


@dataclass(frozen=True, slots=True)
class TileFacts:
    """What a model said of the tiles of a slide that it was not trained on."""

    slide_id: str
    informativeness: tuple[int, ...]
    """Tiles by informativeness, in equal steps from 0 to 1."""
    informative: int
    """Tiles above ½."""
    judged: int
    """Tiles with a malignancy score."""
    positive: int
    """Those of them whose score is above 0."""
    mean_probability: float
    """Mean σ(score) over them; NaN without any."""

    @property
    def tiles(self) -> int:
        return sum(self.informativeness)


@dataclass(frozen=True, slots=True)
class Material:
    """All but the predictions may be absent; then what needs it is left out."""

    predictions: tuple[Prediction, ...]
    validation: tuple[Prediction, ...] = ()
    """Of slides that no fold was trained on, for what must not be chosen on test slides."""
    entries: tuple[SlideEntry, ...] = ()
    readers: tuple[Reader, ...] = ()
    learned: Mapping[tuple[str, str], Learned] = field(default_factory=dict)
    """By fold and method."""
    stage_1: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Figures by fold."""
    marks: Marks = field(default_factory=dict)
    tiles: tuple[TileFacts, ...] = ()
    learning_curve: tuple[LearningPoint, ...] = ()
    skipped: Mapping[str, str] = field(default_factory=dict)
    """Methods that were not run, and why."""
    notes: tuple[str, ...] = ()
    """What was looked for and not found."""

    @property
    def patients(self) -> dict[str, str] | None:
        """By slide; None where nobody said."""
        known = {entry.slide_id: entry.patient for entry in self.entries}
        return known if any(entry.patient_id is not None for entry in self.entries) else None

    @property
    def methods(self) -> dict[str, tuple[Prediction, ...]]:
        """In the order in which they come."""
        names = dict.fromkeys(row.method for row in self.predictions)
        return {name: tuple(row for row in self.predictions if row.method == name) for name in names}

    @property
    def malignant(self) -> dict[str, bool | None]:
        return _first_known((row.slide_id, row.malignant) for row in self.predictions)

    @property
    def bethesda(self) -> dict[str, int | None]:
        return _first_known((row.slide_id, row.bethesda) for row in self.predictions)

    def reference(self, settings: EvaluateSettings) -> str:
        """As asked for; else the paper's method, else the first: the best would be chosen on the test itself."""
        names = list(self.methods)
        if settings.reference is None:
            return PROPOSED if PROPOSED in names else names[0]
        if settings.reference not in names:
            raise ConfigError(f"reference {settings.reference!r}: there is no such method; one of {', '.join(names)}")
        return settings.reference


T = TypeVar("T")


def _first_known(pairs: Iterable[tuple[str, T | None]]) -> dict[str, T | None]:
    found: dict[str, T | None] = {}
    for slide_id, value in pairs:
        if found.get(slide_id) is None:
            found[slide_id] = value
    return found


def brought_together(material: Material) -> Material:
    """The same with labels of the cohort filled in; all that would make a number wrong is said at once."""
    named = replace(
        material,
        predictions=_named(material.predictions),
        validation=_named(material.validation),
    )
    if not named.predictions:
        raise TableError("predictions", ["there is no row; give one for each slide and method"])
    entries = {entry.slide_id: entry for entry in named.entries}
    problems: list[str] = []
    parts = []
    scored = {row.method for row in (*named.predictions, *named.validation) if _judged(row) and row.score is not None}
    for what, rows in (("", named.predictions), ("validation: ", named.validation)):
        problems += [f"{what}{problem}" for problem in _row_problems(rows, entries, scored)]
        parts.append(tuple(_labelled(row, entries.get(row.slide_id)) for row in rows))
    problems += _repeated(named.predictions, with_fold=False)
    problems += [f"validation: {problem}" for problem in _repeated(named.validation, with_fold=True)]
    problems += _contradicted((*parts[0], *parts[1]))
    problems += _on_both_sides(named.predictions, named.validation, entries)
    if problems:
        raise TableError("predictions", problems)
    return replace(named, predictions=parts[0], validation=parts[1])


def _named(rows: tuple[Prediction, ...]) -> tuple[Prediction, ...]:
    return tuple(row if row.method else replace(row, method=UNNAMED) for row in rows)


def _labelled(row: Prediction, entry: SlideEntry | None) -> Prediction:
    if entry is None:
        return row
    malignant = entry.malignant if row.malignant is None else row.malignant
    return replace(row, malignant=malignant, bethesda=entry.bethesda if row.bethesda is None else row.bethesda)


def _judged(row: Prediction) -> bool:
    return row.status == "ok"


def _row_problems(
    rows: tuple[Prediction, ...], entries: Mapping[str, SlideEntry], scored: Collection[str]
) -> list[str]:
    """`scored` are methods that give scores, to slides tested or validated on: thresholds of one are used on the other,
    and slides with and without a score would be ranked on different scales."""
    problems = []
    calibrated = {row.method for row in rows if _judged(row) and row.probability is not None}
    for row in rows:
        who = f"slide {row.slide_id} by {row.method}"
        for name in ("score", "probability"):
            value = getattr(row, name)
            if value is not None and not isfinite(value) and row.status != "failed":
                problems.append(f"{who}: {name} is {value}; predict it again, or set its status to failed")
        if row.probability is not None and isfinite(row.probability) and not 0 <= row.probability <= 1:
            problems.append(f"{who}: probability is {row.probability:g}; give 0 to 1, or call the column score")
        if _judged(row) and row.score is None and row.probability is None:
            problems.append(f"{who}: neither score nor probability, or NaN; give one, or set its status to failed")
        elif _judged(row):
            groups = (("score", scored), ("probability", calibrated))
            problems += [
                f"{who}: {name} is blank or NaN, which other slides have; give it, or set its status to failed"
                for name, having in groups
                if getattr(row, name) is None and row.method in having
            ]
        problems += [
            f"{who}: TBS is {category}; give 1 to 6, or leave it blank"
            for category in (row.bethesda, row.predicted_bethesda)
            if category is not None and category not in BETHESDA_NAMES
        ]
        if entries and row.slide_id not in entries:
            problems.append(f"slide {row.slide_id} is not in the cohort; give the cohort that was predicted")
        elif entries:
            problems += _against_cohort(row, entries[row.slide_id])
    return list(dict.fromkeys(problems))


def _against_cohort(row: Prediction, entry: SlideEntry) -> list[str]:
    pairs = (("malignant", row.malignant, entry.malignant), ("bethesda", row.bethesda, entry.bethesda))
    return [
        f"slide {row.slide_id}: {name} is {said:d} here and {known:d} in the cohort; correct one of them"
        for name, said, known in pairs
        if said is not None and known is not None and said != known
    ]


def _repeated(rows: tuple[Prediction, ...], with_fold: bool) -> list[str]:
    count = Counter((row.slide_id, row.method, row.fold if with_fold else "") for row in rows)
    problems = []
    for (slide_id, method, _), times in count.items():
        if times > 1:
            folds = sorted({row.fold for row in rows if (row.slide_id, row.method) == (slide_id, method)})
            where = f" (folds {', '.join(folds)})" if len(folds) > 1 else ""
            problems.append(f"slide {slide_id} by {method}: {times} rows{where}; keep one")
    return problems


def _on_both_sides(
    predictions: tuple[Prediction, ...], validation: tuple[Prediction, ...], entries: Mapping[str, SlideEntry]
) -> list[str]:
    """What is chosen on validation slides must not have seen the patients it is tested on."""

    def patient(row: Prediction) -> str:
        return entries[row.slide_id].patient if row.slide_id in entries else row.slide_id

    tested = {(row.method, row.fold, patient(row)) for row in predictions}
    both = dict.fromkeys(
        (row.slide_id, row.fold) for row in validation if (row.method, row.fold, patient(row)) in tested
    )
    return [
        f"validation: slide {slide_id}{f' of fold {fold}' if fold else ''}: its patient is also tested on; thresholds "
        "would be chosen on test slides, so leave it out"
        for slide_id, fold in both
    ]


def _contradicted(rows: tuple[Prediction, ...]) -> list[str]:
    problems = []
    for name in ("malignant", "bethesda"):
        said: dict[str, set[int]] = {}
        for row in rows:
            if (value := getattr(row, name)) is not None:
                said.setdefault(row.slide_id, set()).add(int(value))
        problems += [
            f"slide {slide_id}: {name} is {' and '.join(map(str, sorted(values)))} in different rows; correct it"
            for slide_id, values in said.items()
            if len(values) > 1
        ]
    return problems
