"""Every tile of a slide through a net: reading and arithmetic overlap, memory is bounded by a few chunks."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from aspirate.core.geometry import TileGrid
from aspirate.core.progress import Advance, silent
from aspirate.engines.engine import Engine
from aspirate.learning.prefetch import Prefetch
from aspirate.slides.slide import Slide

CHUNK_BYTES = 50 * 2**20
"""Of tiles read at once; a thousand at 128 px."""


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
