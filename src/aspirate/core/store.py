"""Every file name, every write: atomic, and with its provenance inside."""

import json
import os
import platform
import re
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from aspirate import __version__

COHORT_FILE = "cohort.csv"
TRUTH_FILE = "truth.csv"
ANNOTATION_FOLDER = "annotations"
ANNOTATION_TABLE = "annotations.csv"
SLIDE_FOLDER = "slides"
TILE_FOLDER = "tiles"
CONFIG_FILE, SPLITS_FILE = "config.toml", "splits.json"
PROVENANCE_FILE = "provenance.json"
LEARNING_CURVE_FILE = "learning_curve.csv"
REPORT_FILE = Path("report", "index.html")


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """A temporary sibling to write to; it takes the final name only when whole and on disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{_host()}-{os.getpid()}.part")
    try:
        yield part
        with part.open("rb") as file:
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _host() -> str:
    return socket.gethostname().partition(".")[0]


A_DAY_S = 86_400.0


def clear_parts(folder: Path) -> None:
    """Remove what programs that were killed left half written; a day is enough for one that may still write."""
    for part in folder.rglob(".*.part"):
        made_by = re.fullmatch(r"\..+\.(.+)-(\d+)\.part", part.name)
        if made_by is None:  # not one of ours
            continue
        here = made_by[1] == _host()
        with suppress(FileNotFoundError):  # it may just have been given its name
            if (here and not is_alive(int(made_by[2]))) or time.time() - part.stat().st_mtime > A_DAY_S:
                part.unlink()


def is_alive(pid: int) -> bool:
    """Whether a process of this machine runs, as far as can be told."""
    if os.name == "nt":  # where signal 0 is Ctrl-C
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # another person's
        pass
    return True


def write_text(path: Path, text: str) -> None:
    with atomic_path(path) as part:
        part.write_text(text, encoding="utf-8", newline="\n")


def write_json(path: Path, value: object) -> None:
    write_text(path, json.dumps(value, indent=1, ensure_ascii=False) + "\n")


def provenance(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Which program made a file, from which settings."""
    return {"aspirate_version": __version__, "python": platform.python_version(), "settings": dict(settings)}
