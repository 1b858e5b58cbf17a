"""What scores tiles, whatever does the arithmetic."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class Engine(Protocol):
    """Pixels as bytes in, (N, side, side, 3) or any other height and width the net takes; numbers in fp32 out."""

    name: str
    """As `--engine` takes it: who does the arithmetic, and in which precision."""

    def score(self, tiles: NDArray[np.uint8]) -> NDArray[np.float32]:
        """(N,): the first output of each tile."""

    def outputs(self, tiles: NDArray[np.uint8]) -> NDArray[np.float32]:
        """(N, …): all that the net says of each tile."""
