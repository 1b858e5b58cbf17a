"""Which spots to label next: those of which the model is least sure, spread over slides and over each slide."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest

import numpy as np
import shapely

from aspirate.core.tile_file import TileTable

PER_SLIDE = 12
APART_TILES = 3
"""Suggestions of one slide are at least so many tiles apart: neighbours show the same group."""


@dataclass(frozen=True, slots=True)
class Spot:
    slide: str
    x_px0: int
    y_px0: int
    side_px0: int
    informativeness: float


def uncertain(
    slide: str,
    table: TileTable,
    marked: Sequence[shapely.Geometry],
    dismissed: Iterable[tuple[int, int]],
    most: int = PER_SLIDE,
) -> list[Spot]:
    """Tiles whose informativeness is nearest ½, none that is marked or was dismissed."""
    doubt = np.abs(table.values["informativeness"] - 0.5)
    tree, gone = shapely.STRtree(list(marked)), set(dismissed)
    chosen: list[Spot] = []
    for i in np.argsort(doubt, kind="stable").tolist():
        if len(chosen) == most or doubt[i] >= 0.5:
            break
        x, y = table.corners_px0[i].tolist()
        near = APART_TILES * table.side_px0
        if (x, y) in gone or any(max(abs(x - s.x_px0), abs(y - s.y_px0)) < near for s in chosen):
            continue
        if not len(tree.query(shapely.box(x, y, x + table.side_px0, y + table.side_px0), predicate="intersects")):
            chosen.append(Spot(slide, x, y, table.side_px0, float(table.values["informativeness"][i])))
    return chosen


def spread(spots: Mapping[str, Sequence[Spot]], most: int) -> list[Spot]:
    """The first of every slide, the least sure slide first, then the second of each."""
    slides = sorted(spots.values(), key=lambda own: abs(own[0].informativeness - 0.5) if own else 1.0)
    turns = chain.from_iterable(zip_longest(*slides))
    return [spot for spot in turns if spot is not None][:most]
