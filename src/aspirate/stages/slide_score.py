"""From tile scores to a slide: f = Σ u·g / Σ u, its category by the cuts, and whether there was enough to judge."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from aspirate.core.config import Settings
from aspirate.core.labels import TRAINABLE_BETHESDA
from aspirate.core.touching import count_groups


class AdequacySettings(Settings):
    """When a slide shows enough to be judged."""

    groups: int = Field(6, ge=1)
    """Spatially distinct groups of confidently informative tiles; The Bethesda System asks for six."""


@dataclass(frozen=True, slots=True)
class Adequacy:
    informative_tiles: int
    groups: int
    adequate: bool


def slide_score(malignancy: NDArray[np.floating], u: NDArray[np.floating] | NDArray[np.bool_]) -> float:
    """f; `u` is which tiles are kept, or how much each counts."""
    weights = np.asarray(u, np.float64)
    if not weights.sum() > 0:
        raise ValueError("no tile has weight: a slide needs at least one kept tile")
    return float((np.asarray(malignancy, np.float64) * weights).sum() / weights.sum())


def bethesda_of(score: float, cuts: Sequence[float]) -> int:
    """2 below the first cut … 6 above the last."""
    return TRAINABLE_BETHESDA[int(np.searchsorted(np.asarray(cuts), score, side="left"))]


def adequacy(
    confident: NDArray[np.bool_], corners_px0: NDArray[np.int64], side_px0: int, settings: AdequacySettings
) -> Adequacy:
    """Counts confident tiles, and groups of them that touch by an edge or a corner."""
    tiles = int(confident.sum())
    columns, rows = (corners_px0[confident] // side_px0).T
    groups = count_groups(columns, rows)
    return Adequacy(tiles, groups, groups >= settings.groups)
