"""Every file name, every write: atomic, and with its provenance inside."""

import json
import os
import platform
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from aspirate import __version__

COHORT_FILE = "cohort.csv"
TRUTH_FILE = "truth.csv"
ANNOTATION_FOLDER = "annotations"
ANNOTATION_TABLE = "annotations.csv"
SLIDE_FOLDER = "slides"
TILE_FOLDER = "tiles"
PROVENANCE_FILE = "provenance.json"
LEARNING_CURVE_FILE = "learning_curve.csv"


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """A temporary sibling to write to; it takes the final name only when whole and on disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield part
        with part.open("rb") as file:
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    with atomic_path(path) as part:
        part.write_text(text, encoding="utf-8", newline="\n")


def write_json(path: Path, value: object) -> None:
    write_text(path, json.dumps(value, indent=1, ensure_ascii=False) + "\n")


def provenance(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Which program made a file, from which settings."""
    return {"aspirate_version": __version__, "python": platform.python_version(), "settings": dict(settings)}
