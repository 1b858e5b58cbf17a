"""Annotations that readers make, and the files that training reads.

The desk keeps every change. After each one the cohort's `annotations/<slide_id>.geojson` is written anew, so that
`aspirate train` and QuPath find the same. A file that someone else has changed meanwhile is taken over as it is; what
the desk held stays in its history, and the first such file is kept beside as `.geojson.orig`.
"""

import hashlib
import json
import shutil
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import RLock
from typing import Any
from uuid import uuid4

import shapely
from shapely.geometry import mapping

from aspirate.core.errors import AnnotationError
from aspirate.core.geometry import Size
from aspirate.core.labels import Abnormality
from aspirate.core.records import Annotation
from aspirate.core.store import ANNOTATION_FOLDER, ANNOTATION_TABLE
from aspirate.slides.annotations import find_annotations
from aspirate.slides.geojson import UNGRADED_NAME, read_geojson, write_geojson
from aspirate.viewer.desk import Desk, now
from aspirate.viewer.places import ServedSlide

MOST_MARKS = 20_000
FROM_FILE = "(file)"
"""The reader of annotations that came out of a file."""


@dataclass(frozen=True, slots=True)
class Mark:
    """An annotation as it is now; `event` is the row that made it so."""

    mark: str
    event: int
    reader: str
    time: str
    geometry: str
    grade: str

    @property
    def shape(self) -> dict[str, Any]:
        shape: dict[str, Any] = json.loads(self.geometry)
        return shape

    def annotation(self) -> Annotation:
        graded = None if self.grade == UNGRADED_NAME else Abnormality[self.grade.upper()]
        return Annotation(shapely.from_geojson(self.geometry), graded)


@dataclass(frozen=True, slots=True)
class Canvas:
    """Where annotations of a slide may lie, and where QuPath's pixels begin."""

    size_px0: Size
    bounds_px0: tuple[int, int]


class MarkLog:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._lock = RLock()

    def current(self, slide: ServedSlide, canvas: Canvas) -> list[Mark]:
        """In the order in which they were first made."""
        with self._lock:
            self._take_in(slide, canvas)
            return self._current(slide.slide_id)

    def counts(self, slides: Iterable[ServedSlide]) -> dict[str, int]:
        """How many marks each slide has; of a slide that nobody opened yet, what its file holds."""
        found = self._desk.rows(
            "SELECT slide_id, count(geometry) FROM mark_events WHERE id IN "
            "(SELECT max(id) FROM mark_events GROUP BY slide_id, mark) GROUP BY slide_id"
        )
        counts = {str(slide_id): int(str(count)) for slide_id, count in found}
        for slide in slides:
            if slide.annotations is not None and slide.slide_id not in counts:
                path = _file(slide.annotations, slide.slide_id)
                counts[slide.slide_id] = _count(path, path.stat().st_mtime_ns) if path.exists() else 0
        return counts

    def put(
        self, slide: ServedSlide, canvas: Canvas, reader: str, annotation: Annotation, mark: str | None = None
    ) -> Mark:
        """A new mark, or a new form of one."""
        _check([annotation], canvas)
        with self._lock:
            self._take_in(slide, canvas)
            if mark is not None:
                self._known(slide.slide_id, mark)
            events = self._append(slide.slide_id, reader, [(mark or str(uuid4()), annotation)])
            self._write_out(slide, canvas)
            return self._event(slide.slide_id, events[0])

    def remove(self, slide: ServedSlide, canvas: Canvas, reader: str, mark: str) -> None:
        with self._lock:
            self._known(slide.slide_id, mark)
            self._append(slide.slide_id, reader, [(mark, None)])
            self._write_out(slide, canvas)

    def restore(self, slide: ServedSlide, canvas: Canvas, reader: str, mark: str, event: int) -> Mark:
        """A mark as an earlier event had made it: how a change or a removal is undone."""
        with self._lock:
            earlier = self._event(slide.slide_id, event)
            if earlier.mark != mark:
                raise LookupError(f"event {event} is not one of mark {mark}")
            events = self._append(slide.slide_id, reader, [(mark, earlier.annotation())])
            self._write_out(slide, canvas)
            return self._event(slide.slide_id, events[0])

    def changed_last_by(self, slide: ServedSlide, mark: str) -> str:
        found = self._desk.rows(
            "SELECT reader FROM mark_events WHERE slide_id = ? AND mark = ? ORDER BY id DESC LIMIT 1",
            (slide.slide_id, mark),
        )
        if not found:
            raise LookupError(f"there never was a mark {mark}")
        return str(found[0][0])

    def import_geojson(self, slide: ServedSlide, canvas: Canvas, reader: str, data: bytes) -> int:
        """All features of a file of QuPath's, or none; those that are there already are not doubled."""
        with TemporaryDirectory() as folder:
            path = Path(folder) / "the file"
            path.write_bytes(data)
            try:
                annotations = read_geojson(path, canvas.bounds_px0)
            except AnnotationError as error:
                raise AnnotationError("the file", error.problems) from error
        _check(annotations, canvas)
        with self._lock:
            known = {_same(mark.annotation()) for mark in self.current(slide, canvas)}
            fresh = [annotation for annotation in annotations if _same(annotation) not in known]
            self._append(slide.slide_id, reader, [(str(uuid4()), annotation) for annotation in fresh])
            self._write_out(slide, canvas)
        return len(fresh)

    def export_geojson(self, slide: ServedSlide, canvas: Canvas, marks: Iterable[Mark]) -> bytes:
        with TemporaryDirectory() as folder:
            path = Path(folder) / "export.geojson"
            write_geojson(path, [mark.annotation() for mark in marks], canvas.bounds_px0)
            return path.read_bytes()

    def _current(self, slide_id: str) -> list[Mark]:
        found = self._desk.rows(
            "SELECT mark, id, reader, time, geometry, grade FROM mark_events JOIN "
            "(SELECT max(id) AS last, min(id) AS first FROM mark_events WHERE slide_id = ? GROUP BY mark) "
            "ON id = last WHERE geometry IS NOT NULL ORDER BY first",
            (slide_id,),
        )
        return [_mark(row) for row in found]

    def _event(self, slide_id: str, event: int) -> Mark:
        found = self._desk.rows(
            "SELECT mark, id, reader, time, geometry, grade FROM mark_events "
            "WHERE slide_id = ? AND id = ? AND geometry IS NOT NULL",
            (slide_id, event),
        )
        if not found:
            raise LookupError(f"there is no event {event} to go back to")
        return _mark(found[0])

    def _known(self, slide_id: str, mark: str) -> None:
        if not any(known.mark == mark for known in self._current(slide_id)):
            raise LookupError(f"there is no mark {mark}; it may have been removed meanwhile")

    def _append(self, slide_id: str, reader: str, changes: Sequence[tuple[str, Annotation | None]]) -> list[int]:
        events = []
        with self._desk.transaction() as connection:
            for mark, annotation in changes:
                shape = grade = None
                if annotation is not None:
                    shape = json.dumps(mapping(annotation.geometry_px0))
                    grade = UNGRADED_NAME if annotation.abnormality is None else annotation.abnormality.name.lower()
                made = connection.execute(
                    "INSERT INTO mark_events (mark, slide_id, reader, time, geometry, grade) VALUES (?, ?, ?, ?, ?, ?)",
                    (mark, slide_id, reader, now(), shape, grade),
                )
                events.append(int(made.lastrowid or 0))
        return events

    def _take_in(self, slide: ServedSlide, canvas: Canvas) -> None:
        """What a file says that the desk did not write goes before what the desk holds."""
        if slide.annotations is None:
            return
        index, _ = find_annotations(slide.annotations)
        own = _file(slide.annotations, slide.slide_id)
        others = [path.suffix for path in index.files.get(slide.slide_id, ()) if path != own]
        others += [ANNOTATION_TABLE] * (slide.slide_id in index.rows)
        if others:
            raise AnnotationError(
                slide.name, [f"is annotated in {' and '.join(others)}; turn that into GeoJSON to annotate it here"]
            )
        found = self._desk.rows("SELECT sha256 FROM written WHERE slide_id = ?", (slide.slide_id,))
        if not own.exists() or (found and found[0][0] == _sha256(own)):
            return
        annotations, held = read_geojson(own, canvas.bounds_px0), self._current(slide.slide_id)
        # the same where the server was killed between writing the file and noting that it had
        if Counter(map(_same, annotations)) != Counter(_same(mark.annotation()) for mark in held):
            kept = own.with_name(own.name + ".orig")
            if not kept.exists():
                shutil.copyfile(own, kept)
            gone: list[tuple[str, Annotation | None]] = [(mark.mark, None) for mark in held]
            self._append(slide.slide_id, FROM_FILE, gone + [(str(uuid4()), annotation) for annotation in annotations])
        self._note_written(slide.slide_id, _sha256(own))

    def _write_out(self, slide: ServedSlide, canvas: Canvas) -> None:
        if slide.annotations is None:
            return
        path = _file(slide.annotations, slide.slide_id)
        write_geojson(path, [mark.annotation() for mark in self._current(slide.slide_id)], canvas.bounds_px0)
        self._note_written(slide.slide_id, _sha256(path))

    def _note_written(self, slide_id: str, sha256: str) -> None:
        with self._desk.transaction() as connection:
            connection.execute("INSERT OR REPLACE INTO written VALUES (?, ?)", (slide_id, sha256))


def _file(cohort_folder: Path, slide_id: str) -> Path:
    return cohort_folder / ANNOTATION_FOLDER / f"{slide_id}.geojson"


@lru_cache(4096)
def _count(path: Path, changed_ns: int) -> int:
    try:
        return len(read_geojson(path))
    except AnnotationError:
        return 0  # opening the slide says what is wrong


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _mark(row: tuple[object, ...]) -> Mark:
    mark, event, reader, time, geometry, grade = row
    return Mark(str(mark), int(str(event)), str(reader), str(time), str(geometry), str(grade))


def _same(annotation: Annotation) -> tuple[str, int | None]:
    return annotation.geometry_px0.normalize().wkb_hex, annotation.abnormality


def _check(annotations: Sequence[Annotation], canvas: Canvas) -> None:
    if len(annotations) > MOST_MARKS:
        raise AnnotationError("the file", [f"has {len(annotations)} features; at most {MOST_MARKS} are taken at once"])
    slide = shapely.box(0, 0, canvas.size_px0.width, canvas.size_px0.height)
    problems = [
        f"feature {number} lies outside the slide, which is {canvas.size_px0.width} × {canvas.size_px0.height} px"
        for number, annotation in enumerate(annotations, start=1)
        if not slide.intersects(annotation.geometry_px0)
    ]
    if problems:
        raise AnnotationError("annotations", problems)
