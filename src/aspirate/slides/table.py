"""A CSV as people save it: any of three delimiters, any line ending, with or without a byte order mark."""

import csv
import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from aspirate.core.errors import TableError

DELIMITERS = (",", ";", "\t")
BLANK = frozenset({"", "na", "n/a", "nan", "none", "null", "?", "-"})
"""Lower-case spellings of an unknown value."""


@dataclass(frozen=True, slots=True)
class Table:
    """Header and rows as text, each row with the line it begins at, as a person counts them.

    Cells are stripped, and those that say that nothing is known are empty.
    """

    header: tuple[str, ...]
    rows: Iterator[tuple[int, list[str]]]


def fit(cells: list[str], width: int) -> list[str]:
    """A row as wide as its header: cells left out at its end are unknown, one too many is an error."""
    if len(cells) == width:
        return cells
    if any(cells[width:]):
        remedy = "put a value that holds the delimiter in quotation marks"
        raise ValueError(f"{len(cells)} cells under {width} column names; {remedy}")
    return cells[:width] + [""] * (width - len(cells))


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known name most like a word, None if nothing is."""
    close = get_close_matches(word.lower(), list(known), n=1, cutoff=0.6)
    return close[0] if close else None


def missing_column(name: str, header: Iterable[str]) -> str:
    close = nearest(name, (column.lower() for column in header))
    hint = f"rename “{close}” if that is what it holds" if close else "add it to the header"
    return f"header: there is no column “{name}”; {hint}"


def read_table(path: Path, error: type[TableError]) -> Table:
    """Header and rows of a file that is a table; what is no table at all raises `error`."""
    text = _text(path, error)
    if not text.strip():
        raise error(str(path), ["the file is empty; it needs a header and one row per slide"])
    rows = _rows(path, text, error)
    _, header = next(rows)
    return Table(tuple(header), rows)


def _text(path: Path, error: type[TableError]) -> str:
    try:
        data = path.read_bytes()
    except FileNotFoundError as exc:
        raise error(str(path), ["there is no such file; check the path"]) from exc
    except OSError as exc:
        raise error(str(path), [f"the file cannot be read ({exc.strerror}); check what it is"]) from exc
    if b"\0" in data:
        raise error(str(path), ["this is not plain text; save the table as “CSV UTF-8”"])
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        at = exc.start + len(data) - len(exc.object)  # the codec counts from behind a byte order mark
        row, byte = data.count(b"\n", 0, at) + 1, at - data.rfind(b"\n", 0, at)
        problem = f"row {row}, byte {byte} of the row: 0x{data[at]:02x} is not UTF-8 text"
        raise error(str(path), [f"{problem}; save the table as “CSV UTF-8”"]) from exc


def _rows(path: Path, text: str, error: type[TableError]) -> Iterator[tuple[int, list[str]]]:
    """Rows that hold anything, each with its first line, for a quoted cell may span several."""
    row = 1
    try:
        first_line = text.lstrip().splitlines()[0]
        delimiter = max(DELIMITERS, key=lambda mark: len(next(csv.reader([first_line], delimiter=mark))))
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
        for cells in reader:
            known = [cell if (cell := text.strip()).lower() not in BLANK else "" for text in cells]
            if any(known):
                yield row, known
            row = reader.line_num + 1
    except csv.Error as exc:
        raise error(str(path), [f"row {row}: {exc}; quotation marks must come in pairs"]) from exc
