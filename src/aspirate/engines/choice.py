"""Which engine scores a net: the fastest that may be used, unless one is asked for."""

from collections.abc import Collection, Sequence

import torch
from torch import nn

from aspirate.core.errors import ConfigError
from aspirate.engines.engine import Engine
from aspirate.engines.machine import PRECISIONS, this_machine
from aspirate.engines.torch_engine import TorchEngine
from aspirate.engines.turns import Turns
from aspirate.nn.quantised import Range

CHOICES = ("auto", "torch", "openvino", *(f"openvino-{precision}" for precision in PRECISIONS))
"""What `--engine` takes."""


def candidates(asked: str = "auto", admitted: Collection[str] = ("fp32",)) -> list[str]:
    """Names of engines to take, best first; `admitted` are precisions that may be taken unasked, fp32 always may."""
    if asked not in CHOICES:
        raise ConfigError(f"engine={asked}: choose one of {', '.join(CHOICES)}")
    if asked == "torch" or (asked == "auto" and torch.cuda.is_available()):
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


def engine_for(
    net: nn.Module,
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
        device = "cuda" if torch.cuda.is_available() else None
        return TorchEngine(net, device, batch=batch)
    from aspirate.engines.openvino_engine import OpenVinoEngine

    return OpenVinoEngine(net, name.removeprefix("openvino-"), ranges, batch, fingerprint, turns)
