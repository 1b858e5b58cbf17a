"""What this machine can do is tried where it does no harm, and once."""

import subprocess
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import pytest

from aspirate.engines import machine
from aspirate.engines.machine import Machine, this_machine

DIES = "import os, signal; os.kill(os.getpid(), signal.SIGILL)"


@pytest.fixture
def attempts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """Programs that take the place of the trial, in turn; a real process runs each."""
    programs: list[Any] = []
    run = subprocess.run

    def stand_in(command: list[str], **options: Any) -> Any:
        return run([command[0], "-c", programs.pop(0)], **options)

    monkeypatch.setenv("ASPIRATE_CACHE", str(tmp_path))
    monkeypatch.delenv(machine.ISA_VARIABLE, raising=False)
    monkeypatch.setattr(subprocess, "run", stand_in)
    this_machine.cache_clear()
    yield programs
    this_machine.cache_clear()


def test_speeds_are_those_that_the_trial_prints(attempts: list[Any]) -> None:
    attempts.append('print(\'{"fp32": 1.0, "bf16": 1.1, "int8": 3.5}\')')
    found = this_machine()
    assert found == Machine({"fp32": 1.0, "bf16": 1.1, "int8": 3.5})
    assert found.fastest_first() == ["int8", "fp32"]  # bf16 is not worth it


def test_where_matrix_instructions_kill_they_are_kept_out(attempts: list[Any]) -> None:
    isa = 'os.environ["ONEDNN_MAX_CPU_ISA"] == "AVX512_CORE_FP16"'
    told = f'import json, os; print(json.dumps({{"fp32": 1.0, "bf16": 2.0}} if {isa} else 0))'
    attempts += [DIES, told]
    found = this_machine()
    assert found.speeds == {"fp32": 1.0, "bf16": 2.0} and found.highest_isa == "AVX512_CORE_FP16"
    assert "AMX" in found.note and "signal 4" in found.note


@pytest.mark.parametrize("last", [DIES, "import nowhere", "print('nonsense')"])
def test_where_nothing_works_torch_serves_and_it_is_said(attempts: list[Any], last: str) -> None:
    attempts += [DIES, last]
    found = this_machine()
    assert found.speeds == {} and found.fastest_first() == []
    assert "openvino does not run on this machine" in found.note and "torch" in found.note


def test_a_verdict_is_reached_once_and_again_if_it_is_lost(attempts: list[Any], tmp_path: Path) -> None:
    attempts += ["print('{\"fp32\": 1.0}')"] * 3
    first = this_machine()
    this_machine.cache_clear()
    assert this_machine() == first and len(attempts) == 2
    (kept,) = tmp_path.glob("machine-*.json")
    for damage in ("{", '{"speeds": 1}'):
        kept.write_text(damage)
        this_machine.cache_clear()
        assert this_machine() == first
    assert attempts == []


def test_without_the_library_it_says_what_is_lost(attempts: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(machine, "version", absent)
    assert this_machine().speeds == {} and "not installed" in this_machine().note


def test_the_trial_itself_runs_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """fp32 does everywhere; whatever else is said to work has a speed."""
    this_machine.cache_clear()
    found = this_machine()
    assert found.speeds["fp32"] == 1.0
    assert set(found.speeds) <= set(machine.PRECISIONS) and all(speed > 0 for speed in found.speeds.values())
