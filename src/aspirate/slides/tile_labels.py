"""From annotations to tile labels, by one rule.

**A tile is informative if its centre square, half as wide as the tile, meets an annotation with positive
area.** The part of an annotation that lies within the slide counts, and each of its polygons or points
on its own. So that none is lost between the centre squares:

* A part at most half a tile wide in x lies in the one column that holds the centre of its bounding box;
  left and top edges belong to a tile, right and bottom edges to the next. In x it is thereby as if it
  had been widened to half a tile about its centre. The same holds in y with rows. Such a part stands for
  its bounding box: a click labels exactly the tile it lies in, a thin streak the tiles along it.
* A part that is wider, yet winds its way between all centre squares, labels the tile that has the most
  of its area (the first of equals).

A tile's abnormality is the highest grade of the annotations that meet it, −1 where none has a grade.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import shapely
from numpy.typing import NDArray
from shapely.geometry.base import BaseGeometry

from aspirate.core.geometry import TileGrid
from aspirate.core.records import Annotation

UNKNOWN = -1


@dataclass(frozen=True, slots=True)
class TileLabels:
    """Of every tile of a grid, in its order."""

    informative: NDArray[np.bool_]
    abnormality: NDArray[np.int8]


def label_tiles(grid: TileGrid, annotations: Sequence[Annotation]) -> TileLabels:
    labels = TileLabels(np.zeros(len(grid), bool), np.full(len(grid), UNKNOWN, np.int8))
    grades = np.array([UNKNOWN if a.abnormality is None else a.abnormality for a in annotations], np.int8)
    owners, tiles = tiles_met(grid, annotations)
    labels.informative[tiles] = True
    np.maximum.at(labels.abnormality, tiles, grades[owners])
    return labels


def tiles_met(grid: TileGrid, annotations: Sequence[Annotation]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Pairs (index of an annotation, index of a tile it labels), in the order of the annotations."""
    owners: list[NDArray[np.int64]] = []
    tiles: list[NDArray[np.int64]] = []
    for owner, part in _parts(grid, annotations):
        met = _met(grid, part)
        owners.append(np.full(len(met), owner, np.int64))
        tiles.append(met)
    if not tiles:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    pairs = np.unique(np.stack([np.concatenate(owners), np.concatenate(tiles)], axis=1), axis=0)
    return pairs[:, 0], pairs[:, 1]


def _parts(grid: TileGrid, annotations: Sequence[Annotation]) -> Iterator[tuple[int, BaseGeometry]]:
    """Polygons and points of each annotation, cut to the slide; a point on its far edges is outside."""
    width, height = grid.size_px0.width, grid.size_px0.height
    slide = shapely.box(0, 0, width, height)
    geometries = [annotation.geometry_px0 for annotation in annotations]
    parts, owners = shapely.get_parts(geometries, return_index=True)
    parts, inner = shapely.get_parts(parts, return_index=True)  # a collection may hold multi-parts
    for owner, part in zip(owners[inner], parts, strict=True):
        if part.geom_type == "Point":
            if 0 <= part.x < width and 0 <= part.y < height:
                yield int(owner), part
            continue
        within = part if shapely.contains_properly(slide, part) else part.intersection(slide)
        yield from ((int(owner), piece) for piece in shapely.get_parts(within) if piece.area > 0)


def _met(grid: TileGrid, part: BaseGeometry) -> NDArray[np.int64]:
    left, top, right, bottom = part.bounds
    columns, rows = _reached(left, right, grid.side_px0), _reached(top, bottom, grid.side_px0)
    half = grid.side_px0 / 2
    candidates = (rows[:, None] * grid.columns + columns).ravel()
    if right - left <= half or bottom - top <= half:
        return candidates
    met = candidates[_overlap(part, _squares(grid, candidates, margin=grid.side_px0 / 4))]
    return met if len(met) else _most_covered(grid, part)


def _reached(low: float, high: float, side: int) -> NDArray[np.int64]:
    """Columns (or rows) whose centre interval overlaps low..high, or the one that holds its middle."""
    if high - low <= side / 2:
        middle = int((low + high) / 2 // side)
        return np.array([middle], np.int64)
    # column i overlaps where i·side + side/4 < high and low < i·side + 3·side/4
    first = int((low - 0.75 * side) // side) + 1
    end = -int((0.25 * side - high) // side)
    return np.arange(first, end, dtype=np.int64)


def _overlap(part: BaseGeometry, squares: NDArray[np.object_]) -> NDArray[np.bool_]:
    """Whether each square shares area with a part, not just an edge or a corner."""
    shapely.prepare(part)
    overlap: NDArray[np.bool_] = shapely.intersects(part, squares)
    at_border = np.flatnonzero(overlap & ~shapely.contains_properly(part, squares))
    overlap[at_border] = ~shapely.touches(part, squares[at_border])
    return overlap


def _most_covered(grid: TileGrid, part: BaseGeometry) -> NDArray[np.int64]:
    left, top, right, bottom = (int(edge // grid.side_px0) for edge in part.bounds)
    columns = np.arange(left, min(right + 1, grid.columns), dtype=np.int64)
    rows = np.arange(top, min(bottom + 1, grid.rows), dtype=np.int64)
    tiles = (rows[:, None] * grid.columns + columns).ravel()
    areas = shapely.area(shapely.intersection(part, _squares(grid, tiles, margin=0)))
    return tiles[[int(np.argmax(areas))]]


def _squares(grid: TileGrid, tiles: NDArray[np.int64], margin: float) -> NDArray[np.object_]:
    rows, columns = np.divmod(tiles, grid.columns)
    x, y, side = columns * grid.side_px0, rows * grid.side_px0, grid.side_px0
    squares: NDArray[np.object_] = shapely.box(x + margin, y + margin, x + side - margin, y + side - margin)
    return squares
