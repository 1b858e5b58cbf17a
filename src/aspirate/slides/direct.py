"""The fast reader: the JPEG tiles of a TIFF, each decoded once a call, straight from the file's bytes."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import prod
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from aspirate.core.errors import UnreadableSlide
from aspirate.core.progress import Advance, silent
from aspirate.slides.jpeg import decode
from aspirate.slides.plan import Planner
from aspirate.slides.sampling import WHITE, SampledSlide
from aspirate.slides.slide import DamagedTile, RgbArray
from aspirate.slides.threads import for_parts
from aspirate.slides.tiff import TiffLevel

SCRATCH_BYTES = 3 * 2**19


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
        self._spare: list[list[RgbArray]] = [[] for _ in levels]
        self._planners = [Planner(level, self.group_size(number)) for number, level in enumerate(levels)]

    def close(self) -> None:
        self._file.close()

    def _fill(self, level: int, xy_px: NDArray[np.int64], out: RgbArray) -> None:
        work = self._planners[level].work(xy_px, out.shape[2], out.shape[1])
        out[work.ragged] = WHITE
        head, numbers = self.levels[level].head, work.tiles + work.shift
        offsets, lengths = self.levels[level].offsets[numbers].tolist(), self.levels[level].lengths[numbers].tolist()

        def fill(part: range) -> None:
            with self.scratch(level) as pixels:
                slots = list(pixels)
                for tiles, copies in work.groups[part.start : part.stop]:
                    # Other threads wait for the interpreter meanwhile: nothing is called here that need not be.
                    for slot, tile in zip(slots, tiles, strict=False):
                        try:
                            decode(self._read(offsets[tile], lengths[tile]), head, slot)
                        except (ValueError, OSError) as exc:
                            raise self._damage(level, int(numbers[tile]), exc) from exc
                    for copy in copies:
                        copy.carry_out(pixels, out)

        for_parts(fill, len(work.groups), self.threads)

    def group_size(self, level: int) -> int:
        """How many tiles a thread decodes before it hands their pixels on: more would leave its cache, and with fewer
        threads would wait for each other more often."""
        tile_px = self.levels[level].tile_px
        return max(1, SCRATCH_BYTES // (3 * tile_px.width * tile_px.height))

    @contextmanager
    def scratch(self, level: int) -> Iterator[RgbArray]:
        """Room for a group of decoded tiles, (tiles, height, width, 3), kept for whoever comes next.

        Off any 32-byte boundary on purpose: at one, libjpeg-turbo writes past the cache, which makes
        decoding a third slower, and what is read back from memory slower still.
        """
        try:
            pixels = self._spare[level].pop()
        except IndexError:
            tile_px = self.levels[level].tile_px
            shape = (self.group_size(level), tile_px.height, tile_px.width, 3)
            room = np.empty(prod(shape) + 32, np.uint8)
            start = (8 - room.ctypes.data) % 32
            pixels = room[start : start + prod(shape)].reshape(shape)
        yield pixels
        self._spare[level].append(pixels)

    def stream(self, level: int, tile: int) -> bytes:
        """A tile as it is in the file."""
        return self._read(int(self.levels[level].offsets[tile]), int(self.levels[level].lengths[tile]))

    def _read(self, offset: int, length: int) -> bytes:
        """By pread and not by a memory map: a file that shrinks on a network drive is an error then, no crash."""
        stream = os.pread(self._file.fileno(), length, offset)
        if len(stream) < length:
            raise ValueError(f"the file ends after {len(stream)} of its {length} bytes")
        return stream

    def _damage(self, level: int, tile: int, exc: Exception) -> UnreadableSlide:
        row, column = divmod(tile, self.levels[level].columns)
        return UnreadableSlide(
            f"{self.name}: the tile in column {column}, row {row} of level {level} is damaged ({exc}); "
            "copy the file again, or leave the slide out"
        )

    @property
    def verify_steps(self) -> int:
        return sum(len(level.offsets) for level in self.levels)

    def damaged(self, advance: Advance = silent) -> list[DamagedTile]:
        found: list[DamagedTile] = []
        for number, level in enumerate(self.levels):

            def check(part: range, number: int = number, level: TiffLevel = level) -> list[DamagedTile]:
                bad = []
                with self.scratch(number) as pixels:
                    for tile in part:
                        try:
                            decode(self.stream(number, tile), level.head, pixels[0])
                        except (ValueError, OSError) as exc:
                            row, column = divmod(tile, level.columns)
                            bad.append(DamagedTile(number, column, row, level.tile_box_px(tile), str(exc)))
                return bad

            for bad in for_parts(check, len(level.offsets), self.threads, advance):
                found += bad
        return found
