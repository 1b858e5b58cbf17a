"""One program at a time in a folder: the second is told who is there, and a dead one holds nothing.

The lock is the kernel's (flock), so it ends with its process however that ends, and reaches other machines wherever
their file system carries it. `.lock` only says who holds it.
"""

import json
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from aspirate.core.errors import ConfigError

if sys.platform != "win32":  # where folders are not locked
    import fcntl

LOCK_FILE = ".lock"


class FolderInUse(ConfigError):
    """Another program writes to the folder."""


@contextmanager
def locked(folder: Path, wait: bool = False) -> Iterator[None]:
    """While open, nobody else locks the folder; who is second is refused, or waits."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / LOCK_FILE
    handle = _take(path, wait)
    try:
        os.ftruncate(handle, 0)
        os.write(handle, json.dumps(_myself()).encode())
        yield
    finally:
        path.unlink(missing_ok=True)  # before the lock goes: whoever opened it in the meantime looks again
        os.close(handle)


def _take(path: Path, wait: bool) -> int:
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            _flock(handle, wait)
            if _is_at(path, handle):
                return handle
        except BlockingIOError:
            os.close(handle)
            raise FolderInUse(f"{path.parent}: in use {_holder(path)}; wait for it, or choose another folder") from None
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)  # its last holder took the file away: there is another now, or none


def _is_at(path: Path, handle: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(handle))
    except FileNotFoundError:
        return False


def _flock(handle: int, wait: bool) -> None:
    if sys.platform == "win32":
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        raise
    except OSError:  # a file system without locks, as Lustre mounted without flock: better unlocked than not at all
        return


def _myself() -> dict[str, object]:
    return {"pid": os.getpid(), "host": socket.gethostname(), "since": datetime.now(UTC).isoformat(timespec="seconds")}


def _holder(path: Path) -> str:
    try:
        note = json.loads(path.read_text(encoding="utf-8"))
        return f"by process {note['pid']} on {note['host']} since {note['since']}"
    except (OSError, ValueError, KeyError, TypeError):  # it is just being written
        return "by another process"
