"""What readers enter, in one SQLite file: nothing is ever overwritten, and what was acknowledged is on the disk.

`readings` and `mark_events` only grow; the file itself refuses to change or remove a row of theirs. What holds now is
the last row. `shown` says when the algorithm's result of a slide was first sent to a reader: what that reader says of
the slide from then on is not blind.
"""

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from threading import RLock

from aspirate.core.errors import ConfigError

FILE = "reading-room.sqlite"
BUSY_S = 10.0
_GROWING = ("readings", "mark_events")
_SCHEMA = """
CREATE TABLE IF NOT EXISTS readings (
    id INTEGER PRIMARY KEY, slide_id TEXT NOT NULL, reader TEXT NOT NULL,
    bethesda INTEGER NOT NULL CHECK (bethesda BETWEEN 1 AND 6), comment TEXT NOT NULL, time TEXT NOT NULL,
    blind INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS shown (
    slide_id TEXT NOT NULL, reader TEXT NOT NULL, time TEXT NOT NULL, PRIMARY KEY (slide_id, reader));
CREATE TABLE IF NOT EXISTS mark_events (
    id INTEGER PRIMARY KEY, mark TEXT NOT NULL, slide_id TEXT NOT NULL, reader TEXT NOT NULL, time TEXT NOT NULL,
    geometry TEXT, grade TEXT);
CREATE INDEX IF NOT EXISTS mark_events_by_slide ON mark_events (slide_id, mark, id);
CREATE TABLE IF NOT EXISTS dismissed (
    slide_id TEXT NOT NULL, x INTEGER NOT NULL, y INTEGER NOT NULL, reader TEXT NOT NULL, time TEXT NOT NULL,
    PRIMARY KEY (slide_id, x, y));
CREATE TABLE IF NOT EXISTS written (slide_id TEXT PRIMARY KEY, sha256 TEXT NOT NULL);
""" + "".join(
    f"CREATE TRIGGER IF NOT EXISTS {table}_no_{verb} BEFORE {verb} ON {table} "
    f"BEGIN SELECT RAISE(ABORT, 'rows of {table} are never changed'); END;\n"
    for table in _GROWING
    for verb in ("update", "delete")
)


@dataclass(frozen=True, slots=True)
class Reading:
    slide_id: str
    reader: str
    bethesda: int
    comment: str
    time: str
    blind: bool


class Desk:
    """One connection for all threads: writes are few, and each waits for the disk."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(self.path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = FULL")
            self._connection.executescript(_SCHEMA)
        except (OSError, sqlite3.Error) as error:
            raise ConfigError(
                f"{self.path}: readings cannot be kept there ({error}); give a folder that can be written with --desk"
            ) from error
        self._lock = RLock()

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """All or nothing; when it is over without an error, it is on the disk."""
        with self._lock:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")

    def rows(self, query: str, values: tuple[object, ...] = ()) -> list[tuple[object, ...]]:
        with self._lock:
            return self._connection.execute(query, values).fetchall()

    def give_reading(self, slide_id: str, reader: str, bethesda: int, comment: str) -> Reading:
        with self.transaction() as connection:
            blind = not self.was_shown(slide_id, reader)
            reading = Reading(slide_id, reader, bethesda, comment, now(), blind)
            connection.execute(
                "INSERT INTO readings (slide_id, reader, bethesda, comment, time, blind) VALUES (?, ?, ?, ?, ?, ?)",
                (slide_id, reader, bethesda, comment, reading.time, int(blind)),
            )
        return reading

    def readings(self, slide_id: str | None = None, reader: str | None = None) -> list[Reading]:
        """In the order in which they were given."""
        found = self.rows(
            "SELECT slide_id, reader, bethesda, comment, time, blind FROM readings "
            "WHERE (?1 IS NULL OR slide_id = ?1) AND (?2 IS NULL OR reader = ?2) ORDER BY id",
            (slide_id, reader),
        )
        return [
            Reading(str(s), str(r), int(str(b)), str(comment), str(time), bool(blind))
            for s, r, b, comment, time, blind in found
        ]

    def was_shown(self, slide_id: str, reader: str) -> bool:
        return bool(self.rows("SELECT 1 FROM shown WHERE slide_id = ? AND reader = ?", (slide_id, reader)))

    def note_shown(self, slide_ids: Iterable[str], reader: str) -> None:
        """Before the algorithm's results of these slides are sent to the reader."""
        known = {str(row[0]) for row in self.rows("SELECT slide_id FROM shown WHERE reader = ?", (reader,))}
        if fresh := [slide_id for slide_id in slide_ids if slide_id not in known]:
            with self.transaction() as connection:
                connection.executemany(
                    "INSERT OR IGNORE INTO shown VALUES (?, ?, ?)", [(slide_id, reader, now()) for slide_id in fresh]
                )

    def blind_readings(self) -> list[Reading]:
        """The first of each reader on each slide, where it was given before the algorithm's result was shown."""
        first: dict[tuple[str, str], Reading] = {}
        for reading in self.readings():
            first.setdefault((reading.slide_id, reading.reader), reading)
        return [reading for reading in first.values() if reading.blind]

    def dismiss(self, slide_id: str, x: int, y: int, reader: str) -> None:
        with self.transaction() as connection:
            connection.execute(
                "INSERT OR IGNORE INTO dismissed VALUES (?, ?, ?, ?, ?)", (slide_id, x, y, reader, now())
            )

    def dismissed(self, slide_id: str) -> set[tuple[int, int]]:
        found = self.rows("SELECT x, y FROM dismissed WHERE slide_id = ?", (slide_id,))
        return {(int(str(x)), int(str(y))) for x, y in found}


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
