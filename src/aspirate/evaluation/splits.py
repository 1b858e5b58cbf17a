"""Who is trained on and who is held out: patients stay together, every part has its share of each kind."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from aspirate.core.errors import ConfigError
from aspirate.core.records import SlideEntry


@dataclass(frozen=True, slots=True)
class Split:
    """Slide ids by use; no patient is in two of them."""

    train: tuple[str, ...]
    validation: tuple[str, ...]
    test: tuple[str, ...] = ()

    @property
    def everyone(self) -> tuple[str, ...]:
        return (*self.train, *self.validation, *self.test)


def deal(
    entries: Sequence[SlideEntry],
    parts: int,
    seed: int,
    annotated: frozenset[str] = frozenset(),
    by_kind: bool = True,
) -> dict[str, int]:
    """A part 0 … parts − 1 for each slide.

    Patients of one kind (malignant, highest category, annotated or not) are shuffled and dealt out one by one, each
    kind going on where the last one stopped, so that parts differ by at most one patient of a kind and in all. Not by
    kind, parts differ by at most one patient in all.
    """
    patients: defaultdict[str, list[SlideEntry]] = defaultdict(list)
    for entry in entries:
        patients[entry.patient].append(entry)
    if len(patients) < parts:
        raise ConfigError(
            f"{len(patients)} patients cannot be dealt into {parts} parts; use fewer parts, or add more patients"
        )
    kinds: defaultdict[tuple[int, int, int], list[str]] = defaultdict(list)
    for patient in sorted(patients):
        kinds[_kind(patients[patient], annotated) if by_kind else (0, 0, 0)].append(patient)
    rng = np.random.default_rng(seed)
    part_of: dict[str, int] = {}
    turn = 0
    for kind in sorted(kinds):
        for i in rng.permutation(len(kinds[kind])):
            part_of[kinds[kind][i]] = turn % parts
            turn += 1
    return {entry.slide_id: part_of[entry.patient] for entry in entries}


def _kind(slides: Sequence[SlideEntry], annotated: frozenset[str]) -> tuple[int, int, int]:
    malignant = max(-1 if s.malignant is None else int(s.malignant) for s in slides)
    bethesda = max(0 if s.bethesda is None else s.bethesda for s in slides)
    return malignant, bethesda, int(any(s.slide_id in annotated for s in slides))


SHUFFLES = 100
"""So many are tried before a cohort is refused."""


def choose_holdout(
    entries: Sequence[SlideEntry], parts: int, seed: int, annotated: frozenset[str], labels: str
) -> Split:
    """One part to validate on, the first that leaves both sides with what they need.

    Either side needs annotated slides, to learn stage 1 and to stop it. Slides to learn from need two values of Y and
    S where these are in `labels`; slides to validate on need both values of Y, to calibrate a probability. Parts are
    dealt by kind, and only where none of these will do (two malignant patients, two others annotated) by chance.
    """
    by_id = {entry.slide_id: entry for entry in entries}
    fewest: list[str] | None = None
    for shuffle in range(SHUFFLES):
        part_of = deal(entries, parts, seed + shuffle, annotated, by_kind=shuffle == 0)
        for part in range(parts):
            split = holdout(part_of, part)
            lacking = _lacking([by_id[i] for i in split.train], annotated, labels, "to learn from")
            lacking += _lacking([by_id[i] for i in split.validation], annotated, "Y", "to validate on")
            if not lacking:
                return split
            if fewest is None or len(lacking) < len(fewest):
                fewest = lacking
    raise ConfigError(
        f"{len(entries)} slides cannot be divided into {parts} parts of which one validates: there would be no "
        f"{' and no '.join(fewest or [])}; use fewer parts (--set parts=2), or label more patients"
    )


FEWEST_FOLDS = 3
"""To train, to validate and to test on."""


def fewer_folds_or(remedy: str, folds: int) -> str:
    """What to do about folds that cannot be had."""
    return f"use fewer folds, or {remedy}" if folds > FEWEST_FOLDS else remedy


def choose_folds(
    entries: Sequence[SlideEntry], folds: int, seed: int, annotated: frozenset[str], labels: str
) -> tuple[Split, ...]:
    """Fold k tests on part k, validates on the next and trains on the others: 60/20/20 of five.

    `labels` are those learned from, with U where annotations are; every fold must have what they need, as in
    `choose_holdout`. Several shuffles are tried before a cohort is refused.
    """
    if folds < FEWEST_FOLDS:
        raise ConfigError(f"{folds} folds: give at least {FEWEST_FOLDS}, to train, to validate and to test on")
    if (patients := len({entry.patient for entry in entries})) < folds:
        remedy = fewer_folds_or("add more patients", folds)
        raise ConfigError(f"{patients} patients cannot be dealt into {folds} folds; {remedy}")
    fewest: list[str] | None = None
    for shuffle in range(SHUFFLES):
        splits = rotated(deal(entries, folds, seed + shuffle, annotated, by_kind=shuffle == 0), folds)
        lacking = [what for k, split in enumerate(splits) for what in fold_lacks(k, split, entries, annotated, labels)]
        if not lacking:
            return splits
        if fewest is None or len(lacking) < len(fewest):
            fewest = lacking
    raise ConfigError(
        f"{len(entries)} slides cannot be divided into {folds} folds: {'; '.join((fewest or [])[:4])}; "
        + fewer_folds_or("label more patients", folds)
    )


def too_few_annotated(splits: Sequence[Split], entries: Sequence[SlideEntry], annotated: frozenset[str]) -> str | None:
    """Why U cannot be learned, None where every fold has annotated slides to learn from and to validate on."""
    patients = {entry.slide_id: entry.patient for entry in entries if entry.slide_id in annotated}
    if all(patients.keys() & part for split in splits for part in (split.train, split.validation)):
        return None
    remedy = fewer_folds_or("annotate more patients", len(splits))
    return f"U: {len(set(patients.values()))} patients with annotations are too few for {len(splits)} folds; {remedy}"


def folds_of_cohort(entries: Sequence[SlideEntry]) -> tuple[Split, ...] | None:
    """Those of the cohort's own `fold` column, None where it leaves a slide out."""
    if not entries or any(entry.fold is None for entry in entries):
        return None
    names = sorted({entry.fold for entry in entries if entry.fold is not None})
    if len(names) < FEWEST_FOLDS:
        raise ConfigError(f"the fold column has {len(names)} values; give at least {FEWEST_FOLDS}, or leave it empty")
    folds_of: defaultdict[str, set[int]] = defaultdict(set)
    for entry in entries:
        folds_of[entry.patient].add(entry.fold or 0)
    if torn := sorted(patient for patient, folds in folds_of.items() if len(folds) > 1):
        raise ConfigError(f"the fold column puts slides of patient {torn[0]} into several folds; put them into one")
    return rotated({entry.slide_id: names.index(entry.fold or 0) for entry in entries}, len(names))


def rotated(part_of: Mapping[str, int], folds: int) -> tuple[Split, ...]:
    def of(parts: set[int]) -> tuple[str, ...]:
        return tuple(slide for slide, part in part_of.items() if part in parts)

    everything = set(range(folds))
    return tuple(Split(of(everything - {k, (k + 1) % folds}), of({(k + 1) % folds}), of({k})) for k in range(folds))


def fold_lacks(
    number: int, split: Split, entries: Sequence[SlideEntry], annotated: frozenset[str], labels: str
) -> list[str]:
    """What a fold has not, to learn from these labels and to be calibrated."""
    by_id = {entry.slide_id: entry for entry in entries}
    train, validation = ([by_id[i] for i in part if i in by_id] for part in (split.train, split.validation))
    lacking = _lacking(train, annotated, labels, "to learn from", "U" in labels)
    lacking += _lacking(validation, annotated, "Y", "to validate on", "U" in labels)
    if not split.test:
        lacking.append("slide to test on")
    return [f"fold {number} has no {what}" for what in lacking]


def _lacking(
    slides: Sequence[SlideEntry], annotated: frozenset[str], labels: str, use: str, marks: bool = True
) -> list[str]:
    lacking = []
    if marks and not any(slide.slide_id in annotated for slide in slides):
        lacking.append(f"annotated slide {use}")
    malignant = {slide.malignant for slide in slides}
    if "Y" in labels:
        named = ((False, "benign"), (True, "malignant"))
        lacking += [f"{name} slide {use}" for value, name in named if value not in malignant]
    if "S" in labels and len({slide.bethesda for slide in slides} - {None}) < 2:
        lacking.append(f"second TBS category {use}")
    return lacking


def holdout(part_of: Mapping[str, int], validation_part: int = 0) -> Split:
    """One part to validate on, the others to train on."""
    train = tuple(s for s, part in part_of.items() if part != validation_part)
    return Split(train, tuple(s for s, part in part_of.items() if part == validation_part))
