"""A cohort before the doctor: labels that contradict each other, patients that leak, files that repeat."""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from aspirate.core.labels import TRAINABLE_BETHESDA, contradictions
from aspirate.core.records import SlideEntry
from aspirate.slides.annotations import AnnotationIndex
from aspirate.slides.cohort import ALIASES, COLUMNS, READER_PREFIX, Cohort
from aspirate.slides.examination import Finding
from aspirate.slides.table import nearest

NAMES_SHOWN = 5
Item = TypeVar("Item")


def check_cohort(cohort: Cohort) -> Iterator[Finding]:
    yield from _columns(cohort)
    yield from _labels(cohort.entries)
    yield from _patients(cohort.entries)
    yield from _folds(cohort.entries)
    yield from _repeated_files(cohort.entries)


def check_annotation_names(cohort: Cohort, index: AnnotationIndex) -> Iterator[Finding]:
    """Annotations of slides that the cohort does not have."""
    known = [entry.slide_id for entry in cohort.entries]
    strange = sorted(index.slide_ids - set(known))
    if strange:
        close = nearest(strange[0], known)
        hint = f"rename {strange[0]!r} if it is {close!r}" if close else "add the slides, or remove them"
        what = f"there are annotations of slides that are not in the cohort: {_listed(strange)}"
        yield Finding("warning", None, what, hint)


def _columns(cohort: Cohort) -> Iterator[Finding]:
    for name in cohort.unused_columns:
        close = nearest(name, [*COLUMNS, *ALIASES, READER_PREFIX])
        meaning = ALIASES.get(close, close) if close else None
        hint = f"rename it to {meaning} if that is what it holds" if meaning else "nothing needs to be done"
        yield Finding("note", None, f"column {name!r} is not used", hint)


def _labels(entries: Iterable[SlideEntry]) -> Iterator[Finding]:
    for entry in entries:
        if entry.bethesda is not None and entry.bethesda not in TRAINABLE_BETHESDA:
            what = f"TBS {entry.bethesda}: the slide is inadequate and will not be used for training"
            yield Finding("warning", entry.slide_id, what, "nothing, if the category is right")
        if contradiction := contradictions(entry.malignant, entry.bethesda):
            yield Finding("warning", entry.slide_id, contradiction, "check both labels; it happens, but rarely")


def _patients(entries: Iterable[SlideEntry]) -> Iterator[Finding]:
    slides: defaultdict[str, list[SlideEntry]] = defaultdict(list)
    for entry in entries:
        if entry.patient_id is not None:
            slides[entry.patient_id].append(entry)
    for patient, own in slides.items():
        folds = _values(own, lambda entry: entry.fold)
        if len(folds) > 1:
            what = f"patient {patient!r} is in folds {_listed(folds)}"
            yield Finding("error", None, what, "keep all slides of a patient in one fold, else results leak")
        if len(_values(own, lambda entry: entry.malignant)) > 1:
            what = f"patient {patient!r} has benign and malignant slides: {_listed([e.slide_id for e in own])}"
            yield Finding("warning", None, what, "check that they are of different nodules")
        sites = _values(own, lambda entry: entry.site)
        if len(sites) > 1:
            what = f"patient {patient!r} is at sites {_listed(sites)}"
            yield Finding("note", None, what, "a site that is held out will share this patient")


def _folds(entries: Sequence[SlideEntry]) -> Iterator[Finding]:
    without = [entry.slide_id for entry in entries if entry.fold is None]
    if without and len(without) < len(entries):
        what = f"{len(without)} of {len(entries)} slides have no fold: {_listed(without)}"
        yield Finding("warning", None, what, "give every slide a fold, or none")


def _repeated_files(entries: Iterable[SlideEntry]) -> Iterator[Finding]:
    """Files of the same content; only those of the same size are read."""
    files = {entry.path.resolve() for entry in entries}
    by_size = _grouped((path for path in files if path.is_file()), lambda path: path.stat().st_size)
    alike = [group for group in by_size if len(group) > 1]
    same = {path: digest for group in alike for path in group if (digest := _digest(path)) is not None}
    for group in _grouped(entries, lambda entry: same.get(entry.path.resolve(), entry.path.resolve())):
        if len(group) > 1:
            names = [entry.slide_id for entry in group]
            what = f"the same picture is in the cohort {len(group)} times: {_listed(names)}"
            yield Finding("error", None, what, "keep one of them, else results leak")


def _digest(path: Path) -> str | None:
    """SHA-256; None for a file that cannot be read, which is that slide's own finding."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None


def _grouped(items: Iterable[Item], key: Callable[[Item], Hashable]) -> list[list[Item]]:
    groups: defaultdict[Hashable, list[Item]] = defaultdict(list)
    for item in items:
        groups[key(item)].append(item)
    return list(groups.values())


def _values(entries: Iterable[SlideEntry], value: Callable[[SlideEntry], object]) -> list[str]:
    return sorted({str(known) for entry in entries if (known := value(entry)) is not None})


def _listed(names: Sequence[str]) -> str:
    more = len(names) - NAMES_SHOWN
    return ", ".join(names[:NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")
