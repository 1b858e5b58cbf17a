"""Which engine scores a net: the fastest that may be used, unless one is asked for."""

import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from aspirate.core.errors import ConfigError
from aspirate.engines.engine import Engine, OnDisk
from aspirate.engines.machine import PRECISIONS, this_machine
from aspirate.engines.turns import Turns
from aspirate.nn.shapes import Range

if TYPE_CHECKING:
    from torch import nn

CHOICES = ("auto", "torch", "openvino", *(f"openvino-{precision}" for precision in PRECISIONS))
"""What `--engine` takes."""
GPUS = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")
"""One of these is there on Linux if there is a GPU that torch could use."""


def candidates(asked: str = "auto", admitted: Collection[str] = ("fp32",)) -> list[str]:
    """Names of engines to take, best first; `admitted` are precisions that may be taken unasked, fp32 always may."""
    if asked not in CHOICES:
        raise ConfigError(f"engine={asked}: choose one of {', '.join(CHOICES)}")
    if asked == "torch" or (asked == "auto" and has_gpu()):
        return ["torch"]
    here = this_machine()
    if asked == "auto" or asked == "openvino":
        found = [f"openvino-{name}" for name in here.fastest_first() if name == "fp32" or name in admitted]
        found += ["torch"] if asked == "auto" else []
    else:
        found = [asked] if asked.removeprefix("openvino-") in here.speeds else []
    if not found:
        has = ", ".join(here.speeds) or "nothing"
        why = here.note or f"it has {has}"
        raise ConfigError(f"engine={asked}: this machine cannot ({why}); use auto")
    return found


def has_gpu() -> bool:
    """Torch knows, but takes a second to load: it is asked only where there may be one."""
    never = sys.platform == "darwin" or (sys.platform == "linux" and not any(Path(place).exists() for place in GPUS))
    if never and "torch" not in sys.modules:
        return False
    import torch

    return torch.cuda.is_available()


def engine_for(
    net: "nn.Module | OnDisk",
    choice: str = "auto",
    batch: int | None = None,
    ranges: Sequence[Range] | None = None,
    fingerprint: str | None = None,
    turns: Turns | None = None,
) -> Engine:
    """`batch` is how many at once, where they are larger than tiles; `ranges` are what int8 needs; engines that share
    `turns` are not in memory at once where they are large."""
    name = candidates(choice)[0]
    if name == "torch":
        from aspirate.engines.torch_engine import TorchEngine

        read = net.read() if isinstance(net, OnDisk) else net
        return TorchEngine(read, "cuda" if has_gpu() else None, batch=batch)
    from aspirate.engines.openvino_engine import OpenVinoEngine

    return OpenVinoEngine(net, name.removeprefix("openvino-"), ranges, batch, fingerprint, turns)
