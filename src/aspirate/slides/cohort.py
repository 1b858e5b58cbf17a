"""The table of a laboratory's slides: where each is, whose it is, and what is known of it.

A cell that is blank (or NA, N/A, nan, none, null, ?, -) is unknown. Paths are relative to the table.
"""

import csv
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import isfinite
from pathlib import Path
from typing import Any

from aspirate.core.errors import CohortError
from aspirate.core.geometry import MPP_RANGE
from aspirate.core.labels import parse_bethesda, parse_malignant
from aspirate.core.records import SlideEntry
from aspirate.core.store import COHORT_FILE, atomic_path
from aspirate.slides.table import Table, fit, missing_column, read_table

COLUMNS = ("slide_id", "path", "patient_id", "malignant", "bethesda", "mpp", "site", "fold")
REQUIRED = ("slide_id", "path")
READER_PREFIX = "reader_"
ALIASES = {
    "case_id": "patient_id",
    "patient": "patient_id",
    "label": "malignant",
    "tbs": "bethesda",
    "slide": "path",
    "filename": "path",
    "wsi": "path",
}
LONGEST_ID_BYTES = 200
"""File names hold at most 255 bytes, and a suffix follows the id."""


@dataclass(frozen=True, slots=True)
class Cohort:
    folder: Path
    entries: tuple[SlideEntry, ...]
    columns: tuple[str, ...] = ()
    unused_columns: tuple[str, ...] = ()
    reader_names: tuple[str, ...] = ()

    @classmethod
    def read(cls, path: str | Path) -> "Cohort":
        """A cohort without a single problem, or an error that lists every one."""
        cohort, problems = parse_cohort(path)
        if problems:
            raise CohortError(str(path), problems)
        return cohort

    @staticmethod
    def write(path: str | Path, entries: Iterable[SlideEntry]) -> None:
        """A table that `read` gives back; paths inside its folder become relative to it."""
        path, entries = Path(path), tuple(entries)
        readers = tuple(dict.fromkeys(name for entry in entries for name in entry.readers))
        folder = path.parent.absolute()
        with atomic_path(path) as part, part.open("w", encoding="utf-8", newline="") as file:
            table = csv.writer(file, lineterminator="\n")
            table.writerow([*COLUMNS, *(READER_PREFIX + name for name in readers)])
            for entry in entries:
                values = {name: getattr(entry, name) for name in COLUMNS}
                values["path"] = _relative(entry.path.absolute(), folder).as_posix()
                values["malignant"] = None if entry.malignant is None else int(entry.malignant)
                table.writerow([*values.values(), *(entry.readers.get(name) for name in readers)])


def parse_cohort(path: str | Path) -> tuple[Cohort, tuple[str, ...]]:
    """What can be understood of a cohort, and every problem of the rest.

    A cell that makes no sense becomes unknown; a row without a usable id or a path is left out.
    """
    path = Path(path)
    path = path / COHORT_FILE if path.is_dir() else path
    table = read_table(path, CohortError)
    columns, problems = _columns(table.header)
    missing = [missing_column(name, table.header) for name in REQUIRED if name not in columns]
    if missing:
        raise CohortError(str(path), missing)
    entries = _entries(table, columns, path.parent, problems)
    if not entries and not problems:
        problems.append("row 2: there is no slide; add one row for each")
    used = set(columns.values())
    cohort = Cohort(
        folder=path.parent,
        entries=entries,
        columns=table.header,
        unused_columns=tuple(name for i, name in enumerate(table.header) if name and i not in used),
        reader_names=tuple(_reader_name(name) for name in columns if name.startswith(READER_PREFIX)),
    )
    return cohort, tuple(problems)


def canonical_id(slide_id: str) -> str:
    """Equal for ids whose files would have the same name on some file system."""
    return unicodedata.normalize("NFC", slide_id).casefold()


def id_problem(slide_id: str) -> str | None:
    """Why an id cannot name a file."""
    if "/" in slide_id or "\\" in slide_id or ".." in slide_id or slide_id == ".":
        return "is no file name; leave out slashes and double dots"
    if not slide_id.isprintable():
        return "has characters that do not print; leave them out"
    if len(slide_id.encode(errors="surrogatepass")) > LONGEST_ID_BYTES:
        return f"is longer than {LONGEST_ID_BYTES} bytes; shorten it"
    return None


def _relative(path: Path, folder: Path) -> Path:
    return path.relative_to(folder) if path.is_relative_to(folder) else path


def _reader_name(column: str) -> str:
    return column[len(READER_PREFIX) :]


def _columns(header: tuple[str, ...]) -> tuple[dict[str, int], list[str]]:
    """The position of every column that is understood; readers keep the case of their names."""
    columns: dict[str, int] = {}
    problems: list[str] = []
    # a column's own name goes before an alias of it
    for i, title in sorted(enumerate(header), key=lambda pair: pair[1].lower() in ALIASES):
        name = ALIASES.get(title.lower(), title.lower())
        if name.startswith(READER_PREFIX):
            if name == READER_PREFIX:
                problems.append(f"header: column “{title}” names no reader; call it reader_<name>")
                continue
            name = READER_PREFIX + title[len(READER_PREFIX) :]
        elif name not in COLUMNS:
            continue
        if name.lower() in (known.lower() for known in columns):
            problems.append(f"header: column “{title}” is the second that means {name}; keep one")
            continue
        columns[name] = i
    return dict(sorted(columns.items(), key=lambda pair: pair[1])), problems


def _mpp(text: str) -> float:
    low, high = MPP_RANGE
    try:
        mpp = float(text.replace(",", "."))
    except ValueError:
        mpp = float("nan")
    if not (isfinite(mpp) and low <= mpp <= high):
        raise ValueError(f"expected micrometres per pixel, {low:g} to {high:g}, as 0.25 for 40 ×")
    return mpp


def _fold(text: str) -> int:
    digits = text.removesuffix(".0")
    if not (digits.isascii() and digits.isdecimal()):
        raise ValueError("expected a whole number from 0 on")
    return int(digits)


# the same few values fill a column, so each is understood once
_BETHESDA = lru_cache(4096)(parse_bethesda)
_PARSERS: Mapping[str, Callable[[str], Any]] = {
    "patient_id": str,
    "malignant": lru_cache(4096)(parse_malignant),
    "bethesda": _BETHESDA,
    "mpp": lru_cache(4096)(_mpp),
    "site": str,
    "fold": lru_cache(4096)(_fold),
}


def _entries(table: Table, columns: Mapping[str, int], folder: Path, problems: list[str]) -> tuple[SlideEntry, ...]:
    first_rows: dict[str, int] = {}
    entries: list[SlideEntry] = []
    for row, cells in table.rows:
        found: list[str] = []
        try:
            entry = _entry(fit(cells, len(table.header)), columns, folder, found)
        except ValueError as exc:
            problems.append(f"row {row}: {exc}")
            continue
        first = first_rows.setdefault(canonical_id(entry.slide_id), row)
        if first != row:
            found.append(f"slide_id {entry.slide_id!r} is that of row {first} too; give each its own")
        if found:
            problems += [f"row {row}: {problem}" for problem in found]
        entries.append(entry)
    return tuple(entries)


def _entry(cells: list[str], columns: Mapping[str, int], folder: Path, problems: list[str]) -> SlideEntry:
    """One row; problems of labels are noted, a row that names no slide raises."""
    slide_id, path = cells[columns["slide_id"]], cells[columns["path"]]
    if not slide_id or not path:
        blank = [name for name in REQUIRED if not cells[columns[name]]]
        raise ValueError(f"there is no {' and no '.join(blank)}; enter what is missing")
    if why := id_problem(slide_id):
        raise ValueError(f"slide_id {slide_id!r} {why}")
    known: dict[str, Any] = {}
    readers: dict[str, int] = {}
    for name, at in columns.items():
        text = cells[at]
        if not text or name in REQUIRED:
            continue
        try:
            if name in _PARSERS:
                known[name] = _PARSERS[name](text)
            else:
                readers[_reader_name(name)] = _BETHESDA(text)
        except ValueError as exc:
            problems.append(f"{name} {text!r}: {exc}; correct it, or leave it blank if unknown")
    return SlideEntry(slide_id, folder / path, readers=readers, **known)
