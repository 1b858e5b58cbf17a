"""A slide in the cascade: the scout guesses at every tile from afar, r_φ looks at those that may matter.

A cell is a tile read `shrink` times as coarse, so the level of the file that suits is found, or made, as for any tile.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from aspirate.core.geometry import TileGrid
from aspirate.core.logits import logit, sigmoid
from aspirate.stages.cascade import Looked, Score, look
from aspirate.stages.selection import SelectionSettings, select

Enough = Callable[[NDArray[np.bool_]], bool]
"""Whether tiles found to be confidently informative, (N,), are enough to judge a slide."""


@dataclass(frozen=True, slots=True)
class Seen:
    """Informativeness of every tile of a slide, and who says so."""

    informativeness: NDArray[np.float32]
    exact: NDArray[np.bool_]
    """By r_φ; elsewhere by the scout, and then below the limit from which a tile is confidently informative."""
    kept: NDArray[np.bool_]
    looked: Looked | None = None
    """None where no scout was asked."""


def seen_whole(informativeness: NDArray[np.float32], confident: float, selection: SelectionSettings) -> Seen:
    """Every tile by r_φ."""
    kept = select(informativeness, confident, selection)
    return Seen(informativeness, np.ones(len(informativeness), bool), kept)


def cells_of(grid: TileGrid, shrink: int) -> TileGrid:
    """The same tiles, read as the scout sees them."""
    return replace(grid, side_px=grid.side_px // shrink)


@dataclass(frozen=True, slots=True)
class Cascade:
    """How far a scout is trusted, by whom."""

    margin: float
    """δ, in logits."""
    confident: float
    """Probability from which a tile counts as informative."""
    selection: SelectionSettings

    def see(
        self, scouted: NDArray[np.float32], score: Score, checked: bool = True, enough: Enough | None = None
    ) -> Seen:
        """`scouted` are the scout's guesses at all tiles, `score` gives r_φ's logits of some. Without
        `enough` a slide can be judged by whatever is found."""
        most = self.selection.tiles
        least = most if self.selection.mode == "fixed" else self.selection.least

        def judged(logits: NDArray[np.float32]) -> bool:
            return enough is None or enough(self._probabilities(logits) >= self.confident)

        confident = float(logit(self.confident))
        looked = look(scouted, score, self._kept, confident, self.margin, least, checked, most, judged)
        below = np.nextafter(np.float32(self.confident), np.float32(0))
        guessed = np.minimum(sigmoid(scouted).astype(np.float32), below)
        informativeness = np.where(looked.at, self._probabilities(looked.logits), guessed)
        return Seen(informativeness, looked.at, self._kept(looked.logits), looked)

    def _kept(self, logits: NDArray[np.float32]) -> NDArray[np.bool_]:
        """Only of tiles that r_φ looked at; −∞ is one it did not."""
        return select(self._probabilities(logits), self.confident, self.selection) & ~np.isneginf(logits)

    @staticmethod
    def _probabilities(logits: NDArray[np.float32]) -> NDArray[np.float32]:
        return sigmoid(logits).astype(np.float32)
