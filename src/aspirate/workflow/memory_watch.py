"""How much memory units take, learned as they go, so that no more are at work than the machine can hold."""

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from aspirate.workflow.launch import Needs

RESERVE_MB = 500.0
"""Kept free: a machine without any ends programs, and not those that took it."""


def available_mb() -> float:
    """What new work may take without others being pushed out; endless where the system does not say."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return next(float(line.split()[1]) / 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        return float("inf")


def resident_mb(pid: int) -> float:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    except (OSError, IndexError):
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


class MemoryWatch:
    """Units that state the same needs are of a kind: what one of them took, the next may take."""

    def __init__(self, available: Callable[[], float] = available_mb, reserve_mb: float = RESERVE_MB) -> None:
        self._available, self._reserve_mb = available, reserve_mb
        self._most: dict[Needs, float] = {}

    def needed_mb(self, needs: Needs) -> float:
        return max(needs.memory_mb, self._most.get(needs, 0.0))

    def look(self, at_work: Iterable[tuple[Needs, int]]) -> None:
        """Remember what each process at work has taken so far."""
        for needs, pid in at_work:
            self._most[needs] = max(self.needed_mb(needs), resident_mb(pid))

    def room_for(self, needs: Needs, at_work: Sequence[tuple[Needs, int]]) -> bool:
        """Whether there is memory for one more, beside what those at work may still come to take."""
        to_come = sum(max(0.0, self.needed_mb(each) - resident_mb(pid)) for each, pid in at_work)
        return self._available() - to_come - self._reserve_mb >= self.needed_mb(needs)

    def short(self) -> bool:
        return self._available() < self._reserve_mb
