"""Signing in and out, and how a reader wants to read."""

from fastapi import APIRouter, HTTPException, Request, Response

from aspirate import __version__
from aspirate.viewer import messages
from aspirate.viewer.asking import REFUSALS, TheSessions, Who, set_cookie
from aspirate.viewer.sessions import Session, Sessions

router = APIRouter(prefix="/api", responses=REFUSALS)


def _described(session: Session, request: Request) -> messages.Session:
    sessions: Sessions = request.app.state.sessions
    return messages.Session(
        reader=session.reader,
        role=session.role,
        mode=session.mode,
        csrf=sessions.csrf(session),
        accounts=bool(sessions.accounts),
        report=request.app.state.room.served.report is not None,
        version=__version__,
    )


@router.post("/sign-in")
def sign_in(given: messages.SignIn, request: Request, response: Response, sessions: TheSessions) -> messages.Session:
    session = sessions.by_password(given.name, given.password)
    if session is None:
        raise HTTPException(403, "name and password do not belong together; after ten wrong ones, wait a minute")
    set_cookie(response, request, session)
    return _described(session, request)


@router.get("/session")
def session(request: Request, sessions: TheSessions) -> messages.Session | messages.SignedOut:
    """Who is reading; to a stranger, only how to come in."""
    known: Session | None = request.scope.get("session")
    if known is None:
        return messages.SignedOut(accounts=bool(sessions.accounts), version=__version__)
    return _described(known, request)


@router.patch("/session")
def change_session(
    change: messages.SessionChange, session: Who, request: Request, response: Response, sessions: TheSessions
) -> messages.Session:
    try:
        changed = sessions.changed(session, change.reader, change.mode)
    except PermissionError as error:
        raise HTTPException(403, str(error)) from error
    set_cookie(response, request, changed)
    return _described(changed, request)


@router.delete("/session", status_code=204)
def sign_out(request: Request, response: Response) -> None:
    response.delete_cookie(request.app.state.cookie, httponly=True, samesite="strict")
