"""What stands before every request: who may ask, how much may be sent, and what a browser may do with the answer."""

import hmac
import json
import time
from collections.abc import Mapping
from http.cookies import CookieError, SimpleCookie
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from aspirate.viewer.sessions import Session, Sessions

LARGEST_BODY = 64 * 1024
LARGEST_UPLOAD = 16 * 2**20
UPLOAD_SUFFIX = "/marks.geojson"
OPEN_PATHS = frozenset({"/", "/queue", "/api/sign-in", "/api/session"})
OPEN_FOLDERS = ("/static/", "/slide/")
"""Pages of the program, without a word of any slide, and the way in."""
TRUSTED_S, MOST_TRUSTED = 60.0, 256
WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})
CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
REPORT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox; frame-ancestors 'none'"
"""The run's report has its style and pictures inside; whatever it holds, no script of it runs."""
HEADERS = {
    b"x-content-type-options": b"nosniff",
    b"x-frame-options": b"DENY",
    b"referrer-policy": b"no-referrer",
    b"cross-origin-opener-policy": b"same-origin",
    b"cross-origin-resource-policy": b"same-origin",
    b"permissions-policy": b"camera=(), microphone=(), geolocation=()",
}


class Guard:
    """`hosts` are the names under which the server may be called; any where there are none."""

    def __init__(self, app: ASGIApp, sessions: Sessions, cookie: str, hosts: frozenset[str] = frozenset()) -> None:
        self.app, self.sessions, self.cookie, self.hosts = app, sessions, cookie, hosts
        self._known: dict[str, tuple[Session, float]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        path, method = scope["path"], scope["method"]

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *HEADERS.items(), _policy(path)]
            await send(message)

        session = self._session(headers)
        scope["session"] = session
        if refused := self._refusal(path, method, headers, session):
            await _refuse(answer, *refused)
            return
        limit = LARGEST_UPLOAD if path.endswith(UPLOAD_SUFFIX) else LARGEST_BODY
        if not headers.get("content-length", "0").isdecimal() or int(headers.get("content-length", 0)) > limit:
            await _refuse(answer, 413, f"more than {limit // 1024} KB; send less")
            return
        await self.app(scope, receive if method not in WRITES else _Bounded(receive, limit), answer)

    def _session(self, headers: Mapping[str, str]) -> Session | None:
        """By the cookie; one that was found good counts as good for a minute, since tiles come by the hundred."""
        sent = headers.get("cookie", "")
        known = self._known.get(sent)
        if known is not None and time.monotonic() - known[1] < TRUSTED_S:
            return known[0]
        try:
            morsel = SimpleCookie(sent).get(self.cookie)
        except CookieError:
            return None
        session = None if morsel is None else self.sessions.of_cookie(morsel.value)
        if session is not None:
            if len(self._known) >= MOST_TRUSTED:
                self._known.clear()
            self._known[sent] = session, time.monotonic()
        return session

    def _refusal(
        self, path: str, method: str, headers: Mapping[str, str], session: Session | None
    ) -> tuple[int, str] | None:
        host = headers.get("host", "")
        if self.hosts and urlsplit(f"//{host}").hostname not in self.hosts:
            return 421, "called by another name than this server's; use the address that was printed"
        if method in WRITES and urlsplit(headers.get("origin", f"//{host}")).netloc != host:
            return 403, "sent by a page of another site; open the reading room itself"
        if path.startswith(OPEN_FOLDERS) or (path in OPEN_PATHS and method in ("GET", "POST")):
            return None
        if session is None:
            return 401, "sign in first, with the address that the server printed"
        if method in WRITES and not hmac.compare_digest(
            headers.get("x-csrf-token", "").encode(), self.sessions.csrf(session).encode()
        ):
            return 403, "not sent by the reading room's own page; reload it"
        return None


class _Bounded:
    """A body that ends with an error where it grows too long."""

    def __init__(self, receive: Receive, limit: int) -> None:
        self.receive, self.left = receive, limit

    async def __call__(self) -> Message:
        message = await self.receive()
        self.left -= len(message.get("body", b""))
        return message if self.left >= 0 else {"type": "http.disconnect"}


def _policy(path: str) -> tuple[bytes, bytes]:
    policy = REPORT_POLICY if path == "/report" else CONTENT_POLICY
    return b"content-security-policy", policy.encode()


async def _refuse(send: Send, status: int, why: str) -> None:
    body = json.dumps({"detail": why}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
