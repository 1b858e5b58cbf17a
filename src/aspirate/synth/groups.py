"""Pixels of a follicular group: every visible trait is a continuous function of its latent atypia.

Atypia is near 0, 1, 2 in normal, atypical, malignant groups and spreads around them, so that grades overlap;
each cell jitters around its group again.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aspirate.core.geometry import Box
from aspirate.synth.cells import Sprite, blur_px
from aspirate.synth.layouts import Layout, choose, lay_out
from aspirate.synth.model import CELL_PITCH_UM, Stream
from aspirate.synth.plan import GroupPlan, SlidePlan
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
    stamp,
    waves,
    window,
)

MARGIN_UM = 9.0
"""Of the picture around the box, for ragged edges and blur."""

BODY_SHAPES = 12
"""Different outlines of cell bodies in one group; they merge, so few are enough."""
MOST_DENSE = 1.6
"""Density that overlapping nuclei approach, in single nuclei."""


@dataclass(frozen=True, slots=True)
class Nuclei:
    """Traits of n nuclei; lengths in pixels."""

    radius: Floats
    squeeze: Floats
    irregular: Floats
    density: Floats
    chromatin: Floats
    nucleolus: Floats
    """Radius, 0 where none shows."""
    groove: NDArray[np.bool_]
    inclusion: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class GroupPicture:
    sprite: Sprite
    x_px0: int
    y_px0: int


def draw_nuclei(atypia: float, n: int, px: float, rng: np.random.Generator) -> Nuclei:
    """Benign: 7 µm, round, even. Malignant: larger and unequal, irregular, coarse, nucleoli, grooves."""
    a = np.clip(atypia + rng.normal(0, 0.35, n), -1.0, 3.6).astype(np.float32)
    up = np.clip(a, 0, None)
    tone = rng.normal(0, 0.10) + rng.choice([-0.07, 0.06]) * max(atypia, 0)  # ground-glass or hyperchromatic
    spread = 0.055 + 0.035 * up
    return Nuclei(
        radius=((3.55 + 0.62 * a) * px * np.exp(rng.normal(0, 1, n) * spread)).astype(np.float32),
        squeeze=np.clip(1.0 - np.abs(rng.normal(0, 0.07 + 0.055 * up)), 0.55, 1.0).astype(np.float32),
        irregular=(0.012 + 0.014 * up).astype(np.float32),
        density=np.clip(0.92 + tone + rng.normal(0, 0.06, n), 0.5, 1.4).astype(np.float32),
        chromatin=np.clip(0.055 + 0.05 * a, 0.03, 0.25).astype(np.float32),
        nucleolus=(np.where(rng.random(n) < 0.08 + 0.26 * up, (0.45 + 0.17 * up) * px, 0)).astype(np.float32),
        groove=rng.random(n) < 0.02 + 0.10 * up,
        inclusion=rng.random(n) < 0.022 * up**1.6,
    )


def draw_group(plan: SlidePlan, grain: Grain, index: int, focus: int) -> GroupPicture:
    """The picture of one group; it depends on nothing but the plan, the index and the focus there."""
    group = plan.groups[index]
    rng = plan.stream(Stream.GROUP, index)
    pitch = plan.px(CELL_PITCH_UM)
    kind = choose(group.atypia, rng)
    crowding = 0.14 * max(group.atypia, 0.0)
    layout = lay_out(kind, group.box_px0.width, group.box_px0.height, pitch, crowding, rng)
    margin = int(np.ceil(plan.px(MARGIN_UM)))
    image = _cytoplasm(plan, grain, group, layout, margin, rng)
    image += _nuclei(plan, grain, group, layout, margin, rng)
    sprite = quantised(focused(image, blur_px(plan, focus), plan.scanner.sharpening if focus == 0 else 0.0))
    return GroupPicture(sprite, group.box_px0.x - margin, group.box_px0.y - margin)


def _cytoplasm(
    plan: SlidePlan, grain: Grain, group: GroupPlan, layout: Layout, margin: int, rng: np.random.Generator
) -> Floats:
    """Cell bodies that merge, darker where they meet, thin and ragged at the outside, with lumens."""
    pitch, palette = plan.px(CELL_PITCH_UM), plan.appearance.palette
    shape = (group.box_px0.height + 2 * margin, group.box_px0.width + 2 * margin)
    radius = (pitch * rng.normal(0.66, 0.04, BODY_SHAPES)).astype(np.float32)
    side = int(np.ceil(2.2 * pitch)) | 1
    bodies = soft(inside(plane(side), radius, waves(rng, BODY_SHAPES, [0.06, 0.04, 0.03])), 0.42 * pitch)
    cover = np.zeros(shape, np.float32)
    for i, (x, y) in enumerate(_corners(layout.cells + margin, side)[0]):
        stamp(cover, bodies[i % BODY_SHAPES], x, y)
    rag = _window(grain.rag, shape, rng)
    spots = _window(grain.foam, shape, rng)
    merged = 1.0 - np.exp(-1.5 * np.clip(cover + 0.12 * rag * (cover > 0.02), 0, None))
    seams = np.clip(cover - 1.0, 0, 1.0)
    strength = rng.uniform(0.8, 1.7)
    density = strength * merged * (0.9 + 0.10 * rag + 0.05 * spots) + 0.30 * seams
    image: Floats = (density[..., None] * palette.cytoplasm).astype(np.float32)
    if len(layout.lumens):
        _add_lumens(image, plan, layout, margin, rng)
    return image


def _add_lumens(image: Floats, plan: SlidePlan, layout: Layout, margin: int, rng: np.random.Generator) -> None:
    """Some follicles hold a drop of dense colloid."""
    centres = layout.lumens[(rng.random(len(layout.lumens)) < 0.6) & (layout.lumens[:, 2] > plan.px(1.5))]
    if not len(centres):
        return
    side = int(np.ceil(2.6 * centres[:, 2].max())) | 1
    corner, shift = _corners(centres[:, :2] + margin, side)
    depth = inside(plane(side, shift), centres[:, 2].astype(np.float32), waves(rng, len(centres), [0.08, 0.05]))
    drops = soft(depth, plan.px(2.5)) * rng.uniform(0.3, 1.0, len(centres)).astype(np.float32)[:, None, None]
    for (x, y), drop in zip(corner, drops, strict=True):
        stamp(image, drop[..., None] * plan.appearance.palette.colloid, x, y)


def _nuclei(
    plan: SlidePlan, grain: Grain, group: GroupPlan, layout: Layout, margin: int, rng: np.random.Generator
) -> Floats:
    """Nuclei over each other: in a smear they flatten where they overlap, so densities add less than fully."""
    px, pitch, palette = plan.px(1.0), plan.px(CELL_PITCH_UM), plan.appearance.palette
    box, n = group.box_px0, len(layout.cells)
    nuclei = draw_nuclei(group.atypia, n, px, rng)
    wander = (0.04 + 0.04 * np.clip(group.atypia, 0, 3)) * pitch
    places = layout.cells + rng.normal(0, wander, (n, 2))
    reach = 0.42 * pitch  # a nucleus keeps within the box, whatever its size
    places = np.clip(places, reach, [box.width - reach, box.height - reach]) + margin
    side = int(np.ceil(2.5 * nuclei.radius.max() + 2 * px)) | 1
    corner, shift = _corners(places, side)
    layers = np.stack(_nuclear_densities(nuclei, grain, side, shift, px, rng), axis=-1)
    layers *= (1.0 - 0.12 * np.abs(layout.height)).clip(0.6).astype(np.float32)[:, None, None, None]
    total = np.zeros((box.height + 2 * margin, box.width + 2 * margin, 2), np.float32)
    for (x, y), layer, height in zip(corner, layers, np.abs(layout.height), strict=True):
        above = focused(layer, 0.35 * px * float(height), 0.0) if height > 0.6 else layer
        stamp(total, above, x, y)
    total = np.float32(MOST_DENSE) * -np.expm1(total * np.float32(-1 / MOST_DENSE))
    image: Floats = total @ np.stack([palette.nucleus, palette.chromatin])
    return image


def _nuclear_densities(
    nuclei: Nuclei, grain: Grain, side: int, shift: NDArray[np.complex64], px: float, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Densities of ground substance and of condensed chromatin, each (n, side, side)."""
    n = len(nuclei.radius)

    def column(values: object) -> Floats:
        return np.asarray(values, np.float32).reshape(n, 1, 1)

    turn = rng.uniform(0, np.pi, n).astype(np.float32)
    z = squeezed(plane(side, shift), turn, nuclei.squeeze)
    outline = waves(rng, n, nuclei.irregular[:, None] * np.array([1.6, 1.5, 0.8, 0.4, 0.2], np.float32))
    depth = inside(z, nuclei.radius, outline)
    within = soft(depth, 0.45 * px)
    rim = np.exp(-(((depth - 0.35 * px) / (0.42 * px)) ** 2))
    fine, coarse = crops(grain.fine, rng, n, side), crops(grain.clumped, rng, n, side)
    clump = column(np.clip((nuclei.chromatin - 0.08) / 0.2, 0, 1))
    texture = column(nuclei.chromatin) * ((1 - clump) * fine + clump * (0.6 * fine + 0.9 * coarse))
    body = within * column(nuclei.density) * (0.80 + 0.5 * texture)
    dark = within * (0.10 + 0.9 * texture + (0.10 + 0.5 * column(nuclei.chromatin)) * rim)
    spot = (rng.uniform(0, 0.55, n) * nuclei.radius * np.exp(2j * np.pi * rng.random(n))).astype(np.complex64)
    dot = np.abs(z - spot[:, None, None])
    nucleolus = column(nuclei.nucleolus)
    dark = dark + 0.55 * soft(nucleolus - dot, 0.5 * px) * (nucleolus > 0) * within
    crease = np.abs(z.imag - 0.25 * column(rng.normal(0, 1, n)) * z.real**2 / column(nuclei.radius))
    line = np.exp(-((crease / (0.32 * px)) ** 2)) * soft(depth - 0.4 * px, px)
    dark = dark + 0.35 * column(nuclei.groove) * line
    hole_radius = column(nuclei.radius * rng.uniform(0.32, 0.55, n))
    hole = hole_radius - np.abs(z - 0.6 * spot[:, None, None])
    pale = soft(hole, 0.5 * px) * column(nuclei.inclusion)
    ring = np.exp(-((hole / (0.4 * px)) ** 2)) * column(nuclei.inclusion)
    body = body * (1 - 0.75 * pale)
    dark = np.clip(dark * (1 - 0.9 * pale) + 0.25 * ring * within, 0, None)
    return body.astype(np.float32), dark.astype(np.float32)


def _corners(centres: NDArray[np.float64], side: int) -> tuple[list[tuple[int, int]], NDArray[np.complex64]]:
    """Whole-pixel corners of squares around centres, and the fractions that remain."""
    exact = centres - (side - 1) / 2
    whole = np.floor(exact).astype(int)
    rest = exact - whole
    return [(int(x), int(y)) for x, y in whole], (rest[:, 0] + 1j * rest[:, 1]).astype(np.complex64)


def _window(tile: Floats, shape: tuple[int, int], rng: np.random.Generator) -> Floats:
    """A random window of a periodic tile."""
    y, x = rng.integers(tile.shape[0], size=2)
    return window(tile, int(y), int(x), *shape)


def reach_box(group: GroupPlan, plan: SlidePlan) -> Box:
    """Pixels that a group's picture may touch."""
    margin = int(np.ceil(plan.px(MARGIN_UM)))
    box = group.box_px0
    return Box(box.x - margin, box.y - margin, box.width + 2 * margin, box.height + 2 * margin)
