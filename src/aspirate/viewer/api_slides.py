"""Slides, pictures of them and what a model saw on them; nothing here is ever written."""

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Response

from aspirate.viewer import messages
from aspirate.viewer.asking import REFUSALS, TheRoom, TheSlide, Who
from aspirate.viewer.evidence import heat_map_png

PICTURES_KEPT = "private, max-age=3600"
PICTURE: dict[int | str, dict[str, Any]] = {200: {"content": {"image/*": {}}}}
router = APIRouter(prefix="/api", responses=REFUSALS)


@router.get("/slides")
def slides(session: Who, room: TheRoom) -> messages.Worklist:
    return room.worklist(session)


@router.get("/slides/{name}")
def slide(slide: TheSlide, session: Who, room: TheRoom) -> messages.SlideView:
    return room.view(slide, session)


@router.get("/slides/{name}/thumbnail", response_class=Response, responses=PICTURE)
def thumbnail(slide: TheSlide, room: TheRoom) -> Response:
    return Response(room.thumbnail(slide), media_type="image/jpeg", headers={"Cache-Control": PICTURES_KEPT})


@router.get("/slides/{name}/evidence")
def evidence(slide: TheSlide, session: Who, room: TheRoom) -> messages.Evidence:
    return room.evidence(slide, session)


@router.get("/slides/{name}/heat-map", response_class=Response, responses=PICTURE)
def heat_map(slide: TheSlide, room: TheRoom) -> Response:
    """Informativeness, one pixel a tile."""
    data = heat_map_png(room.table(slide))
    return Response(data, media_type="image/png", headers={"Cache-Control": "private, no-cache"})


@router.get("/slides/{name}/squares/{x}/{y}", response_class=Response, responses=PICTURE)
def square(
    x: Annotated[int, Path(ge=0, le=10**7)],
    y: Annotated[int, Path(ge=0, le=10**7)],
    slide: TheSlide,
    room: TheRoom,
    around: Annotated[int, Query(ge=1, le=9)] = 1,
) -> Response:
    """One of the model's tiles by its corner, small; or in the middle of so many tiles by so many."""
    return Response(room.square(slide, x, y, around), media_type="image/jpeg", headers={"Cache-Control": PICTURES_KEPT})
