"""A start of a command, which can be ended at any moment with all it started; whatever outlives it is found."""

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from benchmarks.faults.commands import Command

MARK = "ASPIRATE_FAULT_RUN"
"""In the environment of a start, and so of all that it starts."""
POLL_S = 0.002
LONGEST_S = 900.0
GRACE_S = 15.0
"""In which workers notice that their parent is gone."""


@dataclass(frozen=True, slots=True)
class Ended:
    code: int
    """Below zero: the signal that ended it."""
    said: str
    seconds: float


class Start:
    def __init__(self, command: Command, out: Path) -> None:
        self.mark = uuid4().hex
        self.log = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115  until it ended
        own = {MARK: self.mark, "OMP_NUM_THREADS": "1"}
        self.begun = time.monotonic()
        self.process = subprocess.Popen(
            command.to(out), env=os.environ | own, stdout=self.log, stderr=subprocess.STDOUT, start_new_session=True
        )

    def wait(self, until: Callable[[], bool] = lambda: False) -> bool:
        """Whether the command is still under way when `until` comes true."""
        try:
            while self.process.poll() is None:
                if until():
                    return True
                if self.seconds() > LONGEST_S:
                    raise TimeoutError(f"a start took longer than {LONGEST_S:g} s")
                time.sleep(POLL_S)
        except BaseException:  # whoever stops the benchmark stops what it started
            self.kill_all()
            raise
        return False

    def seconds(self) -> float:
        return time.monotonic() - self.begun

    def kill_all(self) -> None:
        """SIGKILL for everything at once; what starts in the meantime is found in the next round."""
        while self.process.poll() is None or marked(self.mark):
            for pid in {self.process.pid, *marked(self.mark)}:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(0.05)

    def kill_parent(self) -> None:
        self.process.kill()
        self.process.wait()

    def ended(self) -> Ended:
        code = self.process.wait()
        self.log.seek(0)
        said = self.log.read()
        self.log.close()
        return Ended(code, said, time.monotonic() - self.begun)

    def orphans(self) -> list[int]:
        """Of those it started, who still live after a while."""
        deadline = time.monotonic() + GRACE_S
        while (left := marked(self.mark)) and time.monotonic() < deadline:
            time.sleep(0.1)
        return left


def marked(mark: str) -> list[int]:
    """Processes that carry a mark, the dead ones that nobody has waited for left out."""
    wanted, found = f"{MARK}={mark}".encode(), []
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if wanted in (place / "environ").read_bytes().split(b"\0") and not _is_zombie(place):
                found.append(int(place.name))
    return found


def _is_zombie(place: Path) -> bool:
    return (place / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[0] == "Z"
