"""Independent jobs, one after another or in processes; one that fails does not stop the others."""

import multiprocessing
import signal
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing.process import BaseProcess

from aspirate.core.progress import Advance, silent

Job = Callable[[Advance], None]


def run_all(jobs: Mapping[str, Job], workers: int, advance: Advance, units: int) -> dict[str, str]:
    """Runs jobs of `units` each; returns why some failed, by name. With one worker, jobs advance themselves."""
    if workers > 1 and len(jobs) > 1:
        return _in_processes(jobs, min(workers, len(jobs)), advance, units)
    failures = {}
    for name, job in jobs.items():
        try:
            job(advance)
        except Exception as exc:  # noqa: BLE001 - one bad slide is told by its name, the others go on
            failures[name] = _reason(exc)
    return failures


def _in_processes(jobs: Mapping[str, Job], workers: int, advance: Advance, units: int) -> dict[str, str]:
    failures = {}
    others = set(multiprocessing.active_children())
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_start_worker)
    try:
        names = {pool.submit(job, silent): name for name, job in jobs.items()}
        for future in as_completed(names):
            if (error := future.exception()) is None:
                advance(units)
            else:
                failures[names[future]] = _reason(error)
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        _stop(set(multiprocessing.active_children()) - others)
        raise
    pool.shutdown()
    return failures


def _reason(error: BaseException) -> str:
    return str(error) or type(error).__name__


def _start_worker() -> None:
    """Ctrl-C is the parent's to handle; when it says stop, a worker leaves through its `finally` blocks."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _leave)


def _leave(*_: object) -> None:
    raise SystemExit(143)


def _stop(workers: set[BaseProcess]) -> None:
    """A worker may have one more job at hand when told to stop, so it is told until it has left."""
    while any(worker.is_alive() for worker in workers):
        for worker in workers:
            worker.terminate()
            worker.join(0.2)
