"""One slide before its pixels: where its smear and its groups lie, and how it was stained and scanned.

Only a group's atypia looks at a label; everything else comes from streams that never see one.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aspirate.core.errors import ConfigError
from aspirate.core.geometry import Box, Size, px0_of_um
from aspirate.core.labels import Abnormality
from aspirate.synth.model import CohortLabels, Stream, stream
from aspirate.synth.palette import Palette, Scanner, Stain, draw_palette, draw_scanner
from aspirate.synth.settings import SynthSettings

GAP_UM = 8.0
"""Clear space around a group's box."""


@dataclass(frozen=True, slots=True)
class GroupPlan:
    box_px0: Box
    abnormality: Abnormality
    atypia: float
    """Latent, around the grade; what the eye can see of it."""


@dataclass(frozen=True, slots=True)
class Smear:
    """The outline of the smear: a rounded tongue with a wavy edge."""

    centre_px0: tuple[float, float]
    half_px0: tuple[float, float]
    waves: NDArray[np.complex128]

    def depth(self, x_px0: NDArray[np.float64], y_px0: NDArray[np.float64]) -> NDArray[np.float64]:
        """About 1 in the middle, 0 at the edge, negative on bare glass."""
        u = (x_px0 - self.centre_px0[0]) / self.half_px0[0]
        v = (y_px0 - self.centre_px0[1]) / self.half_px0[1]
        around = np.exp(1j * np.arctan2(v, u))
        edge = 1.0 + np.real(np.polynomial.polynomial.polyval(around, self.waves))
        return np.asarray(edge - (np.abs(u) ** 3 + np.abs(v) ** 3) ** (1 / 3), np.float64)


@dataclass(frozen=True, slots=True)
class Appearance:
    """How one slide looks, whatever it shows."""

    stain: Stain
    palette: Palette
    blur_um: float
    blood: float
    """Typical cover of red cells, 0 to 1."""
    film: float
    """Protein film between cells, as a share of full strength."""
    lace: float
    """How far the film breaks into strands and holes."""
    colloid: float
    """Share of the smear under colloid."""
    rouleaux: float
    lymphocytes: float
    macrophages: float
    debris: float
    defocus: float
    """Share of the smear out of focus."""
    bubbles: int
    pen: bool
    jpeg_quality: int

    def numbers(self) -> list[float]:
        """All of it as numbers, for whoever wants to check that they say nothing about a label."""
        p = self.palette
        colours = [p.nucleus, p.cytoplasm, p.red_cell, p.colloid, p.film, p.glass]
        return [
            float(self.stain is Stain.DIFF_QUIK),
            *np.concatenate(colours).tolist(),
            *(self.blur_um, self.blood, self.film, self.lace, self.colloid, self.rouleaux),
            *(self.lymphocytes, self.macrophages, self.debris, self.defocus),
            *(float(self.bubbles), float(self.pen), float(self.jpeg_quality)),
        ]


@dataclass(frozen=True, slots=True)
class SlidePlan:
    key: tuple[int, int]
    """Seed of the cohort and index of the slide: every stream of this slide begins with them."""
    size_px0: Size
    mpp: float
    scanner: Scanner
    appearance: Appearance
    smear: Smear
    groups: tuple[GroupPlan, ...]

    def stream(self, which: Stream, *key: int) -> np.random.Generator:
        return stream(*self.key, which, *key)

    def px(self, length_um: float) -> float:
        return px0_of_um(length_um, self.mpp)


def plan_slide(settings: SynthSettings, labels: CohortLabels, index: int) -> SlidePlan:
    site = int(labels.site[index])
    scanner = draw_scanner(stream(settings.seed, Stream.SITE, site), site)
    smear = _smear(settings.size_px0, stream(settings.seed, index, Stream.PLACE, 0))
    boxes = _place(settings, labels.boxes_px0[index], smear, index)
    rng = stream(settings.seed, index, Stream.GROUP)
    atypia = labels.grades[index] + settings.grade_spread * rng.standard_normal(len(boxes))
    return SlidePlan(
        key=(settings.seed, index),
        size_px0=settings.size_px0,
        mpp=settings.mpp,
        scanner=scanner,
        appearance=draw_appearance(scanner, stream(settings.seed, index, Stream.SLIDE)),
        smear=smear,
        groups=tuple(
            GroupPlan(box, Abnormality(int(grade)), float(a))
            for box, grade, a in zip(boxes, labels.grades[index], atypia, strict=True)
        ),
    )


def draw_appearance(scanner: Scanner, rng: np.random.Generator) -> Appearance:
    stain = Stain.PAPANICOLAOU if rng.random() < scanner.papanicolaou else Stain.DIFF_QUIK
    strength = float(np.exp(rng.normal(0.0, 0.12)))
    return Appearance(
        stain=stain,
        palette=draw_palette(stain, scanner, strength, rng),
        blur_um=scanner.blur_um * float(np.exp(rng.normal(0.0, 0.12))),
        blood=float(rng.beta(1.6, 2.4)),
        film=float(rng.beta(1.5, 2.5)),
        lace=float(rng.uniform(0.2, 1.0)),
        colloid=float(rng.beta(0.8, 4.0)),
        rouleaux=float(rng.beta(1.0, 3.0)),
        lymphocytes=float(np.exp(rng.normal(0.0, 0.8))),
        macrophages=float(np.exp(rng.normal(0.0, 0.7))),
        debris=float(np.exp(rng.normal(0.0, 0.7))),
        defocus=float(rng.beta(0.8, 6.0)),
        bubbles=int(rng.poisson(0.4)),
        pen=bool(rng.random() < 0.2),
        jpeg_quality=int(scanner.jpeg_quality + rng.integers(-3, 4)),
    )


def _smear(size_px0: Size, rng: np.random.Generator) -> Smear:
    width, height = size_px0.width, size_px0.height
    order = np.arange(6)
    waves = rng.normal(0, 1, 6) + 1j * rng.normal(0, 1, 6)
    waves *= 0.05 * (order > 0) / np.maximum(order, 1) ** 0.7
    return Smear(
        centre_px0=(width * rng.uniform(0.47, 0.53), height * rng.uniform(0.47, 0.53)),
        half_px0=(width * rng.uniform(0.40, 0.50), height * rng.uniform(0.38, 0.50)),
        waves=waves,
    )


def _place(settings: SynthSettings, sizes_px0: NDArray[np.int64], smear: Smear, index: int) -> list[Box]:
    """Boxes inside the smear, apart from each other, mostly in a few neighbourhoods; largest first."""
    for attempt in range(1, 50):
        rng = stream(settings.seed, index, Stream.PLACE, attempt)
        boxes = _try_place(settings, sizes_px0, smear, rng)
        if boxes is not None:
            return boxes
    raise ConfigError(
        f"{len(sizes_px0)} groups of cells do not fit on a slide of {settings.size[0]}x{settings.size[1]}; "
        "give a larger size or a smaller min_groups"
    )


def _try_place(
    settings: SynthSettings, sizes_px0: NDArray[np.int64], smear: Smear, rng: np.random.Generator
) -> list[Box] | None:
    width, height = settings.size
    gap = px0_of_um(GAP_UM, settings.mpp)
    homes = rng.uniform(0.15, 0.85, (rng.integers(1, 7), 2)) * settings.size
    placed = np.empty((0, 4))
    where = np.zeros((len(sizes_px0), 4))
    for slot in np.argsort(-sizes_px0.prod(axis=1), kind="stable"):
        w, h = sizes_px0[slot]
        x, y = rng.uniform(0, 1, (2, 400)) * [[width - w], [height - h]]
        near = rng.random(400) < 0.5
        home = homes[rng.integers(len(homes), size=400)] + rng.normal(0, 0.1, (400, 2)) * settings.size
        x, y = np.where(near, home[:, 0] - w / 2, x), np.where(near, home[:, 1] - h / 2, y)
        x, y = np.floor(x), np.floor(y)
        free = (x >= gap) & (y >= gap) & (x + w <= width - gap) & (y + h <= height - gap)
        for corner in ((0, 0), (w, 0), (0, h), (w, h)):
            free &= smear.depth(x + corner[0], y + corner[1]) > 0.06
        px, py, pw, ph = placed.T[..., None]
        apart = (x + w + gap <= px) | (px + pw + gap <= x) | (y + h + gap <= py) | (py + ph + gap <= y)
        free &= apart.all(axis=0)
        if not free.any():
            return None
        first = int(np.argmax(free))
        where[slot] = x[first], y[first], w, h
        placed = np.vstack([placed, where[slot]])
    return [Box(*(int(value) for value in row)) for row in where]
