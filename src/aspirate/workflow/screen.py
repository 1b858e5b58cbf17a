"""Every tile of a slide through a net: reading and arithmetic overlap, memory is bounded by a few chunks."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from aspirate.core.geometry import TileGrid
from aspirate.core.progress import Advance, silent
from aspirate.engines.engine import Engine
from aspirate.learning.prefetch import Prefetch
from aspirate.slides.slide import Slide

CHUNK_BYTES = 50 * 2**20
"""Of tiles read at once; a thousand at 128 px."""
BLOCK = 8
"""Cells along the side of a block."""


def score_cells(slide: Slide, cells: TileGrid, engine: Engine, advance: Advance = silent) -> NDArray[np.float32]:
    """As `score_tiles` of all, for tiles of few pixels: read in blocks, each of them one tile to the reader."""
    blocks = replace(cells, side_px0=BLOCK * cells.side_px0, side_px=BLOCK * cells.side_px)
    scores = np.empty((blocks.rows * BLOCK, blocks.columns * BLOCK), np.float32)
    corners_px0 = blocks.corners_px0()
    at_once = max(1, CHUNK_BYTES // (3 * blocks.side_px**2))
    starts = range(0, len(blocks), at_once)

    def read(start: int) -> NDArray[np.uint8]:
        return slide.read_squares(corners_px0[start : start + at_once], blocks.side_px0, blocks.side_px)

    with Prefetch(read, starts, ahead=1) as ready:
        for start, pixels in zip(starts, ready, strict=True):
            parts = pixels.reshape(-1, BLOCK, cells.side_px, BLOCK, cells.side_px, 3).transpose(0, 1, 3, 2, 4, 5)
            found = engine.score(parts.reshape(-1, cells.side_px, cells.side_px, 3)).reshape(-1, BLOCK, BLOCK)
            for number, block in enumerate(found, start):
                row, column = divmod(number, blocks.columns)
                scores[row * BLOCK : (row + 1) * BLOCK, column * BLOCK : (column + 1) * BLOCK] = block
            advance(len(found) / len(blocks))
    return scores[: cells.rows, : cells.columns].reshape(-1)


def score_tiles(
    slide: Slide,
    grid: TileGrid,
    engine: Engine,
    tiles: Sequence[int] | NDArray[np.int64] | None = None,
    advance: Advance = silent,
) -> NDArray[np.float32]:
    """Scores of the tiles named by their index in the grid, or of all; `advance` is told of parts of the whole."""
    corners_px0 = grid.corners_px0() if tiles is None else grid.corners_px0()[np.asarray(tiles, np.int64)]
    at_once = max(1, CHUNK_BYTES // (3 * grid.side_px**2))
    chunks = [corners_px0[i : i + at_once] for i in range(0, len(corners_px0), at_once)]

    def read(number: int) -> NDArray[np.uint8]:
        return slide.read_squares(chunks[number], grid.side_px0, grid.side_px)

    with Prefetch(read, range(len(chunks)), ahead=1) as ready:
        scores = []
        for pixels in ready:
            scores.append(engine.score(pixels))
            advance(len(pixels) / len(corners_px0))
    return np.concatenate(scores) if scores else np.empty(0, np.float32)
