"""Soft shapes and noise: what every cell is drawn from. Arrays are (n, side, side), lengths in pixels."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import fft
from scipy.ndimage import gaussian_filter

Floats = NDArray[np.float32]

OD_UNIT = 1024
"""Integer steps per unit of optical density: sums of integers do not depend on their order."""


def plane(side: int, shift: NDArray[np.complex64] | None = None) -> NDArray[np.complex64]:
    """x + iy of each pixel from the centre of a square, (1 or n, side, side); `shift` moves the centre."""
    axis = np.arange(side, dtype=np.float32) - (side - 1) / 2
    z = (axis[None, :] + 1j * axis[:, None]).astype(np.complex64)[None]
    return z if shift is None else z - shift[:, None, None]


def squeezed(z: NDArray[np.complex64], angle: Floats, ratio: Floats) -> NDArray[np.complex64]:
    """Turned by `angle` and squeezed to `ratio` across: circles of the result are ellipses of `z`."""
    turned: NDArray[np.complex64] = z * np.exp(-1j * angle).astype(np.complex64)[:, None, None]
    turned.imag /= ratio[:, None, None]
    return turned


def inside(z: NDArray[np.complex64], radius: Floats, waves: NDArray[np.complex64]) -> Floats:
    """Signed distance from a wavy circle, positive within.

    The outline is r(θ) = radius · (1 + Σ_k Re(waves[:, k] · e^{i(k+2)θ})).
    """
    distance = np.abs(z)
    around = z / np.maximum(distance, np.float32(1e-6))
    total = np.zeros((len(waves), *z.shape[1:]), np.complex64)
    for k in reversed(range(waves.shape[1])):  # Horner
        total += waves[:, k, None, None]
        total *= around
    total *= around
    return np.asarray(radius[:, None, None] * (total.real + np.float32(1)) - distance, np.float32)


def soft(distance: Floats, width: float) -> Floats:
    """0 outside, 1 inside, a smooth step of the given width between."""
    t: Floats = distance * np.float32(1 / width)
    t += np.float32(0.5)
    np.clip(t, 0, 1, out=t)
    t *= t * (3 - 2 * t)
    return t


def waves(rng: np.random.Generator, n: int, amplitudes: Sequence[float] | Floats) -> NDArray[np.complex64]:
    """Random phases and strengths of the harmonics 2, 3, … of an outline; amplitudes (K,) or (n, K)."""
    amplitudes = np.broadcast_to(np.asarray(amplitudes, np.float32), (n, np.shape(amplitudes)[-1]))
    phase = np.exp(2j * np.pi * rng.random(amplitudes.shape))
    strength = amplitudes * rng.normal(1.0, 0.35, amplitudes.shape)
    return np.asarray(strength * phase, np.complex64)


def noise_tile(rng: np.random.Generator, side: int, fine: float, coarse: float) -> Floats:
    """Periodic noise of unit variance whose grain lies between two wavelengths in pixels."""
    squared = fft.fftfreq(side)[:, None] ** 2 + fft.rfftfreq(side)[None, :] ** 2
    squared = squared.astype(np.float32)
    band = np.exp(squared * np.float32(-((1.6 * fine) ** 2))) * -np.expm1(squared * np.float32(-(coarse**2)))
    white = rng.standard_normal((side, side), np.float32)
    tile: Floats = fft.irfft2(fft.rfft2(white) * band, s=(side, side))
    tile /= tile.std()
    return tile


@dataclass(frozen=True, slots=True)
class Grain:
    """A slide's noises, drawn once and cropped everywhere; all periodic."""

    fine: Floats
    """Even chromatin."""
    clumped: Floats
    """Coarse chromatin."""
    foam: Floats
    rag: Floats
    """What frays borders."""


def draw_grain(rng: np.random.Generator, px_of_um: float) -> Grain:
    wavelengths_um = ((1.1, 2.2), (1.7, 3.8), (1.8, 4.5), (2.8, 9.5))
    return Grain(*(noise_tile(rng, 256, a * px_of_um, b * px_of_um) for a, b in wavelengths_um))


def crops(tile: Floats, rng: np.random.Generator, n: int, side: int) -> Floats:
    """(n, side, side) random windows of a periodic tile."""
    start = rng.integers(tile.shape[0], size=(n, 2))
    return np.stack([window(tile, int(y), int(x), side, side) for y, x in start])


def window(tile: NDArray[Any], y: int, x: int, height: int, width: int) -> NDArray[Any]:
    """A window of a periodic tile at any offset, as large as need be."""
    rows, columns = np.arange(y, y + height), np.arange(x, x + width)
    return tile.take(rows, axis=0, mode="wrap").take(columns, axis=1, mode="wrap")


def focused(image: Floats, blur_px: float, sharpening: float) -> Floats:
    """Optics on (..., height, width, 3): blur, and a scanner's sharpening, linear in optical density."""
    axes = (-3, -2)
    sharp = gaussian_filter(image, blur_px, axes=axes, truncate=3.0)
    if sharpening:
        sharp += np.float32(sharpening) * (sharp - gaussian_filter(sharp, 2.0 * blur_px, axes=axes, truncate=2.5))
    return sharp


def quantised(optical_density: Floats) -> NDArray[np.int16]:
    return np.rint(optical_density * OD_UNIT).clip(-32768, 32767).astype(np.int16)


def stamp(image: NDArray[Any], sprite: NDArray[Any], x: int, y: int) -> None:
    """Adds a sprite at (x, y), cut at the image's edges."""
    height, width = sprite.shape[:2]
    if x >= 0 and y >= 0 and x + width <= image.shape[1] and y + height <= image.shape[0]:
        image[y : y + height, x : x + width] += sprite
        return
    top, left = max(0, -y), max(0, -x)
    bottom, right = min(height, image.shape[0] - y), min(width, image.shape[1] - x)
    if top < bottom and left < right:
        image[y + top : y + bottom, x + left : x + right] += sprite[top:bottom, left:right]
