"""Check slides, labels and annotations before an hour is spent on them; never stops at the first bad one."""

from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from aspirate.core.errors import CohortError
from aspirate.core.geometry import checked_mpp
from aspirate.core.progress import Advance, silent
from aspirate.core.records import SlideEntry
from aspirate.core.store import ANNOTATION_TABLE, COHORT_FILE
from aspirate.slides.annotations import AnnotationIndex, find_annotations
from aspirate.slides.cohort import Cohort, parse_cohort
from aspirate.slides.cohort_check import check_annotation_names, check_cohort
from aspirate.slides.examination import LEVELS, Examination, Finding
from aspirate.slides.slide_check import CheckedSlide, check_slide
from aspirate.slides.threads import available_threads
from aspirate.slides.trainable import count_labels, trainable_sets

TABLE_SUFFIXES = frozenset({".csv", ".tsv", ".txt"})
SLIDE_SUFFIXES = frozenset(
    {".bif", ".czi", ".dcm", ".jpeg", ".jpg", ".mrxs", ".ndpi", ".png", ".scn", ".svs", ".svslide"}
    | {".tif", ".tiff", ".vms", ".vmu"}
)


@dataclass(frozen=True, slots=True)
class Checkup:
    """How slides are looked at."""

    index: AnnotationIndex
    deep: bool
    mpp: float | None


Checking = Callable[[Sequence[SlideEntry], Checkup, Advance], Sequence[CheckedSlide]]
"""Looks at slides, and gives what it found in their order."""


def check_here(entries: Sequence[SlideEntry], how: Checkup, advance: Advance) -> list[CheckedSlide]:
    """In threads of this process: all for one slide after another to decode everything, one each to open files."""
    threads = available_threads()
    at_once, each = (1, threads) if how.deep else (threads, 1)
    checked: list[CheckedSlide] = []
    with ThreadPoolExecutor(at_once) as pool:
        for slide in pool.map(lambda entry: check_slide(entry, how.index, how.deep, how.mpp, each), entries):
            checked.append(slide)
            advance(1)
    return checked


def examine(
    path: str | Path,
    deep: bool = False,
    mpp: float | None = None,
    advance: Advance = silent,
    check: Checking = check_here,
) -> Examination:
    """A cohort's table or folder, a folder of slides, or one slide; `deep` decodes every pixel.

    `mpp` serves slides that have none in the cohort or in their file; `advance` counts slides.
    """
    path = Path(path)
    if mpp is not None:
        checked_mpp(mpp, "--mpp")
    cohort, problems = slides_at(path)
    index, table_problems = find_annotations(cohort.folder)
    findings = [Finding.error(None, f"cohort, {problem}") for problem in problems]
    findings += [Finding.error(None, f"{ANNOTATION_TABLE}, {problem}") for problem in table_problems]
    findings += check_cohort(cohort)
    if cohort.columns or path.is_dir():  # beside a single slide there may well be annotations of others
        findings += check_annotation_names(cohort, index)
    slides = check(cohort.entries, Checkup(index, deep, mpp), advance)
    findings += (finding for slide in slides for finding in slide.findings)
    return Examination(
        source=path,
        deep=deep,
        slides=tuple(slide.facts for slide in slides),
        findings=tuple(sorted(findings, key=lambda finding: LEVELS.index(finding.level))),
        counts=count_labels(slides),
        trainable=trainable_sets(slides),
    )


def slides_at(path: str | Path) -> tuple[Cohort, tuple[str, ...]]:
    """The cohort that a path stands for, and its problems; without a table, files name the slides."""
    path = Path(path)
    is_slide = path.is_file() and path.suffix.lower() not in TABLE_SUFFIXES
    is_folder_of_slides = path.is_dir() and not (path / COHORT_FILE).exists()
    if not is_slide and not is_folder_of_slides:
        return parse_cohort(path)
    files = [path] if is_slide else sorted(filter(_is_slide_file, path.iterdir()))
    if not files:
        raise CohortError(str(path), [f"there is neither a {COHORT_FILE} nor a slide in this folder"])
    stems = Counter(file.stem for file in files)
    names = (file.stem if stems[file.stem] == 1 else file.name for file in files)
    entries = tuple(SlideEntry(name, file) for name, file in zip(names, files, strict=True))
    return Cohort(path.parent if is_slide else path, entries), ()


def _is_slide_file(path: Path) -> bool:
    return path.is_file() and path.suffix.lower() in SLIDE_SUFFIXES and not path.name.startswith(".")
