"""Which tiles of a file feed which patches, worked out for all patches of a call at once."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from aspirate.core.geometry import Size
from aspirate.slides.slide import RgbArray
from aspirate.slides.tiff import TiffLevel

Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """Tiles are decoded in groups, and their pixels go to the patches in runs.

    A run is one copy: the same rectangle of consecutive tiles of a group into the same rectangle of evenly
    spaced patches.
    """

    tiles: Integers
    """(T,) tiles of the file, each once."""
    group_size: int
    """How many of them in a row make a group."""
    runs: Integers
    """(R, 13): patch, its end, its step; y, y end, x, x end in the patch;
    slot in the group, its end; y, y end, x, x end in the tile."""
    run_starts: Integers
    """(groups + 1,) where the runs of each group start, and the number of all."""
    ragged: Integers
    """Patches that reach beyond the level."""


class Copy(NamedTuple):
    """Bytes on a lattice of one array to such a lattice of another: where each begins, how far neighbours are apart."""

    shape: tuple[int, ...]
    to: int
    to_strides: tuple[int, ...]
    of: int
    of_strides: tuple[int, ...]

    def carry_out(self, pixels: RgbArray, out: RgbArray) -> None:
        to = np.ndarray(self.shape, np.uint8, out, self.to, self.to_strides)
        to[...] = np.ndarray(self.shape, np.uint8, pixels, self.of, self.of_strides)


@dataclass(frozen=True, slots=True)
class Work:
    """A plan as a thread carries it out, group by group."""

    tiles: Integers
    """(T,) tiles of the file, less `shift`."""
    shift: int
    groups: Sequence[tuple[range, list[Copy]]]
    """Which of the tiles to decode into the slots of a group, and where their pixels go."""
    ragged: Integers


PLANS_KEPT = 32


class Planner:
    """Plans for one level. Whoever scans a slide asks for patches that lie alike on the file's tiles, time and
    again, only further on: such calls share one plan, also along an edge, since planning keeps other threads waiting.
    """

    def __init__(self, level: TiffLevel, group_size: int) -> None:
        self.level, self.group_size = level, group_size
        self._known: dict[tuple[int, int, Size, bytes], Work] = {}

    def work(self, xy_px: Integers, width: int, height: int) -> Work:
        if not len(xy_px) or xy_px.min() < 0:
            return self._made(xy_px, width, height, self.level.size_px)
        tile_px, size_px = self.level.tile_px, self.level.size_px
        (left, top), (right, bottom) = xy_px.min(axis=0).tolist(), xy_px.max(axis=0).tolist()
        column, row = left // tile_px.width, top // tile_px.height
        x, y = column * tile_px.width, row * tile_px.height
        alike = xy_px - (x, y)
        room_px = Size(min(right + width, size_px.width) - x, min(bottom + height, size_px.height) - y)
        key = (width, height, room_px, alike.tobytes())
        work = self._known.get(key)
        if work is None:
            work = self._made(alike, width, height, room_px)
            if len(self._known) >= PLANS_KEPT:
                self._known.clear()
            self._known[key] = work
        return Work(work.tiles, row * self.level.columns + column, work.groups, work.ragged)

    def _made(self, xy_px: Integers, width: int, height: int, room_px: Size) -> Work:
        plan = make_plan(self.level, xy_px, width, height, self.group_size, room_px)
        starts, size = plan.run_starts.tolist(), plan.group_size
        groups = [
            (
                range(g * size, min((g + 1) * size, len(plan.tiles))),
                _copies(plan.runs[starts[g] : starts[g + 1]], Size(width, height), self.level.tile_px),
            )
            for g in range(len(starts) - 1)
        ]
        return Work(plan.tiles, 0, groups, plan.ragged)


def _copies(runs: Integers, patch_px: Size, tile_px: Size) -> list[Copy]:
    """Runs as copies of bytes; those of the quarters of a tile, say, as one."""
    to_row, of_row = 3 * patch_px.width, 3 * tile_px.width
    to_one, of_one = to_row * patch_px.height, of_row * tile_px.height
    copies = [
        Copy(
            (b - a, y_end - y, 3 * (x_end - x)),
            patch * to_one + y * to_row + 3 * x,
            (step * to_one, to_row, 1),
            a * of_one + v * of_row + 3 * u,
            (of_one, of_row, 1),
        )
        for patch, _, step, y, y_end, x, x_end, a, b, v, _, u, _ in runs.tolist()
    ]
    return _folded(_folded(copies))  # side by side, then one below the other


def _folded(copies: Sequence[Copy]) -> list[Copy]:
    """Copies of one shape that go on by the same steps, as one copy with an axis more."""
    folded: list[Copy] = []
    start = 0
    while start < len(copies):
        first, end, steps = copies[start], start + 1, (0, 0)
        while end < len(copies):
            last, following = copies[end - 1], copies[end]
            further = following.to - last.to, following.of - last.of
            alike = following._replace(to=first.to, of=first.of) == first
            if not alike or (end > start + 1 and further != steps):
                break
            steps, end = further, end + 1
        if end > start + 1:
            to, of = steps
            first = Copy(
                (end - start, *first.shape), first.to, (to, *first.to_strides), first.of, (of, *first.of_strides)
            )
        folded.append(first)
        start = end
    return folded


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


def make_plan(
    level: TiffLevel, xy_px: Integers, width: int, height: int, group_size: int, room_px: Size | None = None
) -> Plan:
    """`room_px` is what there is of the level, where it is not seen from its own corner."""
    tile_px, room_px = level.tile_px, room_px or level.size_px
    x, y = np.ascontiguousarray(xy_px.T)
    across = _Span.of(x, width, room_px.width, tile_px.width)
    down = _Span.of(y, height, room_px.height, tile_px.height)
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
    tiles = tile[is_new]
    group_size = _even_size(tiles, group_size)
    group, slot = np.divmod(is_new.cumsum() - 1, group_size)

    y_begin, y_end, v_begin, v_end = down.shares(patch, row, tile_px.height)
    x_begin, x_end, u_begin, u_end = across.shares(patch, column, tile_px.width)
    where = (y_begin, y_end, x_begin, x_end, v_begin, v_end, u_begin, u_end)
    key = ((group * tile_px.height + v_begin) * tile_px.width + u_begin) * group_size + slot
    pieces = np.stack([group, *where, slot, patch])[:, key.argsort()]  # (11, P)
    groups, runs = _join(pieces)
    run_starts = groups.searchsorted(np.arange(-(-len(tiles) // group_size) + 1))
    return Plan(tiles, group_size, runs, run_starts, ragged)


def _even_size(tiles: Integers, most: int) -> int:
    """Tiles of a group: where neighbours come in rows of one length, groups that end where a row does.

    A group that goes on in the next row needs twice the copies.
    """
    row_ends = (np.diff(tiles) != 1).nonzero()[0]
    if not len(row_ends) or row_ends[0] == 0:
        return most
    row = int(row_ends[0]) + 1
    return -(-row // -(-row // most))


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
