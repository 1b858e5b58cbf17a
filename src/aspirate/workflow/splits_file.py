"""Folds on disk: our `splits.json`, and the `splits_<k>.csv` that CLAM writes."""

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from aspirate.core.errors import TableError
from aspirate.core.records import SlideEntry
from aspirate.core.store import write_json
from aspirate.evaluation.splits import Split
from aspirate.slides.table import read_table

_CLAM_FILE = re.compile(r"splits_(\d+)\.csv")
_USES = {"train": "train", "val": "validation", "test": "test"}
"""Columns of CLAM's files, and what they are here."""
_PURPOSE = {"train": "train on", "validation": "validate on", "test": "test on"}
_EXPECTED = '{"folds": [{"train": […], "validation": […], "test": […]}, …]}'


def write_splits(path: Path, splits: Sequence[Split]) -> None:
    write_json(path, {"folds": [asdict(split) for split in splits]})


def read_splits(path: Path, entries: Mapping[str, SlideEntry]) -> tuple[Split, ...]:
    """Folds from a file of ours, from a folder of CLAM's, or from any one file of such a folder.

    `entries` are all slides of the cohort, those included that cannot be read.
    """
    splits = _read_clam(path) if path.is_dir() or _CLAM_FILE.fullmatch(path.name) else _read_own(path)
    if problems := _problems(splits, entries):
        raise TableError(str(path), problems)
    return splits


def _read_own(path: Path) -> tuple[Split, ...]:
    try:
        folds = json.loads(path.read_text(encoding="utf-8"))["folds"]
        return tuple(Split(**{use: tuple(map(str, fold[use])) for use in _USES.values()}) for fold in folds)
    except OSError as error:
        raise TableError(str(path), [f"cannot be read ({error.strerror}); check the path"]) from error
    except (ValueError, KeyError, TypeError) as error:
        raise TableError(str(path), [f"is no file of splits ({error}); expected {_EXPECTED}"]) from error


def _read_clam(path: Path) -> tuple[Split, ...]:
    folder = path if path.is_dir() else path.parent
    files = {int(found[1]): file for file in folder.iterdir() if (found := _CLAM_FILE.fullmatch(file.name))}
    if sorted(files) != list(range(len(files))) or not files:
        raise TableError(
            str(folder), ["has no splits_0.csv, splits_1.csv … without a gap; give CLAM's folder of splits"]
        )
    return tuple(_clam_split(files[k]) for k in sorted(files))


def _clam_split(path: Path) -> Split:
    table = read_table(path, TableError)
    if not set(_USES) <= set(table.header):
        raise TableError(str(path), [f"has no columns {', '.join(_USES)}; CLAM writes them"])
    rows = [dict(zip(table.header, cells, strict=False)) for _, cells in table.rows]
    return Split(**{use: tuple(row[column] for row in rows if row.get(column)) for column, use in _USES.items()})


def _problems(splits: Sequence[Split], entries: Mapping[str, SlideEntry]) -> list[str]:
    """No fold, parts without a slide, slides of no cohort, patients on two sides of a fold, slides tested twice."""
    problems = [] if splits else [f"has no fold; expected {_EXPECTED}"]
    for number, split in enumerate(splits):
        uses = asdict(split)
        problems += [f"fold {number} has no slide to {_PURPOSE[use]}; add some" for use in uses if not uses[use]]
        named = [slide for part in uses.values() for slide in part]
        problems += [f"fold {number}: slide {slide} is not in the cohort" for slide in named if slide not in entries]
        where: dict[str, str] = {}
        for use, part in uses.items():
            for slide in part:
                patient = entries[slide].patient if slide in entries else slide
                if where.setdefault(patient, use) != use:
                    problems.append(f"fold {number}: patient of {slide} is in {where[patient]} and in {use}")
    tested = Counter(slide for split in splits for slide in split.test)
    problems += [f"slide {slide} is tested in {n} folds; once is enough" for slide, n in tested.items() if n > 1]
    return problems
