"""What happened when: `log.jsonl` in the folder of a run, a JSON object a line, for whoever looks into it later.

Standard `logging` under the name `aspirate`. Slides are told by their number in the table. Their names, and texts in
which one may stand, are `private`: patients' names are found in them, so the file has them only where asked for.
"""

import json
import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from datetime import UTC, datetime
from pathlib import Path

from aspirate import __version__
from aspirate.core.progress import Bar, Stages

LOG_FILE = "log.jsonl"
LOGGER = logging.getLogger("aspirate")
LOGGER.addHandler(logging.NullHandler())  # silent unless someone listens
DEBUG, INFO, WARNING, ERROR = logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR

names_wanted: ContextVar[bool] = ContextVar("names_wanted", default=False)
"""Whether `log.jsonl` may name slides."""


def tell(event: str, level: int = INFO, private: Mapping[str, object] | None = None, **facts: object) -> None:
    """Something happened; facts are numbers and words that JSON knows."""
    if LOGGER.isEnabledFor(level):
        LOGGER.log(level, event, extra={"facts": facts, "private": dict(private or {})})


def told(record: logging.LogRecord, names: bool) -> dict[str, object]:
    """A record as a line of the log."""
    when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
    line = {"time": when, "level": record.levelname.lower(), "event": record.getMessage(), "process": record.process}
    return line | getattr(record, "facts", {}) | (getattr(record, "private", {}) if names else {})


class _Lines(logging.Handler):
    """Appends a line at a time, in one write: processes may share a file, and a kill tears no line but the last."""

    def __init__(self, path: Path, names: bool) -> None:
        super().__init__()
        self.names = names
        self.file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        length = os.fstat(self.file).st_size
        if length and os.pread(self.file, 1, length - 1) != b"\n":  # torn by a kill
            os.write(self.file, b"\n")

    def emit(self, record: logging.LogRecord) -> None:
        with suppress(OSError):  # a full disk stops the work itself where it must, not here
            os.write(self.file, json.dumps(told(record, self.names), ensure_ascii=False).encode() + b"\n")

    def close(self) -> None:
        os.close(self.file)
        super().close()


class Forwarding(logging.Handler):
    """Hands every record on as a dictionary, to a process that has a log."""

    def __init__(self, say: Callable[[dict[str, object]], None]) -> None:
        super().__init__()
        self.say = say

    def emit(self, record: logging.LogRecord) -> None:
        self.say({**record.__dict__, "exc_info": None, "args": None, "msg": record.getMessage()})


@contextmanager
def forwarded(say: Callable[[dict[str, object]], None]) -> Iterator[None]:
    """What is told meanwhile goes to `say`; `arrived` is its other end."""
    with _listening(Forwarding(say), DEBUG):
        yield


def arrived(record: dict[str, object]) -> None:
    made = logging.makeLogRecord(record)
    if LOGGER.isEnabledFor(made.levelno):
        LOGGER.handle(made)


@contextmanager
def log_of(folder: Path, command: str, **facts: object) -> Iterator[None]:
    """What is told meanwhile stands in the folder's log, between when the command began and how it ended."""
    handler = _Lines(folder / LOG_FILE, names_wanted.get())
    try:
        with _listening(handler, INFO):
            laps = Laps()
            tell("begun", INFO, None, command=command, version=__version__, cpus=os.cpu_count(), **facts)
            try:
                yield
            except BaseException as error:
                laps.lap(command)
                level, event = (ERROR, "failed") if isinstance(error, Exception) else (WARNING, "interrupted")
                private = {"error": str(error)}
                tell(event, level, private, command=command, kind=type(error).__name__, seconds=laps.whole)
                raise
            laps.lap(command)
            tell("ended", command=command, seconds=laps.whole)
    finally:
        handler.close()


@contextmanager
def _listening(handler: logging.Handler, level: int) -> Iterator[None]:
    before = LOGGER.level
    if before == logging.NOTSET or before > level:
        LOGGER.setLevel(level)
    LOGGER.addHandler(handler)
    try:
        yield
    finally:
        LOGGER.removeHandler(handler)
        LOGGER.setLevel(before)


def logged(stages: Stages) -> Stages:
    """The same stages, each told when it ends."""

    @contextmanager
    def stage(what: str, total: float, unit: str) -> Iterator[Bar]:
        laps = Laps()
        with stages(what, total, unit) as bar:
            yield bar
        laps.lap(what)
        tell("stage", stage=what, total=total, unit=unit, seconds=laps.whole)

    return stage


class Laps:
    """Seconds of one part of some work after another."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.monotonic()

    def lap(self, part: str) -> None:
        """The part that has just ended."""
        now = time.monotonic()
        self.seconds[part] = round(self.seconds.get(part, 0.0) + now - self._last, 4)
        self._last = now

    @property
    def whole(self) -> float:
        return round(sum(self.seconds.values()), 4)
