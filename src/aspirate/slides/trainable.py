"""What can be trained with the labels at hand, and how many there are of each.

Patients are counted, since slides of one patient stay together: a label needs two patients of each of
its values, one to learn from and one to hold out, and five for cross-validation in five folds.
* Y (malignant): benign and malignant
* S (bethesda): at least two categories of TBS 2 to 6
* U (informative): annotations
* V (abnormality): at least two grades of annotations
Slides that cannot be read, have no resolution, or are TBS 1 are not counted.
"""

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

from aspirate.core.labels import TRAINABLE_BETHESDA, Abnormality
from aspirate.slides.examination import Trainable
from aspirate.slides.slide_check import CheckedSlide

PATIENTS_TO_TRAIN = 2
PATIENTS_TO_CROSSVAL = 5
LABEL_SETS = ("Y", "S", "YS", "UY", "US", "UV", "UYS", "UYV", "USV", "UYSV")
"""Without U the whole slide is looked at, with U the tiles that were selected."""

_VALUES_NEEDED = {"U": 1, "Y": 2, "S": 2, "V": 2}
_WHOSE = {
    "U": "with annotations",
    "Y": "of the rarer of benign and malignant",
    "S": "of the second most frequent TBS category",
    "V": "with the second most frequent grade",
}
_NONE_AT_ALL = {
    "U": "no usable slide has annotations",
    "Y": "no usable slide is labelled benign or malignant",
    "S": "no usable slide has a TBS category of 2 to 6",
    "V": "no annotation of a usable slide has a grade",
}


def trainable_sets(slides: Iterable[CheckedSlide]) -> tuple[Trainable, ...]:
    patients = _patients_by_value(slides)
    return tuple(_judged(labels, patients) for labels in LABEL_SETS)


def count_labels(slides: Sequence[CheckedSlide]) -> dict[str, Any]:
    """Numbers of slides by label, and of annotations by grade; every value is plain."""
    entries = [slide.entry for slide in slides]
    grades = sum((slide.grades for slide in slides), Counter[Abnormality | None]())
    malignant = Counter(entry.malignant for entry in entries)
    bethesda = Counter(entry.bethesda for entry in entries)
    return {
        "slides": len(slides),
        "usable": sum(slide.facts.status == "ok" for slide in slides),
        "patients": len({entry.patient for entry in entries}),
        "annotated_slides": sum(slide.facts.annotations > 0 for slide in slides),
        "annotations": grades.total(),
        "malignant": {"benign": malignant[False], "malignant": malignant[True], "unknown": malignant[None]},
        "bethesda": {str(tbs): bethesda[tbs] for tbs in range(1, 7)} | {"unknown": bethesda[None]},
        "abnormality": {grade.name.lower(): grades[grade] for grade in Abnormality} | {"ungraded": grades[None]},
        "sites": _sorted_counts(entry.site for entry in entries),
        "folds": _sorted_counts(entry.fold for entry in entries),
        "readers": _sorted_counts(name for entry in entries for name in entry.readers),
    }


def _sorted_counts(values: Iterable[str | int | None]) -> dict[str, int]:
    counts = Counter(value for value in values if value is not None)
    return {str(value): counts[value] for value in sorted(counts, key=str)}


def _patients_by_value(slides: Iterable[CheckedSlide]) -> Mapping[str, Mapping[Hashable, int]]:
    """Of each letter, how many patients have each of its values."""
    patients: dict[str, defaultdict[Hashable, set[str]]] = {letter: defaultdict(set) for letter in "UYSV"}
    for slide in slides:
        entry = slide.entry
        if slide.facts.status != "ok" or entry.bethesda not in (None, *TRAINABLE_BETHESDA):
            continue
        values: dict[str, Sequence[Hashable]] = {
            "U": ["annotated"] if slide.grades else [],
            "Y": [entry.malignant],
            "S": [entry.bethesda],
            "V": list(slide.grades),
        }
        for letter, known in values.items():
            for value in known:
                if value is not None:
                    patients[letter][value].add(entry.patient)
    return {letter: {value: len(who) for value, who in sets.items()} for letter, sets in patients.items()}


def _judged(labels: str, patients: Mapping[str, Mapping[Hashable, int]]) -> Trainable:
    counts = {letter: _fewest(patients[letter], _VALUES_NEEDED[letter]) for letter in labels}
    possible = min(counts.values()) >= PATIENTS_TO_TRAIN
    crossval = min(counts.values()) >= PATIENTS_TO_CROSSVAL
    if crossval:
        why = "; ".join(f"{letter}: {counts[letter]} patients {_WHOSE[letter]}" for letter in labels)
    else:
        needed = PATIENTS_TO_CROSSVAL if possible else PATIENTS_TO_TRAIN
        lacking = (
            f"{letter}: {count} of the {needed} patients needed {_WHOSE[letter]}"
            if patients[letter]
            else f"{letter}: {_NONE_AT_ALL[letter]}"
            for letter, count in counts.items()
            if count < needed
        )
        why = ("to cross-validate, " if possible else "") + "; ".join(lacking)
    return Trainable(labels, possible, crossval, why)


def _fewest(counts: Mapping[Hashable, int], needed: int) -> int:
    """Patients of the rarest among the `needed` most frequent values."""
    most = sorted(counts.values(), reverse=True)
    return most[needed - 1] if len(most) >= needed else 0
