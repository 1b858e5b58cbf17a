"""How well a method does with so many local annotations, as records and as `learning_curve.csv`."""

import csv
from collections.abc import Iterable
from dataclasses import astuple, dataclass, fields
from io import StringIO
from pathlib import Path

from aspirate.core.errors import TableError
from aspirate.core.store import write_text


@dataclass(frozen=True, slots=True)
class LearningPoint:
    """One fold trained with a share of the annotations; the fields are the columns."""

    share: float
    fold: str
    annotations: int
    """Learned from."""
    slides: int
    """Tested."""
    auc: float


COLUMNS = tuple(field.name for field in fields(LearningPoint))


def write_learning_points(path: Path, points: Iterable[LearningPoint]) -> None:
    text = StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(COLUMNS)
    table.writerows([f"{v:.6g}" if isinstance(v, float) else v for v in astuple(point)] for point in points)
    write_text(path, text.getvalue())


def read_learning_points(path: Path) -> tuple[LearningPoint, ...]:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        return tuple(
            LearningPoint(float(r["share"]), r["fold"], int(r["annotations"]), int(r["slides"]), float(r["auc"]))
            for r in rows
        )
    except (OSError, KeyError, ValueError, TypeError) as error:
        raise TableError(str(path), [f"is no learning curve ({error}); remove it, or make it anew"]) from error
