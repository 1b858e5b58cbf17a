"""Tiles, by a door of their own: they are nearly all that is ever asked for, and need nothing of the framework.

A tile that the file holds as it is wanted is a single read, done at once; any other is made in a thread. A file that
is slow to answer, as on a far drive, is read in threads for a while, so that no one else has to wait for it.
"""

import asyncio
import json
import re
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send

from aspirate.core.errors import AspirateError
from aspirate.slides.threads import available_threads
from aspirate.viewer.asking import REFUSALS, status_of_error
from aspirate.viewer.room import Room

PATH = "/api/slides/{name}/tiles/{level}/{column}/{row}"
_PATH = re.compile(r"/api/slides/([^/]+)/tiles/(\d{1,2})/(\d{1,7})/(\d{1,7})")
KEPT = b"private, max-age=3600"
SLOW_S, SLOW_FOR_S = 0.02, 10.0
_NUMBERS: dict[str, int] = {"level": 99, "column": 9_999_999, "row": 9_999_999}
DOCUMENT: dict[str, Any] = {
    "get": {
        "summary": "A square of the slide at one of its deep-zoom levels, of which max_level has every pixel",
        "operationId": "tile",
        "parameters": [
            {"name": "name", "in": "path", "required": True, "schema": {"type": "string", "maxLength": 250}},
            *(
                {
                    "name": name,
                    "in": "path",
                    "required": True,
                    "schema": {"type": "integer", "minimum": 0, "maximum": most},
                }
                for name, most in _NUMBERS.items()
            ),
        ],
        "responses": {
            "200": {"description": "the tile", "content": {"image/jpeg": {}}},
            "304": {"description": "unchanged since the ETag given as If-None-Match"},
            **{str(status): {"description": "refused, with the reason"} for status in REFUSALS},
        },
    }
}


class TileDoor:
    def __init__(self, app: ASGIApp, room: Room) -> None:
        self.app, self.room = app, room
        self._pool = ThreadPoolExecutor(available_threads() + 2, "tiles")
        self._slow: dict[str, float] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        asked = _PATH.fullmatch(scope["path"]) if scope["type"] == "http" and scope["method"] == "GET" else None
        if asked is None:
            await self.app(scope, receive, send)
            return
        name, *numbers = asked.groups()
        level, column, row = map(int, numbers)
        known = next((value for key, value in scope["headers"] if key == b"if-none-match"), b"").decode("latin-1")
        if self._at_hand(name, level, column, row):
            start = time.monotonic()
            answer = self._answer(name, level, column, row, known)
            if time.monotonic() - start > SLOW_S:
                self._slow[name] = time.monotonic()
        else:
            loop = asyncio.get_running_loop()
            answer = await loop.run_in_executor(self._pool, self._answer, name, level, column, row, known)
        status, headers, body = answer
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    def _at_hand(self, name: str, level: int, column: int, row: int) -> bool:
        """Whether the answer is one short read away."""
        if time.monotonic() - self._slow.get(name, -SLOW_FOR_S) < SLOW_FOR_S:
            return False
        pyramid = self.room.open_slides.at_hand(name)
        return pyramid is not None and pyramid.holds(level, column, row)

    def _answer(
        self, name: str, level: int, column: int, row: int, known: str
    ) -> tuple[int, Sequence[tuple[bytes, bytes]], bytes]:
        try:
            with self.room.open_slides.lease(self.room.slide(name)) as (pyramid, fingerprint):
                pyramid.shape.tile_size(level, column, row)
                tag = f'"{fingerprint}-{level}-{column}-{row}"'
                headers = [(b"etag", tag.encode()), (b"cache-control", KEPT)]
                if known == tag:
                    return 304, headers, b""
                body = pyramid.tile(level, column, row)
        except AspirateError as error:
            said = json.dumps({"detail": str(error)}).encode()
            length = (b"content-length", str(len(said)).encode())
            return status_of_error(error), [(b"content-type", b"application/json"), length], said
        length = (b"content-length", str(len(body)).encode())
        return 200, [*headers, (b"content-type", b"image/jpeg"), length], body
