"""The reading room as a web server: pages, the API, and the rules of the house."""

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI, Request, Response
from fastapi.responses import FileResponse, JSONResponse, RedirectResponse
from fastapi.staticfiles import StaticFiles

from aspirate import __version__
from aspirate.core.errors import AspirateError, ConfigError
from aspirate.viewer import api_entries, api_session, api_slides
from aspirate.viewer.accounts import Account
from aspirate.viewer.asking import set_cookie, status_of_error
from aspirate.viewer.guard import Guard
from aspirate.viewer.places import Served
from aspirate.viewer.room import Room
from aspirate.viewer.sessions import Sessions
from aspirate.viewer.tile_door import DOCUMENT, PATH, TileDoor

STATIC = Path(__file__).parent / "static"
LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True, slots=True)
class Address:
    host: str = "127.0.0.1"
    port: int = 8000

    @property
    def loopback(self) -> bool:
        if self.host == "localhost":
            return True
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def url(self) -> str:
        return f"http://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}/"


def refuse_open_door(address: Address, accounts: dict[str, Account]) -> None:
    if not address.loopback and not accounts:
        raise ConfigError(
            f"--host {address.host}: others could reach the slides; give --readers FILE with names and passwords "
            "(made by: aspirate reader FILE NAME), or leave --host out to serve this machine alone"
        )


def refuse_missing_pages() -> None:
    if not (STATIC / "index.html").is_file():
        raise ConfigError(
            "the pages of the reading room were not built, for want of npm: install Node 18 or newer with npm, "
            "then this package again (pip install -e ., or make clean setup)"
        )


def make_app(room: Room, sessions: Sessions, address: Address) -> FastAPI:
    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        room.open_slides.close()
        room.desk.close()

    app = FastAPI(
        title="Aspirate reading room",
        description="Research use only. Not for diagnosis.",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/openapi.json",
        lifespan=lifespan,
    )
    app.state.room, app.state.sessions, app.state.cookie = room, sessions, f"aspirate-{address.port}"
    for part in (api_session, api_slides, api_entries):
        app.include_router(part.router)
    _pages(app, sessions, room.served)
    _errors(app)
    _document(app)
    app.add_middleware(TileDoor, room=room)
    hosts = LOOPBACK_NAMES if address.loopback else frozenset()
    app.add_middleware(Guard, sessions=sessions, cookie=app.state.cookie, hosts=hosts)
    return app


def _pages(app: FastAPI, sessions: Sessions, served: Served) -> None:
    page = FileResponse(STATIC / "index.html", headers={"Cache-Control": "no-cache"})

    @app.get("/", include_in_schema=False)
    def start(request: Request, token: str = "") -> Response:
        """The printed address: its token becomes a cookie and leaves the address."""
        if not token:
            return page
        session = sessions.by_token(token)
        if session is None:
            return JSONResponse({"detail": "wrong token; use the address that the server printed"}, 403)
        response = RedirectResponse("/", 303)
        set_cookie(response, request, session)
        return response

    @app.get("/slide/{name}", include_in_schema=False)
    def slide_page(name: str) -> Response:
        return page

    @app.get("/queue", include_in_schema=False)
    def queue_page() -> Response:
        return page

    @app.get("/report", include_in_schema=False)
    def report(request: Request) -> Response:
        session = request.scope["session"]
        if served.report is None or session.mode == "reading":
            return JSONResponse({"detail": "there is no report, or none to be seen while reading blind"}, 404)
        return FileResponse(served.report, media_type="text/html", headers={"Cache-Control": "no-cache"})

    app.mount("/static", StaticFiles(directory=STATIC, check_dir=False), name="static")


def _errors(app: FastAPI) -> None:
    """What went wrong, in the program's own words, and no path in any of them."""

    async def said(request: Request, error: Exception) -> JSONResponse:
        return JSONResponse({"detail": str(error)}, status_of_error(error))

    app.add_exception_handler(AspirateError, said)
    app.add_exception_handler(LookupError, said)


def _document(app: FastAPI) -> None:
    """The tiles are not the framework's, but belong into the document all the same."""
    describe = app.openapi

    def with_tiles() -> dict[str, Any]:
        document = describe()
        document["paths"][PATH] = DOCUMENT
        return document

    app.openapi = with_tiles  # type: ignore[method-assign]


def listen(address: Address) -> socket.socket:
    """The port, taken before anything is said; port 0 is any that is free."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        door = socket.create_server((address.host, address.port), family=family, backlog=256)
        # what comes in by it inherits this; without, each answer waits 40 ms for the browser's word
        door.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return door
    except OSError as error:
        raise ConfigError(
            f"{address.host}:{address.port} cannot be served ({error.strerror}); choose another --port, or 0 for any"
        ) from error


def run(app: FastAPI, door: socket.socket) -> None:
    """Until it is stopped."""
    config = uvicorn.Config(app, log_level="warning", access_log=False, server_header=False, timeout_keep_alive=30)
    with suppress(KeyboardInterrupt):
        uvicorn.Server(config).run(sockets=[door])
