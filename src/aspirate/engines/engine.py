"""What scores tiles, whatever does the arithmetic."""

from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import nn


class Engine(Protocol):
    """Pixels as bytes in, (N, side, side, 3) or any other height and width the net takes; numbers in fp32 out."""

    name: str
    """As `--engine` takes it: who does the arithmetic, and in which precision."""

    def score(self, tiles: NDArray[np.uint8]) -> NDArray[np.float32]:
        """(N,): the first output of each tile."""

    def outputs(self, tiles: NDArray[np.uint8]) -> NDArray[np.float32]:
        """(N, …): all that the net says of each tile."""


@runtime_checkable
class OnDisk(Protocol):
    """A net that is read when its layers are needed; one that was compiled before is scored without, and without torch,
    which takes longer to load than a small slide to score."""

    @property
    def numbers(self) -> int:
        """How many its weights are."""

    def read(self) -> "nn.Module": ...
