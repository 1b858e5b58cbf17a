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
from torch.nn.functional import pad

from aspirate.core.config import Settings

LEVELS = 256
TILES_AT_ONCE = 8
"""Recoloured together: their numbers stay in the cache, and are not mapped anew for each batch."""
PIXELS_AT_ONCE = 4
"""Mixed by one matrix with as many blocks: a product with a 3 × 3 matrix takes four times as long a pixel."""


class AugmentSettings(Settings):
    """How far a tile may be changed; 0 everywhere changes nothing."""

    turn: bool = True
    """One of the eight ways to turn and mirror a square, each equally likely."""
    strength: float = 0.25
    """Spread of log a."""
    hue: float = 0.08
    """Spread of each entry of M − 1."""
    light: float = 0.03
    """Spread of b, in optical density."""
    focus: float = 0.4
    """Spread of k, which is kept within −1 … 1."""


class Tinted(NamedTuple):
    """Tiles whose colours and sharpness are still to be changed. That is most of the work, and is left to where the net
    is: to a GPU, or to all cores at once, while the thread that draws batches has one."""

    pixels: Tensor
    """(N, side, side, 3 or 4) bytes; a fourth means nothing."""
    mixing: Tensor
    shift: Tensor
    focus: Tensor

    def coloured(self) -> Tensor:
        """(N, 3, side, side) bytes in channels-last order."""
        return recoloured(*self).permute(0, 3, 1, 2)


def augment(tiles: NDArray[np.uint8], settings: AugmentSettings, rng: np.random.Generator) -> Tensor | Tinted:
    """(N, side, side, 3) bytes → (N, 3, side, side) bytes in channels-last order, changed at random; see `coloured`."""
    if settings.turn:
        tiles = turned(tiles, rng.integers(0, 8, len(tiles)))  # (N, side, side, 4)
    if settings.strength or settings.hue or settings.light or settings.focus:
        return Tinted(torch.from_numpy(np.ascontiguousarray(tiles)), *_draw(len(tiles), settings, rng))
    return as_batch(tiles[..., :3])


def coloured(batch: Any) -> Any:
    """A batch as a net sees it: all colours changed that were to be."""
    from lightning_utilities.core.apply_func import apply_to_collection  # here, since it is only known to training

    return apply_to_collection(batch, Tinted, Tinted.coloured)


def as_batch(tiles: NDArray[np.uint8]) -> Tensor:
    """The same order of axes, nothing changed."""
    return torch.from_numpy(np.ascontiguousarray(tiles)).permute(0, 3, 1, 2)


def turned(tiles: NDArray[np.uint8], ways: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Way w: w mod 4 quarter turns, then a mirror image if w ≥ 4. (N, side, side, 3) → (N, side, side, 4).

    A pixel is moved as a word of four bytes, five times as fast as three; the last of them is the next pixel's red.
    """
    n, side = tiles.shape[:2]
    flat = np.append(tiles, np.uint8(0))  # a byte more, for the last pixel's word
    words = as_strided(flat[:4].view(np.uint32), (n, side, side), (3 * side * side, 3 * side, 3), writeable=False)
    out = np.empty(words.shape, np.uint32)
    for i, way in enumerate(ways.tolist()):
        tile = np.rot90(words[i], way % 4)
        out[i] = tile[:, ::-1] if way >= 4 else tile
    return out.view(np.uint8).reshape(n, side, side, 4)


def shifted(patches: NDArray[np.uint8], side_px: int, rng: np.random.Generator) -> NDArray[np.uint8]:
    """A square of `side_px` from somewhere in each patch."""
    room = patches.shape[1] - side_px
    offsets = rng.integers(0, room + 1, (len(patches), 2))
    return np.stack([p[y : y + side_px, x : x + side_px] for p, (y, x) in zip(patches, offsets, strict=True)])


def recoloured(pixels: Tensor, mixing: Tensor, shift: Tensor, focus: Tensor) -> Tensor:
    """(N, side, side, 3 or 4) bytes → (N, side, side, 3): D′ = D · mixing (N, 3, 3) + shift (N, 1, 3); focus (N, 1, 1).

    In powers of two: I′ = 256 · 10^−D′ = 2^((log₂I − 8) · mixing − log₂10 · shift + 8), where I is the byte and 1 more.
    """
    out = torch.empty_like(pixels[..., :3])
    width, channels = pixels.shape[2:]
    together = gcd(width, PIXELS_AT_ONCE)
    full = np.log2(LEVELS)
    added = (full - full * mixing.sum(1, keepdim=True) - np.log2(10.0) * shift).repeat(1, 1, width)  # (N, 1, 3·width)
    mixing = pad(mixing / np.log(2.0), (0, 0, 0, channels - 3))  # (N, channels, 3)
    blocks = torch.kron(torch.eye(together, device=mixing.device)[None], mixing)  # (N, channels·together, 3·together)
    for start in range(0, len(pixels), TILES_AT_ONCE):
        part = slice(start, start + TILES_AT_ONCE)
        n = len(pixels[part])
        log = pixels[part].float().log1p_().view(n, -1, channels * together)  # log1p: faster than log and than a table
        mixed = torch.bmm(log, blocks[part]).view(n, -1, 3 * width)
        bright = mixed.add_(added[part]).exp2_().sub_(0.5)  # + 0.5 to round, − 1 for the offset
        if focus[part].any():
            bright = refocused(bright, focus[part])
        out[part] = bright.clamp_(0, LEVELS - 1).short().view_as(out[part])  # to bytes in two steps: four times as fast
    return out


def refocused(rows: Tensor, focus: Tensor) -> Tensor:
    """(N, side, 3·side) floats → I + k·(mean of the four neighbours − I), k (N, 1, 1); edges are mirrored."""
    around = torch.empty_like(rows)
    torch.add(rows[:, :-2], rows[:, 2:], out=around[:, 1:-1])
    around[:, 0], around[:, -1] = 2 * rows[:, 1], 2 * rows[:, -2]
    around[:, :, 3:-3] += rows[:, :, :-6]
    around[:, :, 3:-3] += rows[:, :, 6:]
    around[:, :, :3] += 2 * rows[:, :, 3:6]
    around[:, :, -3:] += 2 * rows[:, :, -6:-3]
    return rows.lerp_(around.mul_(0.25), focus)


def _draw(n: int, settings: AugmentSettings, rng: np.random.Generator) -> tuple[Tensor, Tensor, Tensor]:
    strength = np.exp(rng.normal(0, settings.strength, (n, 1, 1)))
    mixing = np.eye(3) + rng.normal(0, settings.hue, (n, 3, 3))
    shift = rng.normal(0, settings.light, (n, 1, 3))
    focus = rng.normal(0, settings.focus, (n, 1, 1)).clip(-1, 1)
    changes = [torch.from_numpy(each.astype(np.float32)) for each in (strength * mixing, shift, focus)]
    return changes[0], changes[1], changes[2]
