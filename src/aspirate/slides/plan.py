"""Which tiles of a file feed which patches, worked out for all patches of a call at once."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from aspirate.slides.tiff import TiffLevel

Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """Tiles are decoded in groups, and their pixels go to the patches in runs.

    A run is one copy: the same rectangle of consecutive tiles of a group into the same rectangle of evenly
    spaced patches. Fewer and larger copies leave threads less to wait for each other.
    """

    tiles: Integers
    """(T,) tiles of the file, each once; a group is `group_size` of them in a row."""
    runs: Integers
    """(R, 13): patch, its end, its step; y, y end, x, x end in the patch;
    slot in the group, its end; y, y end, x, x end in the tile."""
    run_starts: Integers
    """(groups + 1,) where the runs of each group start, and the number of all."""
    ragged: Integers
    """Patches that reach beyond the level."""


class Copy(NamedTuple):
    """One run, ready to be carried out: `out[to_patches] = pixels[from_slots]`."""

    to_patches: tuple[slice, slice, slice]
    from_slots: tuple[slice, slice, slice]


@dataclass(frozen=True, slots=True)
class Work:
    """A plan as a thread carries it out, group by group."""

    groups: Sequence[tuple[list[int], list[Copy]]]
    """Tiles to decode into the slots of a group, and where their pixels go."""
    shift: int
    """To add to every tile's number."""
    ragged: Integers


PLANS_KEPT = 32


class Planner:
    """Plans for one level. Whoever scans a slide asks for patches that lie alike on the file's tiles, time and
    again, only further on: such calls share one plan, since planning would keep other threads waiting.
    """

    def __init__(self, level: TiffLevel, group_size: int) -> None:
        self.level, self.group_size = level, group_size
        self._known: dict[tuple[int, int, bytes], Work] = {}

    def work(self, xy_px: Integers, width: int, height: int) -> Work:
        size, tile_px = self.level.size_px, self.level.tile_px
        if not len(xy_px) or xy_px.min() < 0 or (xy_px.max(axis=0) > (size.width - width, size.height - height)).any():
            return self._made(xy_px, width, height)  # what is cut off differs from place to place
        column, row = (xy_px.min(axis=0) // (tile_px.width, tile_px.height)).tolist()
        alike = xy_px - (column * tile_px.width, row * tile_px.height)
        key = (width, height, alike.tobytes())
        work = self._known.get(key)
        if work is None:
            work = self._made(alike, width, height)
            if len(self._known) >= PLANS_KEPT:
                self._known.clear()
            self._known[key] = work
        return Work(work.groups, row * self.level.columns + column, work.ragged)

    def _made(self, xy_px: Integers, width: int, height: int) -> Work:
        plan = make_plan(self.level, xy_px, width, height, self.group_size)
        tiles, starts = plan.tiles.tolist(), plan.run_starts.tolist()
        copies = [
            Copy(
                (slice(patch, patch_end, step), slice(y, y_end), slice(x, x_end)),
                (slice(a, b), slice(v, v_end), slice(u, u_end)),
            )
            for patch, patch_end, step, y, y_end, x, x_end, a, b, v, v_end, u, u_end in plan.runs.tolist()
        ]
        groups = [
            (tiles[g * self.group_size : (g + 1) * self.group_size], copies[starts[g] : starts[g + 1]])
            for g in range(len(starts) - 1)
        ]
        return Work(groups, 0, plan.ragged)


class _Span(NamedTuple):
    """Along one axis, for each patch: where it starts, what of it lies on the level, which tiles that is."""

    start: Integers
    low: Integers
    high: Integers
    first: Integers
    tiles: Integers

    @classmethod
    def of(cls, start: Integers, length: int, level: int, tile: int) -> "_Span":
        low, high = np.maximum(start, 0), np.minimum(start + length, level)
        first = low // tile
        return cls(start, low, high, first, np.where(high > low, (high + tile - 1) // tile - first, 0))

    def shares(self, patch: Integers, number: Integers, tile: int) -> tuple[Integers, ...]:
        """What patches and tiles have in common: begin and end in the patch, then in the tile."""
        corner = number * tile
        begin, end = np.maximum(self.low[patch], corner), np.minimum(self.high[patch], corner + tile)
        start = self.start[patch]
        return begin - start, end - start, begin - corner, end - corner


def make_plan(level: TiffLevel, xy_px: Integers, width: int, height: int, group_size: int) -> Plan:
    tile_px = level.tile_px
    x, y = np.ascontiguousarray(xy_px.T)
    across = _Span.of(x, width, level.size_px.width, tile_px.width)
    down = _Span.of(y, height, level.size_px.height, tile_px.height)
    ragged = ((across.high - across.low != width) | (down.high - down.low != height)).nonzero()[0]

    # Pieces (P,): a patch's share of one tile, first patch by patch, then sorted by tile.
    counts = across.tiles * down.tiles
    patch = np.arange(len(x)).repeat(counts)
    nth = np.arange(len(patch)) - (counts.cumsum() - counts).repeat(counts)
    row, column = np.divmod(nth, across.tiles[patch])
    row, column = row + down.first[patch], column + across.first[patch]
    tile = row * level.columns + column
    order = tile.argsort(kind="stable")
    patch, row, column, tile = patch[order], row[order], column[order], tile[order]
    is_new = _differs(tile)
    group, slot = np.divmod(is_new.cumsum() - 1, group_size)

    y_begin, y_end, v_begin, v_end = down.shares(patch, row, tile_px.height)
    x_begin, x_end, u_begin, u_end = across.shares(patch, column, tile_px.width)
    where = (y_begin, y_end, x_begin, x_end, v_begin, v_end, u_begin, u_end)
    key = ((group * tile_px.height + v_begin) * tile_px.width + u_begin) * group_size + slot
    pieces = np.stack([group, *where, slot, patch])[:, key.argsort()]  # (11, P)
    groups, runs = _join(pieces)
    tiles = tile[is_new]
    run_starts = groups.searchsorted(np.arange(-(-len(tiles) // group_size) + 1))
    return Plan(tiles, runs, run_starts, ragged)


def _join(pieces: Integers) -> tuple[Integers, Integers]:
    """Pieces whose neighbours differ by one slot and by always the same number of patches, as runs."""
    change = pieces[:, 1:] - pieces[:, :-1]
    step = change[10]
    joined = ~change[:9].any(axis=0) & (change[9] == 1) & (step > 0)
    joined[1:] &= ~joined[:-1] | (step[1:] == step[:-1])
    is_start = np.ones(pieces.shape[1], bool)
    is_start[1:] = ~joined
    starts = is_start.nonzero()[0]
    ends = np.append(starts[1:], pieces.shape[1])[: len(starts)] - 1
    group, *where, slot, patch = pieces[:, starts]
    last_slot, last_patch = pieces[9:, ends]
    steps = np.maximum((last_patch - patch) // np.maximum(ends - starts, 1), 1)
    return group, np.stack([patch, last_patch + 1, steps, *where[:4], slot, last_slot + 1, *where[4:]], axis=1)


def _differs(values: Integers) -> NDArray[np.bool_]:
    """Where a sorted array has a value for the first time."""
    first = np.ones(len(values), bool)
    np.not_equal(values[1:], values[:-1], out=first[1:])
    return first
