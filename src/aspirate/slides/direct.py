"""The fast reader: the JPEG tiles of a TIFF, each decoded once a call, straight from the file's bytes."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
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

SCRATCH_BYTES = 2**20
"""Decoded tiles that a thread holds before it hands them on: as many as stay in its cache."""


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """Which tiles of the file feed which patches.

    Tiles are decoded in groups. A run is one copy: the same rectangle of consecutive tiles of a group
    into the same rectangle of evenly spaced patches. Fewer and larger copies leave threads less to wait
    for each other.
    """

    tiles: NDArray[np.int64]
    """(T,) tiles of the file, each once; a group is `group_size` of them in a row."""
    runs: NDArray[np.int64]
    """(R, 13): patch, its end, its step; y, y end, x, x end in the patch;
    slot in the group, its end; y, y end, x, x end in the tile."""
    run_starts: NDArray[np.int64]
    """(groups + 1,) where the runs of each group start, and the number of all."""
    ragged: NDArray[np.int64]
    """Patches that reach beyond the level."""


def make_plan(level: TiffLevel, xy_px: NDArray[np.int64], width: int, height: int, group_size: int) -> Plan:
    size = np.array([level.size_px.width, level.size_px.height])
    tile = np.array([level.tile_px.width, level.tile_px.height])
    low = np.clip(xy_px, 0, size)  # (N, 2), with `high`: what of each patch lies on the level
    high = np.clip(xy_px + np.array([width, height]), 0, size)
    ragged = np.flatnonzero((high - low != (width, height)).any(axis=1))
    first = low // tile
    spans = np.where((high > low).all(axis=1, keepdims=True), -(-high // tile) - first, 0)
    counts = spans[:, 0] * spans[:, 1]
    patch = np.repeat(np.arange(len(xy_px)), counts)  # (P,) pieces: a patch's share of one tile
    nth = np.arange(len(patch)) - np.repeat(counts.cumsum() - counts, counts)
    rows, columns = np.divmod(nth, spans[patch, 0])
    column_row = first[patch] + np.stack([columns, rows], axis=1)
    tiles, rank = np.unique(column_row[:, 1] * level.columns + column_row[:, 0], return_inverse=True)
    group, slot = np.divmod(rank, group_size)

    corner = column_row * tile
    bounds = np.concatenate([np.maximum(low[patch], corner), np.minimum(high[patch], corner + tile)], axis=1)
    bounds = bounds[:, (1, 3, 0, 2)]  # (P, 4) y, y end, x, x end
    in_tile = bounds - corner[:, (1, 1, 0, 0)]
    in_patch = bounds - xy_px[patch][:, (1, 1, 0, 0)]
    key = ((group * tile[1] + in_tile[:, 0]) * tile[0] + in_tile[:, 2]) * group_size + slot
    pieces = np.column_stack([group, in_patch, in_tile, slot, patch])[np.argsort(key)]
    runs = _join(pieces)
    starts = np.searchsorted(runs[:, 0], np.arange(-(-len(tiles) // group_size) + 1))
    return Plan(tiles, runs[:, 1:], starts, ragged)


def _join(pieces: NDArray[np.int64]) -> NDArray[np.int64]:
    """Sorted pieces (P, 11) as runs (R, 14), their group first."""
    change = np.diff(pieces, axis=0)
    step = change[:, 10]
    joined = (change[:, :9] == 0).all(axis=1) & (change[:, 9] == 1) & (step > 0)
    joined[1:] &= ~joined[:-1] | (step[1:] == step[:-1])
    starts = np.flatnonzero(np.append(True, ~joined)[: len(pieces)])
    ends = np.append(starts[1:], len(pieces)) - 1
    begin, end = pieces[starts], pieces[ends]
    steps = np.where(ends > starts, np.append(step, 1)[starts], 1)
    return np.column_stack(
        [begin[:, 0], begin[:, 10], end[:, 10] + 1, steps, begin[:, 1:5], begin[:, 9], end[:, 9] + 1, begin[:, 5:9]]
    )


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
        tile_px = self.levels[level].tile_px
        group_size = max(1, SCRATCH_BYTES // (3 * tile_px.width * tile_px.height))
        plan = make_plan(self.levels[level], xy_px, out.shape[2], out.shape[1], group_size)
        out[plan.ragged] = WHITE

        def fill(part: range) -> None:
            pixels = self.scratch(level, group_size)
            slots = list(pixels)
            for group in part:
                tiles = plan.tiles[group * group_size : (group + 1) * group_size]
                for slot, tile in zip(slots, tiles.tolist(), strict=False):
                    self._decode(level, tile, slot)
                runs = plan.runs[plan.run_starts[group] : plan.run_starts[group + 1]]
                for patch, patch_end, step, y, y_end, x, x_end, a, b, v, v_end, u, u_end in runs.tolist():
                    out[patch:patch_end:step, y:y_end, x:x_end] = pixels[a:b, v:v_end, u:u_end]

        for_parts(fill, len(plan.run_starts) - 1, self.threads)

    def scratch(self, level: int, count: int = 1) -> RgbArray:
        """Room for decoded tiles of the file, (count, height, width, 3).

        Off any 32-byte boundary on purpose: at one, libjpeg-turbo writes past the cache, which makes
        decoding a third slower, and what is read back from memory slower still.
        """
        tile_px = self.levels[level].tile_px
        shape = (count, tile_px.height, tile_px.width, 3)
        room = np.empty(prod(shape) + 32, np.uint8)
        start = (8 - room.ctypes.data) % 32
        return room[start : start + prod(shape)].reshape(shape)

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
                (pixels,) = self.scratch(number)
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
