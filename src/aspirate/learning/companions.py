"""One training in several processes of a machine: this one, and companions that are started for it and end with it."""

import atexit
import gc
import multiprocessing
import os
import pickle
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from multiprocessing.process import BaseProcess
from typing import Any

import torch
from torch import distributed

from aspirate.core.errors import AspirateError

RANK = "LOCAL_RANK"
ENDS_WITHIN_S = 30.0


def is_one_of_several() -> bool:
    """Whether this process was started with a rank of its own, by `companions` or by `torchrun`."""
    return RANK in os.environ


@cache
def leave_in_order() -> None:
    """Have a process that was given its rank leave the others before it ends: if the interpreter goes first, threads of
    the group now and then end the process by a signal."""
    atexit.register(_leave)


def _leave() -> None:
    gc.collect()  # what is left of the nets, whose gradients the group averaged
    if distributed.is_initialized():
        distributed.destroy_process_group()


@contextmanager
def companions(count: int, work: Callable[..., object], *arguments: Any) -> Iterator[None]:
    """While open, this process is the first of `count`, and the others do `work(*arguments)` beside it.

    Should one of them end before its time, what waits for it here fails, and that is said instead.
    """
    threads = torch.get_num_threads()
    share = max(1, threads // count)
    address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(_free_port()), "NODE_RANK": "0"}
    # as bytes: processes would share the memory of tensors that are sent as such, and each step would be made twice
    task = pickle.dumps((work, arguments))
    context = multiprocessing.get_context("spawn")
    with _environment(address | {"OMP_NUM_THREADS": str(share)}):
        others: list[BaseProcess] = []
        for rank in range(1, count):
            os.environ[RANK] = str(rank)  # a process that is spawned has the environment of this moment
            others.append(context.Process(target=_do, args=(task,), daemon=True))
            others[-1].start()
        os.environ[RANK] = "0"
        torch.set_num_threads(share)
        try:
            yield
            for other in others:
                other.join(ENDS_WITHIN_S)
        except RuntimeError as error:
            if lost := [other.exitcode for other in others if other.exitcode]:
                raise AspirateError(
                    f"one of {count} processes of the training ended with exit code {lost[0]}; "
                    "the same command goes on from the last checkpoint"
                ) from error
            raise
        finally:
            torch.set_num_threads(threads)
            _leave()
            for other in others:
                other.kill()
                other.join()


def _do(task: bytes) -> None:
    work, arguments = pickle.loads(task)
    work(*arguments)


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    return port


@contextmanager
def _environment(changes: dict[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in (*changes, RANK)}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
