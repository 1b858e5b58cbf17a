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


def deal(
    entries: Sequence[SlideEntry], parts: int, seed: int, annotated: frozenset[str] = frozenset()
) -> dict[str, int]:
    """A part 0 … parts − 1 for each slide.

    Patients of one kind (malignant, highest category, annotated or not) are shuffled and dealt out one by one, each
    kind going on where the last one stopped, so that parts differ by at most one patient of a kind and in all.
    """
    patients: defaultdict[str, list[SlideEntry]] = defaultdict(list)
    for entry in entries:
        patients[entry.patient].append(entry)
    if len(patients) < parts:
        raise ConfigError(
            f"{len(patients)} patients cannot be dealt into {parts} parts; use fewer parts, or more slides"
        )
    kinds: defaultdict[tuple[int, int, int], list[str]] = defaultdict(list)
    for patient in sorted(patients):
        kinds[_kind(patients[patient], annotated)].append(patient)
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


def holdout(part_of: Mapping[str, int], validation_part: int = 0) -> Split:
    """One part to validate on, the others to train on."""
    train = tuple(s for s, part in part_of.items() if part != validation_part)
    return Split(train, tuple(s for s, part in part_of.items() if part == validation_part))
