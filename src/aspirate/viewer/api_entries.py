"""What readers enter: readings, annotations, and which suggestions to leave out."""

from typing import Annotated, Any

import shapely
from fastapi import APIRouter, Depends, HTTPException, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from aspirate.core.labels import Abnormality
from aspirate.core.records import Annotation
from aspirate.slides.geojson import UNGRADED_NAME
from aspirate.viewer import messages
from aspirate.viewer.asking import REFUSALS, TheRoom, TheSlide, Who, admin
from aspirate.viewer.marks import Mark
from aspirate.viewer.places import ServedSlide
from aspirate.viewer.room import Room
from aspirate.viewer.sessions import Session

CSV: dict[int | str, dict[str, Any]] = {200: {"content": {"text/csv": {}}}}
GEOJSON: dict[int | str, dict[str, Any]] = {200: {"content": {"application/geo+json": {}}}}
router = APIRouter(prefix="/api", responses=REFUSALS)


@router.post("/slides/{name}/readings", status_code=201)
def give_reading(given: messages.NewReading, slide: TheSlide, session: Who, room: TheRoom) -> messages.SlideView:
    """A category of one's own; it is kept for ever, and a change of mind is another one."""
    return room.give_reading(slide, session, given)


@router.get("/readers.csv", response_class=Response, responses=CSV)
def readers_csv(session: Annotated[Session, Depends(admin)], room: TheRoom) -> Response:
    """`slide_id,reader,bethesda`: first blind readings, as `aspirate evaluate --readers` takes them."""
    return _download(room.readers_csv(), "text/csv", "readers.csv")


@router.get("/readings.csv", response_class=Response, responses=CSV)
def readings_csv(session: Annotated[Session, Depends(admin)], room: TheRoom) -> Response:
    return _download(room.readings_csv(), "text/csv", "readings.csv")


def _download(data: str | bytes, media_type: str, name: str) -> Response:
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-store"}
    return Response(data, media_type=media_type, headers=headers)


def _message(mark: Mark) -> messages.Mark:
    return messages.Mark(
        id=mark.mark, event=mark.event, geometry=mark.shape, grade=mark.grade, reader=mark.reader, time=mark.time
    )


def _graded(shape: shapely.Geometry, grade: messages.Grade) -> Annotation:
    return Annotation(shape, None if grade == UNGRADED_NAME else Abnormality[grade.upper()])


def _shape(place: messages.Place) -> shapely.Geometry:
    if place.width and place.height:
        return shapely.box(place.x, place.y, place.x + place.width, place.y + place.height)
    return shapely.Point(place.x, place.y)


def _own(slide: ServedSlide, mark: str, session: Session, room: Room) -> Mark:
    """A mark that this reader may change: an own one, or any for an admin."""
    for known in room.marks_of(slide, session):
        if known.mark == mark:
            if session.role == "admin" or known.reader == session.reader:
                return known
            raise HTTPException(403, f"the mark is {known.reader}'s; ask its reader or an admin")
    raise HTTPException(404, "there is no such mark; it may have been removed meanwhile")


@router.get("/slides/{name}/marks")
def marks(slide: TheSlide, session: Who, room: TheRoom) -> messages.Marks:
    return messages.Marks(marks=[_message(mark) for mark in room.marks_of(slide, session)])


@router.post("/slides/{name}/marks", status_code=201)
def add_mark(given: messages.NewMark, slide: TheSlide, session: Who, room: TheRoom) -> messages.Mark:
    annotation = _graded(_shape(given.place), given.grade)
    return _message(room.marks.put(slide, room.canvas(slide), session.reader, annotation))


@router.put("/slides/{name}/marks/{mark}")
def change_mark(mark: str, change: messages.MarkChange, slide: TheSlide, session: Who, room: TheRoom) -> messages.Mark:
    known = _own(slide, mark, session, room)
    shape = known.annotation().geometry_px0 if change.place is None else _shape(change.place)
    return _message(room.marks.put(slide, room.canvas(slide), session.reader, _graded(shape, change.grade), mark))


@router.delete("/slides/{name}/marks/{mark}", status_code=204)
def remove_mark(mark: str, slide: TheSlide, session: Who, room: TheRoom) -> None:
    _own(slide, mark, session, room)
    room.marks.remove(slide, room.canvas(slide), session.reader, mark)


@router.post("/slides/{name}/marks/{mark}/restore")
def restore_mark(mark: str, given: messages.Restoration, slide: TheSlide, session: Who, room: TheRoom) -> messages.Mark:
    """Undo: the mark as an earlier event had made it."""
    if session.role != "admin" and room.marks.changed_last_by(slide, mark) != session.reader:
        raise HTTPException(403, "the mark was changed by another reader since")
    return _message(room.marks.restore(slide, room.canvas(slide), session.reader, mark, given.event))


@router.get("/slides/{name}/marks.geojson", response_class=Response, responses=GEOJSON)
def export_marks(slide: TheSlide, session: Who, room: TheRoom) -> Response:
    """As QuPath opens it."""
    data = room.marks.export_geojson(slide, room.canvas(slide), room.marks_of(slide, session))
    return _download(data, "application/geo+json", "annotations.geojson")


@router.post(
    "/slides/{name}/marks.geojson",
    status_code=201,
    openapi_extra={"requestBody": {"required": True, "content": {"application/geo+json": {"schema": {}}}}},
)
async def import_marks(slide: TheSlide, session: Who, room: TheRoom, request: Request) -> messages.Imported:
    data = await request.body()
    return await run_in_threadpool(_import, slide, session, room, data)


def _import(slide: ServedSlide, session: Session, room: Room, data: bytes) -> messages.Imported:
    return messages.Imported(added=room.marks.import_geojson(slide, room.canvas(slide), session.reader, data))


@router.get("/suggestions")
def suggestions(session: Who, room: TheRoom, most: Annotated[int, Query(ge=1, le=200)] = 40) -> messages.Suggestions:
    """Spots to label next, those first of which the model is least sure, spread over slides."""
    return messages.Suggestions(suggestions=room.suggestions(session, most))


@router.post("/dismissals", status_code=204)
def dismiss(given: messages.Dismissal, session: Who, room: TheRoom) -> None:
    """A suggested spot that shows nothing informative; it is not suggested again."""
    room.desk.dismiss(room.slide(given.slide).slide_id, given.x, given.y, session.reader)
