"""What a method says of each slide, as a record and as `predictions.csv`."""

import csv
from collections.abc import Callable, Iterable, Mapping
from dataclasses import astuple, dataclass, fields
from io import StringIO
from pathlib import Path
from typing import Any, Literal, get_args

from aspirate.core.errors import TableError
from aspirate.core.store import write_text

Status = Literal["ok", "inadequate", "failed"]


@dataclass(frozen=True, slots=True)
class Prediction:
    """One slide by one method; the fields are the columns. None is unknown, or not to be said."""

    slide_id: str
    fold: str = ""
    method: str = ""
    malignant: bool | None = None
    bethesda: int | None = None
    score: float | None = None
    probability: float | None = None
    predicted_malignant: bool | None = None
    predicted_bethesda: int | None = None
    adequate: bool | None = None
    informative_tiles: int | None = None
    status: Status = "ok"
    error: str = ""


COLUMNS = tuple(field.name for field in fields(Prediction))


def write_predictions(path: Path, predictions: Iterable[Prediction]) -> None:
    text = StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(COLUMNS)
    table.writerows([_cell(value) for value in astuple(prediction)] for prediction in predictions)
    write_text(path, text.getvalue())


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(int(value))
    return f"{value:.6g}" if isinstance(value, float) else str(value).replace("\n", " ")


def read_predictions(path: Path) -> tuple[Prediction, ...]:
    """What `write_predictions` wrote, numbers to six digits; all that is wrong is said at once."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            header, *rows = list(csv.reader(file)) or [[]]
    except OSError as error:
        raise TableError(str(path), [f"cannot be read ({error.strerror}); check the path"]) from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise TableError(str(path), [f"is no table in UTF-8 ({error}); restore it, or predict again"]) from error
    missing = [name for name in COLUMNS if name not in header]
    if missing:
        raise TableError(str(path), [f"has no column {', '.join(missing)}; restore it, or predict again"])
    predictions, problems = [], []
    for number, cells in enumerate(rows, start=2):
        try:
            predictions.append(_prediction(dict(zip(header, cells, strict=True))))
        except ValueError as error:
            problems.append(f"row {number}: {error}; correct it, or predict again")
    if problems:
        raise TableError(str(path), problems)
    return tuple(predictions)


def _flag(text: str) -> bool:
    if text not in ("0", "1"):
        raise ValueError("expected 0 or 1")
    return text == "1"


def parse_status(text: str) -> Status:
    for status in get_args(Status):
        if text == status:
            return status  # type: ignore[no-any-return]
    raise ValueError(f"expected one of {', '.join(get_args(Status))}")


_READ: Mapping[str, Callable[[str], Any]] = {
    **dict.fromkeys(("malignant", "predicted_malignant", "adequate"), _flag),
    **dict.fromkeys(("bethesda", "predicted_bethesda", "informative_tiles"), int),
    **dict.fromkeys(("score", "probability"), float),
    "status": parse_status,
}
_TEXTS = ("slide_id", "fold", "method", "error")


def _prediction(cells: Mapping[str, str]) -> Prediction:
    values: dict[str, Any] = {name: cells[name] for name in _TEXTS}
    for name, read in _READ.items():
        if not cells[name] and name != "status":
            continue  # unknown, which is the default
        try:
            values[name] = read(cells[name])
        except ValueError as error:
            raise ValueError(f"{name} {cells[name]!r}: {error}") from error
    return Prediction(**values)
