"""How scores of tiles are read for the score of their bag; without torch, so that whoever only predicts needs none."""

from dataclasses import dataclass
from math import inf, log, log1p

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Pooling:
    """From scores h of tiles to what each adds to the score of their bag; see `nn/mixture.py`."""

    share: float = 1.0
    """π′; 1 adds up scores."""
    slope: float = 1.0
    offset: float = 0.0

    def evidence(self, h: NDArray[np.floating]) -> NDArray[np.floating]:
        """log(1 − π′ + π′·exp(s·h + c)) of each tile."""
        absent = -inf if self.share == 1 else log1p(-self.share)
        found: NDArray[np.floating] = np.logaddexp(absent, log(self.share) + self.slope * h + self.offset)
        return found


AS_IT_IS = Pooling()
"""The sum of scores themselves."""
