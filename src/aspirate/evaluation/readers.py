"""Human readers beside the algorithm, and both together.

A reader's TBS is a score: 2 … 6 of rising risk. Comparisons use the slides that both have, and their n says how many.

Combined, whoever says TBS 2 or 6 decides; where both say 3 … 5, the reader does (Combined345Human) or the algorithm
(Combined345Alg). A reader's 2 against an algorithm's 6, or the reverse, is a conflict: the reader stands, and the slide
is flagged. The combined score, of which AUC and AP are taken, is the TBS of whoever decided.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal, get_args

from aspirate.core.errors import TableError
from aspirate.core.labels import INDETERMINATE_BETHESDA, TRAINABLE_BETHESDA
from aspirate.core.records import SlideEntry
from aspirate.evaluation.agreement import Confusion, confusion, weighted_kappa
from aspirate.evaluation.discrimination import (
    Difference,
    Discrimination,
    Pairs,
    Scores,
    bootstrap_pairs,
    delong_pairs,
    discrimination_of,
)
from aspirate.evaluation.estimates import BOOTSTRAP, Bootstrap, Estimate

Rule = Literal["Combined345Human", "Combined345Alg"]
Decider = Literal["reader", "algorithm", "both"]
Categories = Mapping[str, int]
"""TBS 2 … 6 by slide."""
ALGORITHM = "algorithm"


@dataclass(frozen=True, slots=True)
class Reader:
    name: str
    categories: Categories
    inadequate: tuple[str, ...] = ()
    """Slides read as TBS 1, which says nothing of malignancy: no comparison uses them."""


def readers_of(entries: Iterable[SlideEntry]) -> tuple[Reader, ...]:
    """All who read any of the slides, by name."""
    return readers_from(
        (entry.slide_id, name, category) for entry in entries for name, category in entry.readers.items()
    )


def readers_from(readings: Iterable[tuple[str, str, int]]) -> tuple[Reader, ...]:
    """The same from slide, reader and category; each once."""
    by_name: dict[str, dict[str, int]] = {}
    for slide_id, name, category in readings:
        by_name.setdefault(name, {})[slide_id] = category
    return tuple(
        Reader(
            name,
            {slide: category for slide, category in own.items() if category in TRAINABLE_BETHESDA},
            tuple(slide for slide, category in own.items() if category not in TRAINABLE_BETHESDA),
        )
        for name, own in sorted(by_name.items())
    )


@dataclass(frozen=True, slots=True)
class Gain:
    """One score less another, by three measures; each p is adjusted for all comparisons made together."""

    auc_delong: Difference
    auc: Difference
    ap: Difference


@dataclass(frozen=True, slots=True)
class ReaderComparison:
    """A reader and the algorithm on the slides that both have."""

    reader: str
    own: Discrimination
    algorithm: Discrimination
    gain: Gain
    """Algorithm less reader."""


def compare_with_readers(
    algorithm: Mapping[str, float],
    readers: Sequence[Reader],
    malignant: Mapping[str, bool | None],
    patients: Mapping[str, str] | None = None,
    settings: Bootstrap = BOOTSTRAP,
) -> tuple[ReaderComparison, ...]:
    """`algorithm` is its score by slide; where it has none, readers stand alone."""
    scores: Scores = {ALGORITHM: algorithm, **_by_name(readers)}
    pairs = [(ALGORITHM, reader.name) for reader in readers]
    found = []
    for reader, gain in zip(readers, gains(scores, malignant, patients, pairs, settings), strict=True):
        shared = reader.categories.keys() & algorithm.keys() if algorithm else reader.categories.keys()
        both = ({slide: own[slide] for slide in shared if slide in own} for own in (reader.categories, algorithm))
        own, other = (discrimination_of(part, malignant, patients, settings) for part in both)
        found.append(ReaderComparison(reader.name, own, other, gain))
    return tuple(found)


def _by_name(readers: Sequence[Reader]) -> dict[str, Categories]:
    names = [reader.name for reader in readers]
    problems = [f"two have the name {name!r}; give each an own name" for name in set(names) if names.count(name) > 1]
    if ALGORITHM in names:
        problems.append(f"the name {ALGORITHM!r} stands for the program; give the reader another one")
    if problems:
        raise TableError("readers", sorted(problems))
    return {reader.name: reader.categories for reader in readers}


def gains(
    scores: Scores,
    malignant: Mapping[str, bool | None],
    patients: Mapping[str, str] | None,
    pairs: Pairs,
    settings: Bootstrap,
) -> list[Gain]:
    """First less second of each pair, on the slides that both have."""
    by_delong = delong_pairs(scores, malignant, patients, pairs, settings.level)
    aucs = bootstrap_pairs(scores, malignant, "auc", patients, pairs, settings)
    aps = bootstrap_pairs(scores, malignant, "ap", patients, pairs, settings)
    return [Gain(*three) for three in zip(by_delong, aucs, aps, strict=True)]


@dataclass(frozen=True, slots=True)
class PairAgreement:
    """TBS of two on the slides that both have; rows of the confusion are the first's."""

    first: str
    second: str
    kappa: Estimate
    confusion: Confusion


def pair_agreements(
    categories: Mapping[str, Categories],
    patients: Mapping[str, str] | None = None,
    settings: Bootstrap = BOOTSTRAP,
) -> tuple[PairAgreement, ...]:
    """Every pair of readers, and of the algorithm where its categories are given too."""
    found = []
    for first, second in combinations(categories, 2):
        slides = sorted(categories[first].keys() & categories[second].keys())
        one, other = ([categories[name][slide] for slide in slides] for name in (first, second))
        whose = None if patients is None else [patients.get(slide, f"slide:{slide}") for slide in slides]
        kappa = weighted_kappa(one, other, whose, settings)
        found.append(PairAgreement(first, second, kappa, confusion(one, other)))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Combined:
    slide_id: str
    reader: int
    algorithm: int
    bethesda: int
    decided_by: Decider
    """`both` where they say the same."""
    conflict: bool


def combine(slide_id: str, reader: int, algorithm: int, rule: Rule) -> Combined:
    for who, category in (("reader", reader), ("algorithm", algorithm)):
        if category not in TRAINABLE_BETHESDA:
            raise TableError(slide_id, [f"the {who}'s TBS is {category}; give 2 to 6, or leave the slide out"])
    decider: Decider
    if reader == algorithm:
        decider = "both"
    elif reader not in INDETERMINATE_BETHESDA:
        decider = "reader"
    elif algorithm not in INDETERMINATE_BETHESDA:
        decider = "algorithm"
    else:
        decider = "reader" if rule == "Combined345Human" else "algorithm"
    bethesda = algorithm if decider == "algorithm" else reader
    return Combined(slide_id, reader, algorithm, bethesda, decider, {reader, algorithm} == {2, 6})


@dataclass(frozen=True, slots=True)
class Combination:
    """One reader with the algorithm by one rule."""

    reader: str
    rule: Rule
    slides: tuple[Combined, ...]
    discrimination: Discrimination
    gain: Gain
    """Combined less the reader alone."""

    @property
    def conflicts(self) -> tuple[Combined, ...]:
        return tuple(slide for slide in self.slides if slide.conflict)

    def decided_by(self, who: Decider) -> int:
        return sum(slide.decided_by == who for slide in self.slides)


def combine_with_readers(
    algorithm: Categories,
    readers: Sequence[Reader],
    malignant: Mapping[str, bool | None],
    patients: Mapping[str, str] | None = None,
    settings: Bootstrap = BOOTSTRAP,
) -> tuple[Combination, ...]:
    """Both rules for every reader; `algorithm` is its TBS by slide."""
    scores: dict[str, Categories] = _by_name(readers)
    slides: dict[tuple[str, Rule], tuple[Combined, ...]] = {}
    pairs = []
    for reader in readers:
        shared = sorted(reader.categories.keys() & algorithm.keys())
        for rule in get_args(Rule):
            combined = tuple(combine(slide, reader.categories[slide], algorithm[slide], rule) for slide in shared)
            name = f"{reader.name} {rule}"
            slides[reader.name, rule] = combined
            scores[name] = {slide.slide_id: slide.bethesda for slide in combined}
            pairs.append((name, reader.name))
    found = gains(scores, malignant, patients, pairs, settings)
    return tuple(
        Combination(*key, slides[key], discrimination_of(scores[name], malignant, patients, settings), gain)
        for key, (name, _), gain in zip(slides, pairs, found, strict=True)
    )
