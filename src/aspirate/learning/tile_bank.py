"""Tiles kept on disk as they are, so that an epoch never reads a slide again.

One `.npy` of bytes per name, (N, side, side, 3): lossless, random access by memory map, memory bounded by what a
batch touches.
"""

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from aspirate.core.errors import AspirateError
from aspirate.core.store import atomic_path

OPEN_AT_ONCE = 256
"""Each memory map holds a file handle, of which a process has about a thousand."""


class TileBank:
    """A folder of named stacks of tiles; what is not in it is looked for in the bank beneath, shared with others."""

    def __init__(self, folder: Path, beneath: "TileBank | None" = None) -> None:
        self.folder, self.beneath = folder, beneath
        self._open = lru_cache(OPEN_AT_ONCE)(self._map)

    def __reduce__(self) -> tuple[type["TileBank"], tuple[Path, "TileBank | None"]]:
        """Another process opens the files anew."""
        return TileBank, (self.folder, self.beneath)

    def path(self, name: str) -> Path:
        own = self.folder / f"{name}.npy"
        if self.beneath is not None and not own.exists() and self.beneath.has(name):
            return self.beneath.path(name)
        return own

    def has(self, name: str) -> bool:
        return self.path(name).exists()

    def add(self, name: str, tiles: NDArray[np.uint8] | NDArray[np.int64]) -> None:
        """Tiles, or numbers that go with them."""
        with atomic_path(self.folder / f"{name}.npy") as part, part.open("wb") as file:
            np.save(file, tiles)
        self._open.cache_clear()  # of what was there before

    def count(self, name: str) -> int:
        return len(self._open(name))

    def stack(self, name: str) -> NDArray[np.uint8]:
        """All tiles of a name, still on disk."""
        return self._open(name)

    def gather(self, names: Sequence[str], rows: Sequence[int]) -> NDArray[np.uint8]:
        """One tile per (name, row), in the order given: (N, side, side, 3)."""
        first = self._open(names[0])
        out = np.empty((len(names), *first.shape[1:]), np.uint8)
        for i, (name, row) in enumerate(zip(names, rows, strict=True)):
            out[i] = self._open(name)[row]
        return out

    def _map(self, name: str) -> NDArray[np.uint8]:
        try:
            stack: NDArray[np.uint8] = np.load(self.path(name), mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise AspirateError(
                f"{self.path(name)}: the cached tiles cannot be read ({error}); remove the file to make it anew"
            ) from error
        return stack
