"""One program at a time in a folder, and none kept out by a dead one."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from aspirate.core.lock import FolderInUse, locked

HOLDER = """
import sys, time
from pathlib import Path
from aspirate.core.lock import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_the_second_is_told_who_was_first_and_a_killed_one_holds_nothing(tmp_path: Path) -> None:
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE)
    try:
        assert holder.stdout is not None and holder.stdout.readline() == b"held\n"
        with pytest.raises(FolderInUse) as refused, locked(tmp_path):
            pass
        said = str(refused.value)
        assert said.startswith(f"{tmp_path}: in use by process {holder.pid} on {socket.gethostname()} since 20")
        assert said.endswith("; wait for it, or choose another folder")
    finally:
        holder.send_signal(signal.SIGKILL)
        holder.communicate()
    assert (tmp_path / ".lock").exists()
    with locked(tmp_path), pytest.raises(FolderInUse, match=f"process {os.getpid()} "), locked(tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []


def test_who_waits_is_next(tmp_path: Path) -> None:
    order = []

    def second() -> None:
        with locked(tmp_path, wait=True):
            order.append("second")

    waiting = threading.Thread(target=second)
    with locked(tmp_path):
        waiting.start()
        time.sleep(0.2)
        order.append("first")
    waiting.join(10)
    assert order == ["first", "second"]
    assert list(tmp_path.iterdir()) == []


def test_many_at_once_come_in_one_by_one(tmp_path: Path) -> None:
    inside, most = [], []

    def enter() -> None:
        for _ in range(20):
            with locked(tmp_path, wait=True):
                inside.append(1)
                most.append(len(inside))
                inside.pop()

    threads = [threading.Thread(target=enter) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert most == [1] * 80


def test_those_who_share_let_each_other_in_and_nobody_else(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with locked(folder, shared=True):
        with locked(folder, shared=True):
            pass
        with pytest.raises(FolderInUse), locked(folder):
            pass
        with locked(folder, ".other.lock"):
            assert sorted(path.name for path in folder.iterdir()) == [".lock", ".other.lock"]
    assert not folder.exists(), "it was made for the lock alone"
    with locked(folder):
        with pytest.raises(FolderInUse), locked(folder, shared=True):
            pass
        (folder / "result").touch()
    assert [path.name for path in folder.iterdir()] == ["result"]
