"""Batches made ahead of time in a thread, so that arithmetic never waits for pixels.

In this thread torch, where it is loaded at all, computes on one core: a second team of threads would hold up the first
at every step they share.
"""

import queue
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Self

AHEAD = 3


class Prefetch:
    """Iterates over `make(step)`, in order; an exception in the thread is raised in the loop."""

    def __init__(self, make: Callable[[int], Any], steps: Iterable[int], ahead: int = AHEAD) -> None:
        self._make, self._steps = make, steps
        self._ready: queue.Queue[tuple[Any, BaseException | None]] = queue.Queue(ahead)
        self._stop = threading.Event()
        self._torch: Any = sys.modules.get("torch")
        self._cores = self._torch.get_num_threads() if self._torch else 0
        self._thread = threading.Thread(target=self._work, daemon=True, name="prefetch")

    def _work(self) -> None:
        self._compute_on(1)
        try:
            for step in self._steps:
                if not self._put((self._make(step), None)):
                    return
            self._put((None, StopIteration()))
        except BaseException as error:  # noqa: BLE001 - handed to the loop, which raises it
            self._put((None, error))

    def _compute_on(self, cores: int) -> None:
        if self._torch:
            self._torch.set_num_threads(cores)

    def _put(self, item: tuple[Any, BaseException | None]) -> bool:
        while not self._stop.is_set():
            try:
                self._ready.put(item, timeout=0.1)
                return True
            except queue.Full:
                continue
        return False

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stop.set()
        self._thread.join()
        self._compute_on(self._cores)  # the thread's own number holds for threads to come, too

    def __iter__(self) -> Iterator[Any]:
        while True:
            batch, error = self._ready.get()
            if isinstance(error, StopIteration):
                return
            if error is not None:
                raise error
            yield batch
