"""What a method says of each slide, as a record and as `predictions.csv`."""

import csv
from collections.abc import Iterable
from dataclasses import astuple, dataclass, fields
from io import StringIO
from pathlib import Path
from typing import Literal

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
