"""Which engine scores a net: the fastest that may be used, unless one is asked for."""

from torch import nn

from aspirate.core.errors import ConfigError
from aspirate.engines.engine import Engine
from aspirate.engines.torch_engine import TorchEngine

CHOICES = ("auto", "torch")
"""What `--engine` takes."""


def engine_for(net: nn.Module, choice: str = "auto", batch: int | None = None) -> Engine:
    """`batch` is how many at once, where they are larger than tiles."""
    if choice not in CHOICES:
        raise ConfigError(f"engine={choice}: choose one of {', '.join(CHOICES)}")
    return TorchEngine(net, batch=batch)
