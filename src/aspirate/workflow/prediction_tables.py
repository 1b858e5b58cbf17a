"""Predictions of any program, and what readers said, as records.

Read are the columns of `predictions.csv`, of which only `slide_id` and one of `score` and `probability` must be there,
and CLAM's `slide_id,Y,Y_hat,p_0,p_1`.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from aspirate.core.errors import TableError
from aspirate.core.labels import parse_bethesda, parse_malignant
from aspirate.core.predictions import COLUMNS, Prediction, parse_status
from aspirate.evaluation.readers import Reader, readers_from
from aspirate.slides.table import Table, fit, missing_column, read_table

ALIASES = {"y": "malignant", "label": "malignant", "y_hat": "predicted_malignant", "p_1": "probability"}
READER_COLUMNS = ("slide_id", "reader", "bethesda")


def read_any_predictions(path: Path) -> tuple[Prediction, ...]:
    """One row for each slide and method; all that cannot be understood is said at once."""
    table = read_table(path, TableError)
    columns = _columns(path, table)
    if "score" not in columns and "probability" not in columns:
        raise TableError(
            str(path), [missing_column("score", table.header).replace("“score”", "“score”, “probability” or “p_1”")]
        )
    predictions, problems = [], []
    titles = [title.lower() for title in table.header]
    for number, cells in table.rows:
        try:
            row = fit(cells, len(table.header))
            _check_clam(dict(zip(titles, row, strict=True)))
            predictions.append(_prediction(_known(row, columns)))
        except ValueError as error:
            problems.append(f"row {number}: {error}")
    if problems:
        raise TableError(str(path), problems)
    return tuple(predictions)


def _columns(path: Path, table: Table) -> dict[str, int]:
    """Where each column is that is understood."""
    titles = [title.lower() for title in table.header]
    if "p_2" in titles:
        raise TableError(str(path), ["header: p_0, p_1 and p_2 are of three classes; give two, benign and malignant"])
    meant = [ALIASES.get(title, title) for title in titles]
    columns = {name: meant.index(name) for name in COLUMNS if name in meant}
    for name in columns:
        if meant.count(name) > 1:
            said = ", ".join(title for title, what in zip(table.header, meant, strict=True) if what == name)
            raise TableError(str(path), [f"header: {said} all mean {name}; keep one of them"])
    if "slide_id" not in columns:
        raise TableError(str(path), [missing_column("slide_id", table.header)])
    return columns


def _check_clam(cells: Mapping[str, str]) -> None:
    benign, malignant = cells.get("p_0"), cells.get("p_1")
    if benign and malignant and not abs(_number(benign) + _number(malignant) - 1) < 0.01:
        raise ValueError(f"p_0 {benign} and p_1 {malignant} do not add up to 1; give probabilities of two classes")


def _known(cells: list[str], columns: Mapping[str, int]) -> dict[str, str]:
    return {name: cells[at] for name, at in columns.items() if cells[at]}


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError("expected a number") from None


def _count(text: str) -> int:
    number = _number(text)
    if not number.is_integer() or number < 0:
        raise ValueError("expected a whole number, 0 or more")
    return int(number)


_READ: Mapping[str, Callable[[str], Any]] = {
    **dict.fromkeys(("malignant", "predicted_malignant", "adequate"), parse_malignant),
    **dict.fromkeys(("bethesda", "predicted_bethesda"), parse_bethesda),
    **dict.fromkeys(("score", "probability"), _number),
    "informative_tiles": _count,
    "status": parse_status,
}


def _prediction(cells: Mapping[str, str]) -> Prediction:
    if "slide_id" not in cells:
        raise ValueError("slide_id is blank; enter it")
    values: dict[str, Any] = {}
    for name, text in cells.items():
        try:
            values[name] = _READ.get(name, str)(text)
        except ValueError as error:
            raise ValueError(f"{name} {text!r}: {error}; correct it, or leave it blank if unknown") from error
    return Prediction(**values)


def _category(text: str) -> int:
    try:
        return parse_bethesda(text)
    except ValueError as error:
        raise ValueError(f"bethesda {text!r}: {error}; correct it, or leave it blank if not read") from error


def read_readers(path: Path) -> tuple[Reader, ...]:
    """From `slide_id,reader,bethesda`; a blank category is a slide not read."""
    table = read_table(path, TableError)
    at = {title.lower(): i for i, title in enumerate(table.header)}
    missing = [missing_column(name, table.header) for name in READER_COLUMNS if name not in at]
    if missing:
        raise TableError(str(path), missing)
    readings: dict[tuple[str, str], tuple[int, int]] = {}
    problems = []
    for number, cells in table.rows:
        try:
            row = fit(cells, len(table.header))
            slide_id, reader, category = (row[at[name]] for name in READER_COLUMNS)
            if not slide_id or not reader:
                raise ValueError("slide_id or reader is blank; enter both")
            if not category:
                continue
            first, _ = readings.setdefault((slide_id, reader), (number, _category(category)))
            if first != number:
                raise ValueError(f"{reader} read {slide_id} in row {first} too; keep one")
        except ValueError as error:
            problems.append(f"row {number}: {error}")
    if problems:
        raise TableError(str(path), problems)
    return readers_from((slide_id, reader, tbs) for (slide_id, reader), (_, tbs) in readings.items())
