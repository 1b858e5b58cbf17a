"""What a model saw on a slide, as a browser draws it: the heat map, the tiles it kept, how tiles are spread."""

from dataclasses import dataclass
from functools import lru_cache
from io import BytesIO
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from aspirate.core.tile_file import TileTable, read_tiles
from aspirate.core.touching import count_groups
from aspirate.workflow.heat_map import GUESSED, OPAQUE_FROM, colours, looked_at

TABLES_KEPT = 8
BINS = 40


@dataclass(frozen=True, slots=True)
class KeptTile:
    """A tile that the slide's score rests on; ranks begin at 1, the most informative."""

    rank: int
    x_px0: int
    y_px0: int
    informativeness: float
    malignancy: float | None


def tile_table(path: Path) -> TileTable:
    return _read(path, path.stat().st_mtime_ns)


@lru_cache(TABLES_KEPT)
def _read(path: Path, changed_ns: int) -> TileTable:
    return read_tiles(path)


def kept_tiles(table: TileTable) -> list[KeptTile]:
    """Most informative first; of equal ones the first of the slide."""
    informativeness = table.values["informativeness"]
    kept = np.flatnonzero(table.values["selected"])
    order = kept[np.argsort(-informativeness[kept], kind="stable")]
    malignancy = table.values.get("malignancy", np.full(len(table), np.nan))
    tiles = []
    for rank, i in enumerate(order.tolist(), start=1):
        x, y = table.corners_px0[i].tolist()
        unknown = np.isnan(malignancy[i])
        tiles.append(KeptTile(rank, x, y, float(informativeness[i]), None if unknown else float(malignancy[i])))
    return tiles


def grid_of(table: TileTable, values: NDArray[np.floating] | None = None) -> NDArray[np.float32]:
    """Informativeness, or other values, by row and column of tiles; 0 where there is none."""
    columns, rows = (table.corners_px0 // table.side_px0).T
    grid = np.zeros((rows.max(initial=0) + 1, columns.max(initial=0) + 1), np.float32)
    grid[rows, columns] = table.values["informativeness"] if values is None else values
    return grid


def guessed(table: TileTable) -> float:
    """Share of the tiles that were not looked at closely."""
    return float((~looked_at(table)).mean()) if len(table) else 0.0


def heat_map_png(table: TileTable) -> bytes:
    """One pixel a tile, so that a browser can draw edges where they are; the more opaque the more informative.

    What a scout guessed is fainter than what was looked at closely.
    """
    grid = grid_of(table)
    strength = grid_of(table, np.where(looked_at(table), 1.0, GUESSED))
    opacity = np.round(np.clip(grid / OPAQUE_FROM, 0, 1) * strength * 255).astype(np.uint8)
    buffer = BytesIO()
    Image.fromarray(np.dstack([colours(grid), opacity])).save(buffer, "PNG", optimize=True)
    return buffer.getvalue()


def histogram(table: TileTable) -> list[int]:
    """Tiles by informativeness, in even bins of 0 … 1."""
    counts: list[int] = np.histogram(table.values["informativeness"], BINS, (0, 1))[0].tolist()
    return counts


def groups(table: TileTable, confident: float) -> int:
    """Confident tiles that touch count as one."""
    rows, columns = np.nonzero(grid_of(table) >= confident)
    return count_groups(columns, rows)
