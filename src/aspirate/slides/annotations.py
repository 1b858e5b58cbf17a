"""Where the annotations of a cohort are, and reading them: beside the table, one of these for a slide.

* `annotations/<slide_id>.geojson` or `.json`: QuPath (see `geojson`)
* `annotations/<slide_id>.xml`: Aperio ImageScope (see `aperio_xml`)
* rows of `annotations.csv`: `slide_id,x,y[,width,height],abnormality` in level-0 pixels; a row with a
  width and a height is a box whose top left corner is x, y, any other row a point

A slide annotated in two of them is an error: a union would count every place twice.
"""

import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import shapely

from aspirate.core.errors import AnnotationError
from aspirate.core.labels import parse_abnormality
from aspirate.core.records import Annotation, SlideEntry
from aspirate.core.store import ANNOTATION_FOLDER, ANNOTATION_TABLE
from aspirate.slides.aperio_xml import read_aperio_xml
from aspirate.slides.geojson import FARTHEST_PX0, read_geojson
from aspirate.slides.table import fit, missing_column, read_table

SUFFIXES = (".geojson", ".json", ".xml")
REQUIRED = ("slide_id", "x", "y")
COLUMNS = (*REQUIRED, "width", "height", "abnormality")


@dataclass(frozen=True, slots=True)
class AnnotationIndex:
    """Every annotation of a cohort by slide: files are read when asked for, the table is read already."""

    files: Mapping[str, tuple[Path, ...]]
    rows: Mapping[str, tuple[Annotation, ...]]
    share: float = 1.0
    """Below 1, so much of the annotations is read, chosen by chance but always the same; less is a part of more."""

    @classmethod
    def of(cls, folder: Path) -> "AnnotationIndex":
        """The annotations beside a cohort's table, or an error that lists every problem of their table."""
        index, problems = find_annotations(folder)
        if problems:
            raise AnnotationError(str(folder / ANNOTATION_TABLE), problems)
        return index

    @property
    def slide_ids(self) -> frozenset[str]:
        return frozenset(self.files) | frozenset(self.rows)

    def read(self, slide_id: str, bounds_px0: tuple[float, float] = (0, 0)) -> tuple[Annotation, ...]:
        """A slide's annotations in level-0 pixels; `bounds_px0` is where QuPath's pixels begin."""
        found = self._read(slide_id, bounds_px0)
        drawn = random.Random(slide_id)
        return tuple(annotation for annotation in found if drawn.random() < self.share)

    def _read(self, slide_id: str, bounds_px0: tuple[float, float]) -> tuple[Annotation, ...]:
        files = self.files.get(slide_id, ())
        sources = [path.name for path in files] + [ANNOTATION_TABLE] * (slide_id in self.rows)
        if len(sources) > 1:
            raise AnnotationError(slide_id, [f"is annotated in {' and in '.join(sources)}; keep one of them"])
        if not files:
            return self.rows.get(slide_id, ())
        if files[0].suffix.lower() == ".xml":
            return read_aperio_xml(files[0])
        return read_geojson(files[0], bounds_px0)


def read_annotations(
    folder: Path, entry: SlideEntry, bounds_px0: tuple[float, float] = (0, 0)
) -> tuple[Annotation, ...]:
    """One slide's annotations; for many slides of a folder keep its `AnnotationIndex`."""
    return AnnotationIndex.of(folder).read(entry.slide_id, bounds_px0)


def find_annotations(folder: Path) -> tuple[AnnotationIndex, tuple[str, ...]]:
    """What can be found beside a cohort's table, and every problem of `annotations.csv`."""
    files: defaultdict[str, tuple[Path, ...]] = defaultdict(tuple)
    place = folder / ANNOTATION_FOLDER
    for path in sorted(place.iterdir()) if place.is_dir() else ():
        if path.suffix.lower() in SUFFIXES and not path.name.startswith("."):
            files[path.stem] += (path,)
    table = folder / ANNOTATION_TABLE
    rows: Mapping[str, tuple[Annotation, ...]] = {}
    problems: Sequence[str] = ()
    if table.exists():
        try:
            rows, problems = parse_annotation_table(table)
        except AnnotationError as exc:
            problems = exc.problems
    return AnnotationIndex(dict(files), rows), tuple(problems)


def parse_annotation_table(path: Path) -> tuple[dict[str, tuple[Annotation, ...]], tuple[str, ...]]:
    """The annotations of each slide, and every problem of the rest; what is no table at all raises."""
    table = read_table(path, AnnotationError)
    positions = {name.lower(): i for i, name in enumerate(table.header)}
    missing = [missing_column(name, table.header) for name in REQUIRED if name not in positions]
    if missing:
        raise AnnotationError(str(path), missing)
    annotations: defaultdict[str, list[Annotation]] = defaultdict(list)
    problems: list[str] = []
    for row, cells in table.rows:
        try:
            fitted = fit(cells, len(table.header))
            given = {name: fitted[positions[name]] for name in COLUMNS if name in positions}
            annotation = _annotation(given)
        except ValueError as exc:
            problems.append(f"row {row}: {exc}")
        else:
            annotations[given["slide_id"]].append(annotation)
    return {slide_id: tuple(found) for slide_id, found in annotations.items()}, tuple(problems)


def _annotation(cells: Mapping[str, str]) -> Annotation:
    if not cells["slide_id"]:
        raise ValueError("slide_id is blank; enter it")
    x, y = _number(cells, "x"), _number(cells, "y")
    name = cells.get("abnormality", "")
    try:
        abnormality = parse_abnormality(name) if name else None
    except ValueError as exc:
        raise ValueError(f"abnormality {name!r}: {exc}") from exc
    if not cells.get("width") and not cells.get("height"):
        return Annotation(shapely.Point(x, y), abnormality)
    width, height = _number(cells, "width"), _number(cells, "height")
    if width <= 0 or height <= 0:
        raise ValueError(f"a box of {width:g} × {height:g} has no area; leave both blank for a point")
    return Annotation(shapely.box(x, y, x + width, y + height), abnormality)


def _number(cells: Mapping[str, str], name: str) -> float:
    text = cells.get(name, "")
    try:
        value = float(text.replace(",", "."))
    except ValueError:
        value = float("nan")
    if not abs(value) < FARTHEST_PX0:
        raise ValueError(f"{name} {text!r}: expected level-0 pixels, as 1024 or 1024.5")
    return value
