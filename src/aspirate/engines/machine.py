"""Which precisions OpenVINO has on this machine, and how much faster than fp32 each is.

Some virtual machines announce matrix instructions (AMX) that end the process which uses them. So they are tried in
another process, once for a kind of processor and a version of the library; where it dies, it is tried again without
those instructions. The verdict is kept on disk.
"""

import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version

from aspirate.engines.cache import cpu, fingerprint, keep_note, kept_note

PRECISIONS = ("fp32", "bf16", "int8")
WORTH = 1.2
"""A precision must be so much faster than fp32 to be chosen unasked; above 1, so that noise does not decide."""
ISA_VARIABLE = "ONEDNN_MAX_CPU_ISA"
NO_MATRIX_INSTRUCTIONS = "AVX512_CORE_FP16"
"""All that comes before AMX."""
PATIENCE_S = 120


@dataclass(frozen=True, slots=True)
class Machine:
    speeds: dict[str, float]
    """Times as fast as fp32, by precision; empty where there is no OpenVINO."""
    highest_isa: str | None = None
    """What the library must be held to, so that it does not end the process."""
    note: str = ""
    """What is lost, and why."""

    def fastest_first(self) -> list[str]:
        """Those that pay, and fp32."""
        worth = [name for name in self.speeds if name == "fp32" or self.speeds[name] >= WORTH]
        return sorted(worth, key=lambda name: -self.speeds[name])


@cache
def this_machine() -> Machine:
    try:
        library = version("openvino")
    except PackageNotFoundError:
        return Machine({}, note="openvino is not installed: torch scores tiles, two to seven times slower")
    name = f"machine-{fingerprint(library, cpu(), os.environ.get(ISA_VARIABLE))}.json"
    note = kept_note(name)
    if note is not None:
        try:
            return Machine(dict(note["speeds"]), note["highest_isa"], note["note"])
        except (KeyError, TypeError, ValueError):
            pass  # of another version; tried anew
    found = _tried()
    keep_note(name, asdict(found))
    return found


def _tried() -> Machine:
    speeds, died = _attempt(None)
    if speeds:
        return Machine(speeds)
    again, died_again = _attempt(NO_MATRIX_INSTRUCTIONS)
    if again:
        why = f"openvino: matrix instructions (AMX) end a process on this machine ({died}); kept out"
        return Machine(again, NO_MATRIX_INSTRUCTIONS, why)
    return Machine({}, note=f"openvino does not run on this machine ({died_again}): torch scores tiles, slower")


def _attempt(isa: str | None) -> tuple[dict[str, float], str]:
    """Speeds, or none and how it ended."""
    environment = os.environ | ({ISA_VARIABLE: isa} if isa else {})
    command = [sys.executable, "-m", "aspirate.engines.trial"]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=PATIENCE_S)
        return {name: float(ratio) for name, ratio in json.loads(done.stdout).items()}, ""
    except subprocess.CalledProcessError as error:
        signal = -error.returncode
        return {}, f"signal {signal}" if signal > 0 else f"exit {error.returncode}: {error.stderr.strip()[-200:]}"
    except subprocess.TimeoutExpired:
        return {}, f"no answer in {PATIENCE_S} s"
    except ValueError as error:
        return {}, str(error)
