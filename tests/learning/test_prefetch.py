"""Batches made ahead of time: in order, never too far ahead, and no thread outlives its loop."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from aspirate.learning.prefetch import Prefetch


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "prefetch"]


def test_the_order_is_that_of_the_steps() -> None:
    with Prefetch(lambda step: step * step, [5, 3, 9]) as batches:
        assert list(batches) == [25, 9, 81]
    with Prefetch(lambda step: step, []) as batches:
        assert list(batches) == []
    assert threads() == []


def test_it_works_in_another_thread_and_only_so_far_ahead() -> None:
    made: list[int] = []
    makers: set[int] = set()

    def make(step: int) -> int:
        makers.add(threading.get_ident())
        made.append(step)
        return step

    with Prefetch(make, range(100), ahead=2) as batches:
        iterator = iter(batches)
        for taken in range(1, 6):
            next(iterator)
            time.sleep(0.05)
            assert len(made) <= taken + 3, "two wait, one more is in hand"
    assert makers and threading.get_ident() not in makers


def test_torch_has_one_core_there_and_all_it_had_elsewhere() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        with Prefetch(lambda _step: torch.get_num_threads(), range(4)) as batches:
            assert list(batches) == [1, 1, 1, 1]
            assert torch.get_num_threads() == 3
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(torch.get_num_threads).result() == 3
    finally:
        torch.set_num_threads(before)


def test_an_exception_arrives_after_the_batches_before_it() -> None:
    def make(step: int) -> int:
        if step == 3:
            raise OSError("the disk is gone")
        return step

    seen: list[int] = []
    with pytest.raises(OSError, match="the disk is gone"), Prefetch(make, range(10)) as batches:
        seen.extend(batches)
    assert seen == [0, 1, 2]
    assert threads() == []


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_leaving_early_stops_the_thread(error: type[BaseException]) -> None:
    made: list[int] = []

    def make(step: int) -> int:
        made.append(step)
        return step

    with pytest.raises(error), Prefetch(make, range(10**9), ahead=2) as batches:
        for batch in batches:
            if batch == 4:
                raise error
    assert threads() == []
    count = len(made)
    time.sleep(0.05)
    assert len(made) == count <= 9
