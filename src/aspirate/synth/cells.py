"""Sprites of what lies between the groups: red cells, rouleaux, white cells, debris.

Each maker returns optical densities (n, side, side, 3); a slide stamps copies of a small bank of them.
"""

from functools import cache

import numpy as np
from numpy.typing import NDArray

from aspirate.synth.model import Stream
from aspirate.synth.palette import Palette, Stain
from aspirate.synth.plan import SlidePlan
from aspirate.synth.shapes import (
    Floats,
    Grain,
    crops,
    focused,
    inside,
    plane,
    quantised,
    soft,
    squeezed,
    waves,
)

DEFOCUS_UM = (0.0, 0.5, 1.0, 1.7)
"""Extra blur of each step of a slide's focus map."""

Sprite = NDArray[np.int16]


class Bank:
    """Sprites by kind and step of defocus, in several variants."""

    def __init__(self, plan: SlidePlan, grain: Grain) -> None:
        rng = plan.stream(Stream.SPRITE, 1)
        look, px = plan.appearance, plan.px(1.0)
        drawn = {
            "red": red_cells(rng, look.palette, px, look.stain, 40),
            "rouleau": rouleaux(rng, look.palette, px, 12),
            "lymphocyte": lymphocytes(rng, look.palette, px, grain, 12),
            "neutrophil": neutrophils(rng, look.palette, px, 6),
            "macrophage": macrophages(rng, look.palette, px, grain, 8),
            "debris": debris(rng, look.palette, px, grain, 10),
            "precipitate": precipitates(rng, look.palette, px, 8),
        }
        self.get = cache(lambda kind, step: at_focus(plan, drawn[kind], step))
        self.reach_px = max(s.shape[1] for s in drawn.values()) // 2 + blur_room(plan, len(DEFOCUS_UM) - 1) + 1


def blur_px(plan: SlidePlan, step: int) -> float:
    return plan.px(float(np.hypot(plan.appearance.blur_um, DEFOCUS_UM[step])))


def blur_room(plan: SlidePlan, step: int) -> int:
    return int(np.ceil(2.5 * blur_px(plan, step)))


def at_focus(plan: SlidePlan, sprites: Floats, step: int) -> list[Sprite]:
    """Sprites as the optics show them, with room for the blur."""
    room = blur_room(plan, step)
    padded = np.pad(sprites, ((0, 0), (room, room), (room, room), (0, 0)))
    return list(quantised(focused(padded, blur_px(plan, step), plan.scanner.sharpening if step == 0 else 0.0)))


def _painted(*layers: tuple[Floats, Floats]) -> Floats:
    """Sum of density × colour."""
    total = layers[0][0][..., None] * layers[0][1]
    for density, colour in layers[1:]:
        total = total + density[..., None] * colour
    return total.astype(np.float32)


def _floats(values: object) -> Floats:
    return np.asarray(values, np.float32)


def red_cells(rng: np.random.Generator, palette: Palette, px: float, stain: Stain, n: int) -> Floats:
    """Biconcave discs of 7 µm seen from above, a few spiky, a few folded or drawn out."""
    side = int(np.ceil(9.6 * px))
    spiky = rng.random(n) < 0.05
    high = np.where(spiky, 0.026, 0.004)[:, None] * _floats([1, 1, 1])
    outline = waves(rng, n, np.hstack([np.full((n, 3), [0.035, 0.022, 0.012]), np.zeros((n, 2)), high]))
    radius = _floats(3.45 * px * rng.normal(1.0, 0.055, n))
    z = squeezed(plane(side), _floats(rng.uniform(0, np.pi, n)), _floats(rng.beta(7, 1, n).clip(0.62)))
    depth = inside(z, radius, outline)
    level = np.clip(1.0 - depth / radius[:, None, None], 0, 1)  # 0 in the middle, 1 at the rim
    pallor = rng.beta(2.2, 2.0, n)[:, None, None] * (0.75 if stain is Stain.DIFF_QUIK else 0.55)
    off = plane(side) - (rng.normal(0, 0.35, n) + 1j * rng.normal(0, 0.35, n))[:, None, None] * px
    middle = np.exp(-((np.abs(off) / (0.46 * radius[:, None, None])) ** 2.6))
    rim = np.exp(-(((level - 0.72) / 0.2) ** 2))
    body = soft(depth, 0.30 * px) * (0.82 + 0.22 * rim - pallor * middle)
    body *= rng.normal(1.0, 0.10, n)[:, None, None]
    # Air-dried and fixed red cells refract: a thin bright line just outside the membrane.
    shine = -0.055 * np.exp(-(((depth + 0.28 * px) / (0.22 * px)) ** 2))
    return _painted((_floats(body), palette.red_cell), (_floats(shine), _floats([1, 1, 1])))


def rouleaux(rng: np.random.Generator, palette: Palette, px: float, n: int) -> Floats:
    """Stacks of red cells seen from the side, like coins, gently bent."""
    side = int(np.ceil(30 * px))
    stacks = np.zeros((n, side, side), np.float32)
    for stack in stacks:
        count = int(rng.integers(3, 12))
        step, heading, bend = 1.9 * px, rng.uniform(0, 2 * np.pi), rng.normal(0, 0.06)
        headings = heading + bend * (np.arange(count) - count / 2)
        place = np.cumsum(step * np.exp(1j * headings))
        place += (rng.normal(0, 0.25, count) + 1j * rng.normal(0, 0.25, count)) * px - place.mean()
        shift = place.astype(np.complex64)
        z = squeezed(plane(side, shift), _floats(headings + np.pi / 2), np.full(count, 0.40, np.float32))
        depth = inside(z, _floats(3.5 * px * rng.normal(1, 0.04, count)), waves(rng, count, [0.02, 0.015]))
        coins = soft(depth, 0.5 * px) * (0.62 + 0.30 * np.exp(-((depth / (0.9 * px)) ** 2)))
        stack[:] = 1.15 * np.tanh(coins.sum(axis=0) / 1.15)
    return _painted((stacks, 1.2 * palette.red_cell))


def lymphocytes(rng: np.random.Generator, palette: Palette, px: float, grain: Grain, n: int) -> Floats:
    """A dense round nucleus of 6 to 8 µm, clumped, in a thin rim of cytoplasm."""
    side = int(np.ceil(13 * px))
    radius = _floats(px * rng.uniform(2.9, 3.9, n))
    outline = waves(rng, n, [0.035, 0.02, 0.012])
    depth = inside(plane(side), radius, outline)
    shift = (rng.normal(0, 0.45, n) + 1j * rng.normal(0, 0.45, n)).astype(np.complex64) * np.float32(px)
    rim = inside(plane(side, shift), radius * _floats(rng.uniform(1.08, 1.4, n)), waves(rng, n, [0.06, 0.04]))
    clumps = crops(grain.clumped, rng, n, side)
    nucleus = soft(depth, 0.5 * px)
    return _painted(
        (nucleus * (0.72 + 0.10 * clumps), palette.nucleus),
        (nucleus * (0.34 + 0.14 * clumps), palette.chromatin),
        (soft(rim, 0.9 * px) * np.float32(0.55), palette.cytoplasm),
    )


def neutrophils(rng: np.random.Generator, palette: Palette, px: float, n: int) -> Floats:
    """Three to five joined dark lobes in a pale cell of 12 µm."""
    side = int(np.ceil(17 * px))
    cells = []
    for _ in range(n):
        lobes = int(rng.integers(3, 6))
        angle = rng.uniform(0, 2 * np.pi) + np.cumsum(rng.uniform(0.9, 1.5, lobes))
        shift = (rng.uniform(2.0, 3.0, lobes) * px * np.exp(1j * angle)).astype(np.complex64)
        lobe = inside(plane(side, shift), _floats(px * rng.uniform(1.4, 2.0, lobes)), waves(rng, lobes, [0.12, 0.05]))
        body = inside(plane(side), _floats([6.0 * px]), waves(rng, 1, [0.04, 0.03, 0.02]))[0]
        dark = soft(lobe, 0.5 * px).max(axis=0)
        cells.append(
            _painted(
                (dark, 0.75 * palette.nucleus + 0.45 * palette.chromatin),
                (np.float32(0.45) * soft(body, 0.9 * px), palette.cytoplasm),
            )
        )
    return np.stack(cells)


def macrophages(rng: np.random.Generator, palette: Palette, px: float, grain: Grain, n: int) -> Floats:
    """Foamy cells of 18 to 30 µm with vacuoles, an eccentric bean of a nucleus, often brown pigment."""
    side = int(np.ceil(38 * px))
    radius = _floats(px * rng.uniform(8.5, 14.5, n))
    body = inside(plane(side), radius, waves(rng, n, [0.09, 0.06, 0.04, 0.03]))
    foam = crops(grain.foam, rng, n, side)
    vacuoles = np.clip(foam - 0.35, 0, 1.2)
    shift = (0.45 * radius * np.exp(2j * np.pi * rng.random(n))).astype(np.complex64)
    bean = inside(plane(side, shift), _floats(px * rng.uniform(3.4, 4.6, n)), waves(rng, n, [0.14, 0.06, 0.02]))
    nucleus = soft(bean, 0.6 * px)
    grains = crops(grain.fine, rng, n, side)
    pigment = np.clip(grains - rng.uniform(0.6, 3.2, n)[:, None, None], 0, 1.5) * soft(body - 1.5 * px, 3 * px)
    cover = soft(body, 2.2 * px)
    chromatin = crops(grain.fine, rng, n, side)
    return _painted(
        (cover * (0.95 - 0.55 * vacuoles + 0.10 * grains) * (1 - 0.5 * nucleus), palette.cytoplasm),
        (nucleus * (0.60 + 0.10 * chromatin), palette.nucleus),
        (nucleus * np.clip(0.10 + 0.12 * chromatin, 0, 1), palette.chromatin),
        (_floats(pigment), palette.pigment),
    )


def debris(rng: np.random.Generator, palette: Palette, px: float, grain: Grain, n: int) -> Floats:
    """Smudges: torn cytoplasm and crushed nuclei."""
    side = int(np.ceil(26 * px))
    z = squeezed(plane(side), _floats(rng.uniform(0, np.pi, n)), _floats(rng.uniform(0.3, 0.9, n)))
    rag = crops(grain.rag, rng, n, side)
    body = inside(z, _floats(px * rng.uniform(3.0, 8.5, n)), waves(rng, n, [0.2, 0.15, 0.1])) + rag * 1.6 * px
    cover = soft(_floats(body), 3.5 * px)
    crushed = (rng.random(n) ** 3)[:, None, None] * soft(_floats(body - 2.0 * px), 4.0 * px) * (0.6 + 0.2 * rag)
    return _painted((cover * (0.5 + 0.12 * rag), palette.cytoplasm), (_floats(crushed), palette.nucleus))


def precipitates(rng: np.random.Generator, palette: Palette, px: float, n: int) -> Floats:
    """A scatter of dark grains of stain."""
    side = int(np.ceil(24 * px))
    scatters = []
    for _ in range(n):
        count = int(rng.integers(3, 26))
        spot = rng.normal(0, 3.6 * px, (2, count)).clip(-10 * px, 10 * px)
        grains = inside(
            plane(side, (spot[0] + 1j * spot[1]).astype(np.complex64)),
            _floats(px * rng.lognormal(-0.85, 0.45, count)),
            waves(rng, count, [0.12]),
        )
        scatters.append(soft(grains, 0.35 * px).max(axis=0))
    return _painted((np.stack(scatters), 0.6 * palette.chromatin + 0.3 * palette.pigment))
