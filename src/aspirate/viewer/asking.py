"""Who asks, and of which slide: what every part of the API needs first."""

from typing import Annotated, Any

from fastapi import Depends, HTTPException, Path, Request, Response

from aspirate.core.errors import SlideError
from aspirate.viewer import messages
from aspirate.viewer.places import ServedSlide
from aspirate.viewer.pyramid import NoSuchTile
from aspirate.viewer.room import NoSuchSlide, Room
from aspirate.viewer.sessions import LIFETIME_S, Session, Sessions

REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"model": messages.Problem} for status in (400, 401, 403, 404, 409, 410, 413, 421)
}


def status_of_error(error: Exception) -> int:
    """How the web calls what went wrong."""
    if isinstance(error, NoSuchSlide | NoSuchTile | LookupError):
        return 404
    return 410 if isinstance(error, SlideError) else 409


async def the_session(request: Request) -> Session:
    session: Session | None = request.scope.get("session")
    if session is None:
        raise HTTPException(401, "sign in first, with the address that the server printed")
    return session


async def the_room(request: Request) -> Room:
    room: Room = request.app.state.room
    return room


async def the_sessions(request: Request) -> Sessions:
    sessions: Sessions = request.app.state.sessions
    return sessions


Who = Annotated[Session, Depends(the_session)]
TheRoom = Annotated[Room, Depends(the_room)]
TheSessions = Annotated[Sessions, Depends(the_sessions)]


async def the_slide(name: Annotated[str, Path(max_length=250)], room: TheRoom) -> ServedSlide:
    return room.slide(name)


TheSlide = Annotated[ServedSlide, Depends(the_slide)]


async def admin(session: Who) -> Session:
    if session.role != "admin" or session.mode != "review":
        raise HTTPException(403, "only for an admin, and not while reading blind")
    return session


def set_cookie(response: Response, request: Request, session: Session) -> None:
    state = request.app.state
    response.set_cookie(
        state.cookie,
        state.sessions.cookie(session),
        max_age=LIFETIME_S,
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )
