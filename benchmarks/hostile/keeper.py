"""Keeps a worker at work: gives it cases, ends it when it takes too long or too much, starts another when it dies."""

import contextlib
import hashlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
WORKER = ("-m", "benchmarks.hostile.worker")
POLL_S = 0.05
START_S = 120.0
"""To import torch on a busy machine; not part of any case."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How a case ended: `read`, `refused`, `traceback`, `crash`, `hang` or `memory`."""

    ended: str
    digest: str
    said: str
    seconds: float
    peak_mb: int
    did: tuple[str, ...]


class Keeper:
    """One worker and its sandbox; a case's files are there only while it is open."""

    def __init__(self, limit_s: float = 30.0, limit_mb: int = 2048, command: Sequence[str] = WORKER) -> None:
        self.limit_s, self.limit_mb, self.command = limit_s, limit_mb, command
        self._folder = tempfile.TemporaryDirectory(prefix="hostile-")
        self.sandbox = Path(self._folder.name)
        (self.sandbox / "log").touch()
        self._worker: subprocess.Popen[str] | None = None
        self._ready: set[str] = set()

    def __enter__(self) -> "Keeper":
        return self

    def __exit__(self, *exc: object) -> None:
        self._end()
        self._folder.cleanup()

    def open(self, door: str, files: Mapping[str, bytes], entry: str) -> Ending:
        case = self.sandbox / "case"
        for name, data in files.items():
            (case / name).parent.mkdir(parents=True, exist_ok=True)
            (case / name).write_bytes(data)
        before = self._snapshot()
        ending = self._asked(door, case / entry)
        changed = sorted(path for path, _ in self._snapshot() ^ before)
        for path in sorted(self.sandbox.rglob("*"), reverse=True):
            if path.name != "log":
                path.rmdir() if path.is_dir() else path.unlink()
        if changed:
            return Ending(**(_fields(ending) | {"did": (*ending.did, f"files changed: {', '.join(changed[:5])}")}))
        return ending

    def _snapshot(self) -> set[tuple[str, str]]:
        return {
            (str(path.relative_to(self.sandbox)), hashlib.sha256(path.read_bytes()).hexdigest())
            for path in self.sandbox.rglob("*")
            if path.is_file() and path.name != "log"
        }

    def _asked(self, door: str, path: Path) -> Ending:
        if self._worker is None or self._worker.poll() is not None:
            self._ready = set()
        if door not in self._ready:
            if (failed := self._line(f"{door}\t\n", START_S)) and isinstance(failed, Ending):
                raise RuntimeError(f"the door {door} cannot be imported: {failed.said}")
            self._ready.add(door)
        answer = self._line(f"{door}\t{path}\n", self.limit_s)
        return answer if isinstance(answer, Ending) else self._judged(json.loads(answer))

    def _line(self, question: str, limit_s: float) -> str | Ending:
        """The worker's answer, or how it ended instead."""
        worker = self._running()
        assert worker.stdin and worker.stdout
        worker.stdin.write(question)
        worker.stdin.flush()
        start, peak_mb = time.monotonic(), 0
        while not select.select([worker.stdout], [], [], POLL_S)[0]:
            seconds = time.monotonic() - start
            peak_mb = max(peak_mb, _resident_mb(worker.pid))
            if peak_mb > self.limit_mb:
                return self._ended("memory", f"over {self.limit_mb} MB", seconds, peak_mb)
            if seconds > limit_s:
                return self._ended("hang", f"over {limit_s:g} s", seconds, peak_mb)
        if line := worker.stdout.readline():
            return line
        said = _death(worker.wait(), self.sandbox / "log")
        return self._ended("crash", said, time.monotonic() - start, peak_mb)

    def _judged(self, answer: dict[str, Any]) -> Ending:
        ending = Ending(**(answer | {"did": tuple(answer["did"])}))
        over = "memory" if ending.peak_mb > self.limit_mb else "hang" if ending.seconds > self.limit_s else None
        return Ending(**(_fields(ending) | {"ended": over})) if over else ending

    def _running(self) -> "subprocess.Popen[str]":
        if self._worker is None or self._worker.poll() is not None:
            inside = {name: str(self.sandbox) for name in ("HOME", "TMPDIR", "ASPIRATE_CACHE", "XDG_CACHE_HOME")}
            own = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "src")))}
            with (self.sandbox / "log").open("w") as log:
                self._worker = subprocess.Popen(
                    [sys.executable, *self.command], env=os.environ | inside | own | {"OMP_NUM_THREADS": "1"},
                    cwd=self.sandbox, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
                    encoding="utf-8", start_new_session=True,
                )  # fmt: skip
        return self._worker

    def _ended(self, how: str, said: str, seconds: float, peak_mb: int) -> Ending:
        self._end()
        return Ending(how, "", said, round(seconds, 3), peak_mb, ())

    def _end(self) -> None:
        if self._worker is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._worker.pid, signal.SIGKILL)
            self._worker.wait()
            for pipe in (self._worker.stdin, self._worker.stdout):
                with contextlib.suppress(BrokenPipeError):
                    if pipe:
                        pipe.close()
            self._worker = None


def _fields(ending: Ending) -> dict[str, Any]:
    return {name: getattr(ending, name) for name in Ending.__slots__}


def _resident_mb(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return next((int(line.split()[1]) // 1024 for line in lines if line.startswith("VmRSS")), 0)


def _death(code: int, log: Path) -> str:
    last = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:]
    how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
    return f"{how}; {''.join(last)}"[:400]
