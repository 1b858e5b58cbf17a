"""A child that opens one case after another and says how each ended; it may die of any of them.

Reads `door TAB path` lines, answers each with one line of JSON; without a path the door is only imported. Python's own
audit events tell what a door did besides reading: files opened for writing, programs started, connections made, names
that a pickle asked for.
"""

import json
import os
import sys
import time
import traceback
from pathlib import Path
from typing import Any

from benchmarks.hostile.doors import door

from aspirate.core.errors import AspirateError

FORBIDDEN = (
    "pickle.find_class", "subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "socket.connect",
    "os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate", "os.chmod",
)  # fmt: skip
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class Watch:
    """What was done that no reading needs."""

    def __init__(self) -> None:
        self.on = False
        self.seen: list[str] = []
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.on:
            return
        if event in FORBIDDEN:
            self.seen.append(f"{event} {arguments[:2]!r}"[:200])
        elif event == "open":
            path, mode, flags = arguments
            writing = any(letter in mode for letter in "wax+") if isinstance(mode, str) else bool(flags & WRITING)
            if writing and path != os.devnull:
                self.seen.append(f"open {path!r} for writing"[:200])


def peak_mb() -> float:
    """The most memory since it was last forgotten."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def forget_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def opened(name: str, path: Path, watch: Watch) -> dict[str, Any]:
    """One case, and how it ended."""
    enter = door(name)
    forget_peak()
    start, watch.seen, watch.on = time.monotonic(), [], True
    answer: dict[str, Any]
    try:
        answer = {"ended": "read", "digest": enter(path), "said": ""}
    except AspirateError as exc:
        answer = {"ended": "refused", "digest": "", "said": str(exc)}
    except Exception as exc:  # noqa: BLE001  what is not foreseen is what this looks for
        where = traceback.extract_tb(exc.__traceback__)[-1]
        answer = {"ended": "traceback", "digest": "", "said": f"{type(exc).__name__}: {exc} ({where.name})"}
    watch.on = False
    answer["said"] = answer["said"][:400].encode("utf-8", "backslashreplace").decode()
    return answer | {"seconds": round(time.monotonic() - start, 3), "peak_mb": round(peak_mb()), "did": watch.seen[:5]}


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # decoders may print what they please
    watch = Watch()
    for line in sys.stdin:
        name, _, path = line.rstrip("\n").partition("\t")
        answer = opened(name, Path(path), watch) if path else {"ended": f"{door(name)} is there"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
