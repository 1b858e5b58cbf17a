"""Between the stages: which tiles of a slide are kept.

`fixed` keeps the M̃ most informative of every slide, as the paper does, even where thirty are real. `adaptive` keeps
at most M̃, and only those confidently informative; the rest would teach stage 2 noise. A slide with fewer such tiles
than `least` keeps its `least` best all the same, so that it has a score; whether that score means anything is said by
its adequacy.

Kept tiles count alike, or by u, the probability that they are informative. Stage 1 learns from batches half of which
are marked, so its own p is for a slide of which half is informative. Where a share π is, Bayes' rule gives

    u = π·p / (π·p + (1 − π)·(1 − p)).
"""

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from aspirate.core.config import Settings


class SelectionSettings(Settings):
    """Which tiles of a slide stage 2 sees."""

    mode: Literal["adaptive", "fixed"] = "adaptive"
    tiles: int = Field(1000, ge=1)
    """M̃, the most that are kept."""
    least: int = Field(6, ge=1)
    """The fewest that are kept, however little they look like follicular cells."""
    recall: float = Field(0.98, gt=0, le=1)
    """Share of held-out annotations that must have a confidently informative tile; it sets the threshold."""
    weights: Literal["binary", "informativeness"] = "informativeness"
    """u of a kept tile: 1, as in the paper, or its probability of being informative."""
    prevalence: float = Field(0.01, gt=0, lt=1)
    """π, the share of informative tiles that u is for; the paper found 0.01 % to 2 %."""


def confident_from(held: NDArray[np.floating], recall: float) -> float:
    """The highest threshold that keeps `recall` of held-out annotations, but never below one half.

    `held` is the best tile of each. Not all marked tiles: an outline's corners show no cells, and to keep these too
    would let in as many tiles that show none.
    """
    lost = int((1 - recall) * len(held) + 1e-9)  # 0.1 of 10 is 1, though 1 − 0.9 is a little less
    return max(0.5, float(np.sort(held)[lost]))


def select(informativeness: NDArray[np.floating], threshold: float, settings: SelectionSettings) -> NDArray[np.bool_]:
    """The tiles kept, (N,); of equal tiles the first, so that the choice never depends on chance."""
    best_first = np.argsort(-informativeness, kind="stable")
    count = min(settings.tiles, len(informativeness))
    if settings.mode == "adaptive":
        confident = int((informativeness >= threshold).sum())
        count = min(count, max(confident, settings.least))
    kept = np.zeros(len(informativeness), bool)
    kept[best_first[:count]] = True
    return kept


def tile_weights(informativeness: NDArray[np.floating], settings: SelectionSettings) -> NDArray[np.float64]:
    """u of tiles that are kept, from their informativeness."""
    if settings.weights == "binary":
        return np.ones(len(informativeness))
    p = informativeness.astype(np.float64)
    real, other = settings.prevalence * p, (1 - settings.prevalence) * (1 - p)
    return np.asarray(np.maximum(real / (real + other), 1e-6))  # so that a slide always has some weight
