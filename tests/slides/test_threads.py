"""Threads of a process that is one of several."""

import os

import pytest

from aspirate.slides.threads import available_threads


@pytest.mark.parametrize(("said", "expected"), [("1", 1), ("2", 2), ("64", 4), ("", 4), ("0", 4), ("4,2", 4)])
def test_a_process_keeps_to_its_share(monkeypatch: pytest.MonkeyPatch, said: str, expected: int) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3}, raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", said)
    assert available_threads() == expected
