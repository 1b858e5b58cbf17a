"""Work on the parts of one slide, spread over threads.

A pool lives for one call only: starting it costs less than decoding one tile, and no thread or lock
is left behind that a fork could catch in mid-air.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import TypeVar

from aspirate.core.progress import Advance, silent

Result = TypeVar("Result")
LARGEST_PART = 256
"""So that progress is seen."""


def available_threads() -> int:
    """CPUs that this process may use; no more than OMP_NUM_THREADS, by which one of several gets its share."""
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    share = os.environ.get("OMP_NUM_THREADS", "")
    return min(cpus, int(share)) if share.isdecimal() and int(share) else cpus


def for_parts(work: Callable[[range], Result], count: int, threads: int, advance: Advance = silent) -> list[Result]:
    """`work` on consecutive parts of `range(count)`; results in the order of the parts."""
    parts = _parts(count, threads)
    if threads == 1 or len(parts) <= 1:
        results = []
        for indices in parts:
            results.append(work(indices))
            advance(len(indices))
        return results
    with ThreadPoolExecutor(min(threads, len(parts))) as pool:
        futures = {pool.submit(work, indices): len(indices) for indices in parts}
        try:
            for future in as_completed(futures):
                future.result()
                advance(futures[future])
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
        return [future.result() for future in futures]


def _parts(count: int, threads: int) -> list[range]:
    """Ever smaller parts, so that all threads end at nearly the same time."""
    parts = []
    start = 0
    while start < count:
        stop = start + min(LARGEST_PART, -(-(count - start) // (2 * threads)))
        parts.append(range(start, stop))
        start = stop
    return parts
