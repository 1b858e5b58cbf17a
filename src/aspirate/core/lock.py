"""One program at a time in a folder: the second is told who is there, and a dead one holds nothing.

The lock is the kernel's (flock), so it ends with its process however that ends, and reaches other machines wherever
their file system carries it. `.lock` only says who holds it.
"""

import json
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from aspirate.core.errors import ConfigError

if sys.platform != "win32":  # where folders are not locked
    import fcntl

LOCK_FILE = ".lock"


class FolderInUse(ConfigError):
    """Another program writes to the folder."""


@contextmanager
def locked(folder: Path, name: str = LOCK_FILE, wait: bool = False, shared: bool = False) -> Iterator[None]:
    """While open, nobody else locks the folder by that name, but for those who share it; a second waits or is refused.

    A folder that is made for its lock alone goes with it.
    """
    made = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    handle = _take(path, wait, shared)
    try:
        os.ftruncate(handle, 0)
        os.pwrite(handle, json.dumps(_myself()).encode(), 0)
        yield
    finally:
        # the file goes before the lock does: whoever opened it in the meantime looks again
        if _flock(handle, wait=False, shared=False):
            path.unlink(missing_ok=True)
        os.close(handle)
        if made:
            with suppress(OSError):
                folder.rmdir()


def _take(path: Path, wait: bool, shared: bool) -> int:
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        if not _flock(handle, wait, shared):
            os.close(handle)
            raise FolderInUse(f"{path.parent}: in use {_holder(path)}; wait for it, or choose another folder")
        if _is_at(path, handle):
            return handle
        os.close(handle)  # its last holder took the file away: there is another now, or none


def _is_at(path: Path, handle: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(handle))
    except FileNotFoundError:
        return False


def _flock(handle: int, wait: bool, shared: bool) -> bool:
    """Whether the lock is ours."""
    if sys.platform == "win32":
        return True
    try:
        fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks, as Lustre mounted without flock: better unlocked than not at all
        pass
    return True


def _myself() -> dict[str, object]:
    return {"pid": os.getpid(), "host": socket.gethostname(), "since": datetime.now(UTC).isoformat(timespec="seconds")}


def _holder(path: Path) -> str:
    try:
        note = json.loads(path.read_text(encoding="utf-8"))
        return f"by process {note['pid']} on {note['host']} since {note['since']}"
    except (OSError, ValueError, KeyError, TypeError):  # it is just being written
        return "by another process"
