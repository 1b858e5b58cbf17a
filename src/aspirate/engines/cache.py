"""What is worked out once for a machine and kept. Its files may be removed at any time; damaged ones are made anew."""

import hashlib
import json
import os
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aspirate.core.store import atomic_path, write_json

FOLDER_VARIABLE = "ASPIRATE_CACHE"
LIMIT_BYTES = 4 << 30
"""Of all compiled nets together; those used longest ago go first. The paper's net takes 0.6 GB in fp32."""
DIGEST = 64
"""Characters of a SHA-256, which precedes what is kept."""


def folder() -> Path:
    if FOLDER_VARIABLE in os.environ:
        return Path(os.environ[FOLDER_VARIABLE])
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "aspirate"


def fingerprint(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]


def cpu() -> str:
    """What tells one kind of processor from another, so that nothing is reused elsewhere."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    of_first = lines[: lines.index("")] if "" in lines else lines
    return "\n".join(line for line in of_first if line.startswith(("model name", "flags", "Features", "CPU part")))


def kept_bytes(
    name: str, room: Callable[[int], NDArray[np.uint8]] = lambda size: np.empty(size, np.uint8)
) -> NDArray[np.uint8] | None:
    """As they were put, in the `room` made for so many; None where there are none, or not whole."""
    path = folder() / name
    try:
        with path.open("rb") as file:
            digest = file.read(DIGEST)
            content = room(max(0, path.stat().st_size - DIGEST))
            file.readinto(content.data)
        if hashlib.sha256(content.data).hexdigest().encode() != digest:
            return None
        os.utime(path)
    except OSError:
        return None
    return content


def keep_bytes(name: str, content: bytes | memoryview) -> None:
    """A cache that cannot be written is no cache, and no error."""
    try:
        with atomic_path(folder() / name) as part, part.open("wb") as file:
            file.write(hashlib.sha256(content).hexdigest().encode())
            file.write(content)
        _make_room(Path(name).suffix)
    except OSError:
        return


def _make_room(suffix: str) -> None:
    by_age = sorted(((p.stat().st_mtime, p.stat().st_size, p) for p in folder().glob(f"*{suffix}")), reverse=True)
    total = 0
    for number, (_, size, path) in enumerate(by_age):
        total += size
        if total > LIMIT_BYTES and number > 0:
            path.unlink(missing_ok=True)


def kept_note(name: str) -> dict[str, Any] | None:
    try:
        note = json.loads((folder() / name).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return note if isinstance(note, dict) else None


def keep_note(name: str, note: dict[str, Any]) -> None:
    try:
        write_json(folder() / name, note)
    except OSError:
        return
