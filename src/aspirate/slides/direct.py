"""The fast reader: the JPEG tiles of a TIFF, each decoded once a call, straight from the file's bytes."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from aspirate.core.errors import UnreadableSlide
from aspirate.core.progress import Advance, silent
from aspirate.slides.jpeg import decode
from aspirate.slides.sampling import WHITE, SampledSlide
from aspirate.slides.slide import DamagedTile, RgbArray
from aspirate.slides.threads import for_parts
from aspirate.slides.tiff import TiffLevel


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """Which tile of the file feeds which patch, as pieces sorted by tile."""

    tiles: NDArray[np.int64]
    """(T,) tiles of the file, each once."""
    starts: NDArray[np.int64]
    """(T + 1,) where the pieces of each tile start, and the number of all."""
    pieces: NDArray[np.int64]
    """(P, 9): the patch; y, its end, x, its end in the patch; the same four in the tile."""
    ragged: NDArray[np.int64]
    """Patches that reach beyond the level."""


def make_plan(level: TiffLevel, xy_px: NDArray[np.int64], width: int, height: int) -> Plan:
    size = np.array([level.size_px.width, level.size_px.height])
    tile = np.array([level.tile_px.width, level.tile_px.height])
    low = np.clip(xy_px, 0, size)  # (N, 2), with `high`: what of each patch lies on the level
    high = np.clip(xy_px + np.array([width, height]), 0, size)
    first = low // tile
    spans = np.where((high > low).all(axis=1, keepdims=True), -(-high // tile) - first, 0)
    counts = spans.prod(axis=1)
    patch = np.repeat(np.arange(len(xy_px)), counts)  # (P,)
    nth = np.arange(len(patch)) - np.repeat(counts.cumsum() - counts, counts)
    column_row = first[patch] + np.stack([nth % spans[patch, 0], nth // spans[patch, 0]], axis=1)

    corner = column_row * tile
    begin = np.maximum(low[patch], corner)
    end = np.minimum(high[patch], corner + tile)
    bounds = np.stack([begin, end], axis=2)[:, ::-1].reshape(-1, 4)  # (P, 4) y, its end, x, its end
    in_patch = bounds - np.repeat(xy_px[patch, ::-1], 2, axis=1)
    in_tile = bounds - np.repeat(corner[:, ::-1], 2, axis=1)
    pieces = np.concatenate([patch[:, None], in_patch, in_tile], axis=1)

    index = column_row[:, 1] * level.columns + column_row[:, 0]
    order = np.argsort(index, kind="stable")
    tiles, starts = np.unique(index[order], return_index=True)
    ragged = np.flatnonzero((high - low != [width, height]).any(axis=1))
    return Plan(tiles, np.append(starts, len(patch)), pieces[order], ragged)


class DirectSlide(SampledSlide):
    """Needs no lock: every read names its own place in the file."""

    reader = "direct"

    def __init__(
        self,
        path: Path,
        name: str,
        vendor: str,
        levels: Sequence[TiffLevel],
        mpp: float | None,
        properties: Mapping[str, str],
    ) -> None:
        super().__init__(path, name, vendor, [level.size_px for level in levels], mpp, properties)
        self.levels = tuple(levels)
        self._file = path.open("rb", buffering=0)

    def close(self) -> None:
        self._file.close()

    def _fill(self, level: int, xy_px: NDArray[np.int64], out: RgbArray) -> None:
        plan = make_plan(self.levels[level], xy_px, width=out.shape[2], height=out.shape[1])
        out[plan.ragged] = WHITE

        def fill(part: range) -> None:
            tiles = plan.tiles[part.start : part.stop].tolist()
            starts = plan.starts[part.start : part.stop + 1]
            pieces = plan.pieces[starts[0] : starts[-1]].tolist()
            pixels = self.scratch(level)
            at = 0
            for tile, end in zip(tiles, (starts[1:] - starts[0]).tolist(), strict=True):
                self._decode(level, tile, pixels)
                for patch, y, y_end, x, x_end, v, v_end, u, u_end in pieces[at:end]:
                    out[patch, y:y_end, x:x_end] = pixels[v:v_end, u:u_end]
                at = end

        for_parts(fill, len(plan.tiles), self.threads)

    def scratch(self, level: int) -> RgbArray:
        """Room for one decoded tile of the file."""
        tile_px = self.levels[level].tile_px
        return np.empty((tile_px.height, tile_px.width, 3), np.uint8)

    def stream(self, level: int, tile: int) -> bytes:
        """A tile as it is in the file.

        By pread and not by a memory map: a file that shrinks on a network drive is an error then, no crash.
        """
        length = int(self.levels[level].lengths[tile])
        stream = os.pread(self._file.fileno(), length, int(self.levels[level].offsets[tile]))
        if len(stream) < length:
            raise ValueError(f"the file ends after {len(stream)} of its {length} bytes")
        return stream

    def _decode(self, level: int, tile: int, pixels: RgbArray) -> None:
        try:
            decode(self.stream(level, tile), self.levels[level].head, pixels)
        except (ValueError, OSError) as exc:
            row, column = divmod(tile, self.levels[level].columns)
            raise UnreadableSlide(
                f"{self.name}: the tile in column {column}, row {row} of level {level} is damaged ({exc}); "
                "copy the file again, or leave the slide out"
            ) from exc

    @property
    def verify_steps(self) -> int:
        return sum(len(level.offsets) for level in self.levels)

    def damaged(self, advance: Advance = silent) -> list[DamagedTile]:
        found: list[DamagedTile] = []
        for number, level in enumerate(self.levels):

            def check(part: range, number: int = number, level: TiffLevel = level) -> list[DamagedTile]:
                bad = []
                pixels = self.scratch(number)
                for tile in part:
                    try:
                        self._decode(number, tile, pixels)
                    except UnreadableSlide as exc:
                        row, column = divmod(tile, level.columns)
                        box_px = level.tile_box_px(tile)
                        bad.append(DamagedTile(number, column, row, box_px, str(exc.__cause__)))
                return bad

            for bad in for_parts(check, len(level.offsets), self.threads, advance):
                found += bad
        return found
