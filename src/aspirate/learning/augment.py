"""What a tile could have looked like: turned, mirrored, or stained and scanned elsewhere.

Colour is changed in optical density, D = −log₁₀(I / I₀), where stain adds up:

    D′ = a · D · M + b,     a ≈ 1 the stain's strength, M ≈ identity its hue and the scanner's colours, b ≈ 0
                            brightness and tint of the light,

one (a, M, b) per tile. Published work found this to be the remedy for a change of scanner. Scanners differ in sharpness
too: I′ = I + k·(Ī − I), Ī the mean of the four neighbours, blurs for k > 0 and sharpens for k < 0, one k ≈ 0 per tile.
"""

from math import gcd
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray
from torch import Tensor

from aspirate.learning.settings import AugmentSettings

LEVELS = 256
OPAQUE = np.uint32(0xFF000000)
"""The fourth byte of a pixel, 255: what is added to its colours is a product with the logarithm of that level."""
WAYS = ((1, 1), (-1, 1), (-1, -1), (1, -1), (1, -1), (-1, -1), (-1, 1), (1, 1))
"""For each way to turn a tile: which way rows and columns are read, once they have changed places in odd ones."""
TILES_AT_ONCE = 32
"""Recoloured together: some 20 MB on the way."""
PIXELS_AT_ONCE = 4
"""Mixed by one matrix with as many blocks: a product with a small matrix takes four times as long a pixel."""


class Tinted(NamedTuple):
    """Tiles whose colours and sharpness are still to be changed. That is most of the work, and is left to where the net
    is: to a GPU, or to all cores at once, while the thread that draws batches has one."""

    pixels: Tensor
    """(N, side, side, 4) bytes, the fourth of them 255."""
    mixing: Tensor
    """(N, 4·p, 3·p): what p pixels become together, from logarithms of their levels to powers of two."""
    focus: Tensor
    """(N, 1, 1), as `refocused` takes it."""

    def coloured(self) -> Tensor:
        """(N, 3, side, side) bytes in channels-last order."""
        return recoloured(*self).permute(0, 3, 1, 2)


def augment(tiles: NDArray[np.uint8], settings: AugmentSettings, rng: np.random.Generator) -> Tensor | Tinted:
    """(N, side, side, 3) bytes → (N, 3, side, side) bytes in channels-last order, changed at random; see `coloured`."""
    n = len(tiles)
    ways = rng.integers(0, 8, (n,)) if settings.turn else np.zeros(n, np.int64)
    words = turned(tiles, ways)
    if settings.strength or settings.hue or settings.light or settings.focus:
        return tinted(words, *_draw(n, settings, rng))
    return as_batch(words[..., :3])


def coloured(batch: Any) -> Any:
    """A batch as a net sees it: all colours changed that were to be."""
    from lightning_utilities.core.apply_func import apply_to_collection  # here, since it is only known to training

    return apply_to_collection(batch, Tinted, Tinted.coloured)


def as_batch(tiles: NDArray[np.uint8]) -> Tensor:
    """The same order of axes, nothing changed."""
    return torch.from_numpy(np.ascontiguousarray(tiles)).permute(0, 3, 1, 2)


def turned(tiles: NDArray[np.uint8], ways: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Way w: w mod 4 quarter turns, then a mirror image if w ≥ 4. (N, side, side, 3) → (N, side, side, 4), opaque.

    A pixel is moved as a word of four bytes, five times as fast as three; the last of them, the next pixel's red, is
    overwritten.
    """
    n, side = tiles.shape[:2]
    out = np.empty((n, side, side), np.uint32)
    padded = np.append(tiles[-1], np.uint8(0))  # a byte more, for the last pixel's word
    shape, strides = (n - 1, side, side), (3 * side * side, 3 * side, 3)
    words = [*_words(tiles, shape, strides), *_words(padded, (1, *shape[1:]), strides)]
    for tile, way, place in zip(words, ways.tolist(), out, strict=True):
        if way % 2:
            tile = tile.T
        down, right = WAYS[way]
        np.bitwise_or(tile[::down, ::right], OPAQUE, out=place)
    return out.view(np.uint8).reshape(n, side, side, 4)


def _words(pixels: NDArray[np.uint8], shape: tuple[int, ...], strides: tuple[int, ...]) -> NDArray[np.uint32]:
    return as_strided(pixels.reshape(-1)[:4].view(np.uint32), shape, strides, writeable=False)


def shifted(patches: NDArray[np.uint8], side_px: int, rng: np.random.Generator) -> NDArray[np.uint8]:
    """A square of `side_px` from somewhere in each patch."""
    room = patches.shape[1] - side_px
    offsets = rng.integers(0, room + 1, (len(patches), 2))
    return np.stack([p[y : y + side_px, x : x + side_px] for p, (y, x) in zip(patches, offsets, strict=True)])


def tinted(
    words: NDArray[np.uint8], mixing: NDArray[np.floating], shift: NDArray[np.floating], focus: NDArray[np.floating]
) -> Tinted:
    """(N, side, side, 4) opaque bytes, to become D′ = D · mixing (N, 3, 3) + shift (N, 1, 3), k = focus (N, 1, 1).

    In powers of two: I′ = 256 · 10^−D′ = 2^((log₂I − 8) · mixing − log₂10 · shift + 8), where I is the byte and 1 more.
    The terms that are added are a fourth row, times log₂256 = 8. They also hold log₂(1 − ¾k): see `refocused`.
    """
    n, full = len(words), np.log2(LEVELS)
    added = full - full * mixing.sum(1, keepdims=True) - np.log2(10.0) * shift + np.log2(1 - 0.75 * focus)
    rows = np.concatenate([mixing, added / full], axis=1) / np.log(2.0)  # (N, 4, 3), from natural logarithms
    together = gcd(words.shape[2], PIXELS_AT_ONCE)
    blocks = np.zeros((n, together, 4, together, 3), np.float32)
    for pixel in range(together):
        blocks[:, pixel, :, pixel] = rows
    flat = torch.from_numpy(blocks).view(n, 4 * together, 3 * together)
    return Tinted(torch.from_numpy(words), flat, torch.from_numpy(focus.astype(np.float32)))


def recoloured(pixels: Tensor, mixing: Tensor, focus: Tensor) -> Tensor:
    """What `tinted` gives → (N, side, side, 3) bytes."""
    height, width = pixels.shape[1:3]
    out = pixels.new_empty(len(pixels), height, width, 3)
    for start in range(0, len(pixels), TILES_AT_ONCE):
        part = slice(start, start + TILES_AT_ONCE)
        log = pixels[part].float().log1p_()  # log1p: faster than log and than a table
        mixed = torch.bmm(log.view(len(log), -1, mixing.shape[1]), mixing[part])
        bright = refocused(mixed.view(-1, height, 3 * width).exp2_(), focus[part])
        out[part] = bright.sub_(0.5).clamp_(0, LEVELS - 1).short().view_as(out[part])  # + 0.5 to round, − 1 as above
    return out  # by way of 16 bits, which is four times as fast


def refocused(rows: Tensor, focus: Tensor) -> Tensor:
    """(N, side, 3·side) floats (1 − ¾k)·I → I + k·(mean of the four neighbours − I), k (N, 1, 1); edges are mirrored.

    With the factor, which costs nothing where rows are made, the sum of the neighbours needs no factor of its own:
    (1 − w)·(1 − ¾k)·I + w·(1 − ¾k)·4·Ī = (1 − k)·I + k·Ī for w = k / (4 − 3k).
    """
    around = torch.empty_like(rows)
    torch.add(rows[:, :-2], rows[:, 2:], out=around[:, 1:-1])
    around[:, 0], around[:, -1] = 2 * rows[:, 1], 2 * rows[:, -2]
    around[:, :, 3:-3] += rows[:, :, :-6]
    around[:, :, 3:-3] += rows[:, :, 6:]
    around[:, :, :3] += 2 * rows[:, :, 3:6]
    around[:, :, -3:] += 2 * rows[:, :, -6:-3]
    return rows.lerp_(around, focus / (4 - 3 * focus))


def _draw(
    n: int, settings: AugmentSettings, rng: np.random.Generator
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Mixing, shift and focus of each tile."""
    strength = np.exp(rng.normal(0, settings.strength, (n, 1, 1)))
    mixing = np.eye(3) + rng.normal(0, settings.hue, (n, 3, 3))
    shift = rng.normal(0, settings.light, (n, 1, 3))
    focus = rng.normal(0, settings.focus, (n, 1, 1)).clip(-1, 1)
    return strength * mixing, shift, focus
