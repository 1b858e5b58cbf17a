"""What annotations say of the prevalence of positive instances (PPI): grades of marks by the labels of their slides."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aspirate.core.labels import TRAINABLE_BETHESDA, Abnormality
from aspirate.core.records import Annotation, SlideEntry
from aspirate.evaluation.estimates import Estimate, proportion

Marks = Mapping[str, Sequence[Annotation]]
"""Annotations by slide."""


@dataclass(frozen=True, slots=True, eq=False)
class AbnormalityTable:
    counts: NDArray[np.int64]
    """(2, 5, 3): benign or malignant, TBS 2 … 6, normal, atypical or malignant marks."""
    slides: NDArray[np.int64]
    """(2, 5): slides with a graded mark."""
    ungraded: int
    """Marks that say only that a place is informative, …"""
    unlabelled: int
    """… and graded marks on slides whose malignancy or category is unknown: neither is counted above."""

    @property
    def shares(self) -> NDArray[np.float64]:
        """Of each kind of slide, how its marks were graded; sums to 1 over the last axis, NaN without a mark."""
        totals = self.counts.sum(2, keepdims=True)
        return np.where(totals > 0, self.counts / np.maximum(totals, 1), np.nan)


def abnormality_table(entries: Iterable[SlideEntry], marks: Marks) -> AbnormalityTable:
    counts = np.zeros((2, len(TRAINABLE_BETHESDA), len(Abnormality)), np.int64)
    slides = np.zeros(counts.shape[:2], np.int64)
    ungraded = unlabelled = 0
    for entry in entries:
        own = marks.get(entry.slide_id, ())
        grades = _grades(own)
        ungraded += len(own) - len(grades)
        if not grades:
            continue
        if entry.malignant is None or entry.bethesda not in TRAINABLE_BETHESDA:
            unlabelled += len(grades)
            continue
        kind = int(entry.malignant), TRAINABLE_BETHESDA.index(entry.bethesda)
        slides[kind] += 1
        counts[kind] += np.bincount(grades, minlength=len(Abnormality))
    return AbnormalityTable(counts, slides, ungraded, unlabelled)


@dataclass(frozen=True, slots=True)
class SlidePpi:
    """PPI of one slide among its informative places.

    A positive instance shows clear signs of malignancy, so `malignant` is the PPI proper; `abnormal` counts atypical
    marks too. Marks are not a random sample of a slide's groups, so an interval tells of their number alone.
    """

    slide_id: str
    malignant: Estimate
    abnormal: Estimate


def slide_ppis(entries: Iterable[SlideEntry], marks: Marks, level: float = 0.95) -> tuple[SlidePpi, ...]:
    """Of each slide that has a graded mark; `n` is how many it has."""
    found = []
    for entry in entries:
        grades = _grades(marks.get(entry.slide_id, ()))
        if grades:
            malignant, atypical = grades.count(Abnormality.MALIGNANT), grades.count(Abnormality.ATYPICAL)
            shares = (proportion(hits, len(grades), level) for hits in (malignant, malignant + atypical))
            found.append(SlidePpi(entry.slide_id, *shares))
    return tuple(found)


def _grades(marks: Sequence[Annotation]) -> list[Abnormality]:
    return [mark.abnormality for mark in marks if mark.abnormality is not None]
