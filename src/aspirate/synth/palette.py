"""Stains and scanners: every colour is an optical density per red, green, blue (Beer–Lambert).

A substance of density d lets through exp(-d · colour) of the light, so overlap darkens as in glass.
"""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

Colour = NDArray[np.float32]


class Stain(StrEnum):
    PAPANICOLAOU = "papanicolaou"
    DIFF_QUIK = "diff-quik"


@dataclass(frozen=True, slots=True)
class Palette:
    """Optical densities (3,) of each substance at full strength, as the scanner sees them."""

    nucleus: Colour
    chromatin: Colour
    cytoplasm: Colour
    red_cell: Colour
    colloid: Colour
    film: Colour
    pigment: Colour
    ink: Colour
    glass: Colour


@dataclass(frozen=True, slots=True)
class Scanner:
    """What a laboratory's habits and its scanner do to every slide."""

    papanicolaou: float
    """Share of slides in this stain; the rest are Diff-Quik."""
    crosstalk: NDArray[np.float32]
    """(3, 3) between colour channels, on optical densities."""
    white: Colour
    """Optical density of clear glass."""
    blur_um: float
    sharpening: float
    noise: float
    """Standard deviation as optical density."""
    jpeg_quality: int
    chroma: str
    """Chroma subsampling of the JPEG tiles."""


# Transmitted red, green, blue of each substance at full strength: mean and how much slides differ.
_TRANSMITTED = {
    Stain.PAPANICOLAOU: {
        "nucleus": (104, 92, 146),
        "chromatin": (52, 42, 100),
        "cytoplasm": [(206, 208, 216), (224, 196, 200), (198, 216, 206), (228, 198, 178)],
        "red_cell": [(232, 176, 146), (228, 160, 146), (226, 188, 162)],
        "colloid": [(226, 206, 212), (208, 222, 214), (236, 208, 182)],
        "film": [(236, 216, 226), (230, 208, 214), (226, 226, 228)],
        "pigment": (104, 78, 40),
    },
    Stain.DIFF_QUIK: {
        "nucleus": (122, 62, 146),
        "chromatin": (64, 22, 98),
        "cytoplasm": [(188, 176, 218), (204, 174, 208), (178, 182, 216)],
        "red_cell": [(214, 186, 188), (206, 188, 196), (222, 184, 178)],
        "colloid": [(186, 160, 212), (206, 152, 200), (176, 172, 216)],
        "film": [(224, 190, 218), (216, 196, 224), (230, 178, 204)],
        "pigment": (56, 48, 78),
    },
}
_INKS = [(38, 52, 140), (24, 24, 30), (30, 110, 70), (170, 32, 40)]


def draw_scanner(rng: np.random.Generator, index: int) -> Scanner:
    """A site; habits alternate so that any two neighbours differ in stain."""
    mix = rng.normal(0.0, 0.022, (3, 3)).astype(np.float32)
    np.fill_diagonal(mix, rng.normal(1.0, 0.05, 3))
    return Scanner(
        papanicolaou=(0.85, 0.15, 0.5)[index % 3],
        crosstalk=mix,
        white=(0.045 + 0.03 * rng.random() + rng.normal(0, 0.012, 3)).clip(0.01).astype(np.float32),
        blur_um=float(rng.uniform(0.16, 0.30)),
        sharpening=float(rng.uniform(0.0, 0.5)),
        noise=float(rng.uniform(0.004, 0.011)),
        jpeg_quality=int(rng.integers(74, 91)),
        chroma=str(rng.choice(["420", "420", "444"])),
    )


def draw_palette(stain: Stain, scanner: Scanner, strength: float, rng: np.random.Generator) -> Palette:
    """One slide's colours: the stain's own, one of its usual tints, jittered, through the scanner."""

    def colour(transmitted: object, jitter: float) -> Colour:
        tints = np.atleast_2d(np.asarray(transmitted, np.float64))
        weights = rng.dirichlet(np.full(len(tints), 0.6))
        density = -np.log(tints / 255.0)
        own = (weights @ density) * strength * np.exp(rng.normal(0.0, jitter, 3))
        return (scanner.crosstalk @ own).clip(0.0).astype(np.float32)

    stains = _TRANSMITTED[stain]
    return Palette(
        nucleus=colour(stains["nucleus"], 0.05),
        chromatin=colour(stains["chromatin"], 0.04),
        cytoplasm=colour(stains["cytoplasm"], 0.10),
        red_cell=colour(stains["red_cell"], 0.08),
        colloid=colour(stains["colloid"], 0.10),
        film=colour(stains["film"], 0.10),
        pigment=colour(stains["pigment"], 0.10),
        ink=colour(_INKS[rng.integers(len(_INKS))], 0.05),
        glass=(scanner.white + rng.normal(0.0, 0.008, 3)).clip(0.005).astype(np.float32),
    )
