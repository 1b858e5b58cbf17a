"""A slide from afar: smear, streaks, blood, film, colloid, focus, bubbles, ink, light, on a coarse lattice.

Between its nodes, 16 pixels apart, fields are bilinear with whole-number weights, which makes every block of
a slide exact to the last bit however the slide is cut into blocks.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from aspirate.synth.cells import DEFOCUS_UM
from aspirate.synth.model import Stream
from aspirate.synth.plan import SlidePlan
from aspirate.synth.shapes import OD_UNIT, Floats

NODE_PX = 16
LACE_STEPS = 64
"""Whole steps of the strength of a texture."""
MOST_OD = 2.2


@dataclass(frozen=True, slots=True)
class Fields:
    """Node (i, j) lies at pixel (16 j, 16 i)."""

    tint: NDArray[np.int16]
    """(h, w, 3) optical density of glass, film, colloid, ink, bubbles and uneven light."""
    lace: NDArray[np.uint8]
    """Strength of the film's strands, in `LACE_STEPS`."""
    cracks: NDArray[np.uint8]
    """Strength of cracks in colloid, in `LACE_STEPS`."""
    blood: Floats
    """Chance that a place in the red cells' lattice is taken."""
    cells: Floats
    """How common other single cells are, about 1 on the smear."""
    focus: NDArray[np.uint8]
    """Step of defocus."""


def draw_fields(plan: SlidePlan) -> Fields:
    rng = plan.stream(Stream.FIELD)
    look, palette = plan.appearance, plan.appearance.palette
    # One more node than the pixels need, after rounding up to whole tiles of 256 pixels.
    shape = (
        -(-plan.size_px0.height // 256) * 256 // NODE_PX + 1,
        -(-plan.size_px0.width // 256) * 256 // NODE_PX + 1,
    )
    nodes = plan.px(1.0) / NODE_PX  # per micrometre

    def noise(along_um: float, across_um: float, octaves: int) -> Floats:
        return fractal(rng, shape, (across_um * nodes, along_um * nodes), octaves)

    streaks = _bent(noise(1600, 160, 4), rng)
    cover = _cover(plan, shape, streaks, noise(120, 120, 3))
    thick = 1.0 + 0.35 * noise(2500, 900, 2)
    pools = noise(500, 300, 4)
    pool = _step(pools - _quantile(pools, 1 - 0.6 * look.colloid), 0.16) * cover
    blood = _logistic(3.4 * (look.blood - 0.45) + 1.1 * streaks + 0.9 * noise(90, 60, 2) + 0.5 * (thick - 1))
    blood = blood * cover * (1 - 0.85 * pool)
    film = look.film * cover * np.clip(0.75 + 0.35 * streaks + 0.3 * noise(200, 140, 3), 0.1, 2.0) * thick
    blurred = noise(700, 700, 3)
    far = blurred - _quantile(blurred, 1 - look.defocus)
    focus = np.clip(np.ceil(far / 0.3), 0, len(DEFOCUS_UM) - 1) * (cover > 0.02)
    tint = film[..., None] * (1.6 * palette.film) + palette.glass
    colloid_depth = pool * (0.7 + 0.25 * noise(260, 180, 3)) * rng.uniform(0.5, 1.3)
    tint += colloid_depth[..., None] * palette.colloid
    tint += (_light(plan, shape, rng) + _bubbles(plan, shape, rng))[..., None]
    if look.pen:
        tint += _pen_mark(plan, shape, rng)[..., None] * palette.ink
    cracked = rng.random() < 0.5
    sharp = 1.0 - focus / len(DEFOCUS_UM)
    return Fields(
        tint=np.rint(np.clip(tint, 0, MOST_OD) * OD_UNIT * 0.88).astype(np.int16),
        lace=_steps(look.lace * film * sharp * (1 - pool)),
        cracks=_steps(cracked * colloid_depth * sharp),
        blood=blood.astype(np.float32),
        cells=(cover * np.exp(0.9 * noise(350, 220, 3) - 0.3)).astype(np.float32),
        focus=focus.astype(np.uint8),
    )


def fractal(rng: np.random.Generator, shape: tuple[int, int], feature: tuple[float, float], octaves: int) -> Floats:
    """Smooth noise of zero mean and unit variance; `feature` is its largest wavelength in nodes (y, x)."""
    total = np.zeros(shape, np.float32)
    variance = 0.0
    for octave in range(octaves):
        step = [max(length / 2**octave, 1.0) for length in feature]
        rows, columns = (_spline(n, s) for n, s in zip(shape, step, strict=True))
        knots = rng.standard_normal((rows.shape[1], columns.shape[1]), np.float32)
        total += np.float32(0.6**octave) * (columns @ (rows @ knots).T).T
        variance += 0.36**octave * 0.479**2  # of a cubic B-spline of white noise, each way
    return total / np.float32(np.sqrt(variance))


def _bent(field: Floats, rng: np.random.Generator) -> Floats:
    """Columns shifted along a gentle curve, as a hand pulls a smear."""
    height, width = field.shape
    along = np.linspace(0, 1, width)
    shift = height * (rng.normal(0, 0.06) * along + rng.normal(0, 0.06) * np.sin(np.pi * along + rng.uniform(0, 3)))
    rows = (np.arange(height)[:, None] + np.rint(shift).astype(int)) % (2 * height)
    rows = np.where(rows < height, rows, 2 * height - 1 - rows)  # mirrored beyond the edge
    return np.take_along_axis(field, rows, axis=0)


def _spline(n: int, step: float) -> csr_array:
    """(n, knots) weights of a uniform cubic B-spline with knots `step` apart."""
    at = np.arange(n) / step
    first = np.floor(at).astype(int)
    t = at - first
    basis = ((1 - t) ** 3, 3 * t**3 - 6 * t**2 + 4, -3 * t**3 + 3 * t**2 + 3 * t + 1, t**3)
    weights = np.stack(basis, axis=1).astype(np.float32) / 6
    knots = first[:, None] + np.arange(4)
    return csr_array((weights.ravel(), knots.ravel(), np.arange(0, 4 * n + 1, 4)), shape=(n, int(first[-1]) + 4))


def _step(values: Floats, width: float) -> Floats:
    t: Floats = np.clip(values / np.float32(width), 0, 1)
    t *= t * (3 - 2 * t)
    return t


def _steps(strength: Floats) -> NDArray[np.uint8]:
    return np.rint(np.clip(strength, 0, 1) * (LACE_STEPS - 1)).astype(np.uint8)


def _logistic(values: Floats) -> Floats:
    return np.float32(1) / (np.float32(1) + np.exp(-values))


def _quantile(values: Floats, q: float) -> np.float32:
    return np.float32(np.quantile(values[::4, ::4], q))


def _cover(plan: SlidePlan, shape: tuple[int, int], streaks: Floats, fray: Floats) -> Floats:
    """1 on the smear, 0 on bare glass, feathered and frayed between."""
    depth = np.empty(shape, np.float32)
    x = np.arange(shape[1], dtype=np.float64)[None] * NODE_PX
    for top in range(0, shape[0], 64):
        y = np.arange(top, min(top + 64, shape[0]), dtype=np.float64)[:, None] * NODE_PX
        depth[top : top + 64] = plan.smear.depth(*np.broadcast_arrays(x, y))
    return _step(depth + np.float32(0.035) * streaks + np.float32(0.025) * fray + np.float32(0.02), 0.09)


def _light(plan: SlidePlan, shape: tuple[int, int], rng: np.random.Generator) -> Floats:
    """A slow gradient, and the faint bands of a scanner's passes."""
    y, x = np.ogrid[0 : shape[0], 0 : shape[1]]
    slope = rng.normal(0, 0.02, 2)
    gradient = slope[0] * (x / shape[1] - 0.5) + slope[1] * (y / shape[0] - 0.5)
    period = rng.uniform(1800, 2600) / NODE_PX
    bands = rng.uniform(0.0, 0.008) * (((y / period) % 1.0 - 0.5) ** 2 * 4)
    return np.asarray(gradient + bands + 0 * x, np.float32)


def _bubbles(plan: SlidePlan, shape: tuple[int, int], rng: np.random.Generator) -> Floats:
    """Air under the cover slip: a dark refracting wall with a bright line, clearer within."""
    total = np.zeros(shape, np.float32)
    y, x = np.ogrid[0 : shape[0], 0 : shape[1]]
    per_node_um = NODE_PX / plan.px(1.0)
    for _ in range(plan.appearance.bubbles):
        centre = rng.uniform(0, 1, 2) * shape
        radius_um = float(rng.uniform(40, 190))
        squeeze = rng.uniform(0.8, 1.25)
        from_wall_um = np.hypot((y - centre[0]) * squeeze, (x - centre[1]) / squeeze) * per_node_um - radius_um
        wall = 0.5 * np.exp(-((from_wall_um / 4.5) ** 2)) + 0.12 * np.exp(-(((from_wall_um - 22) / 12) ** 2))
        total += np.asarray(wall - 0.05 * (from_wall_um < -8), np.float32)
    return total


def _pen_mark(plan: SlidePlan, shape: tuple[int, int], rng: np.random.Generator) -> Floats:
    """A stroke of a marker across a corner, its ink in streaks."""
    y, x = np.mgrid[0 : shape[0], 0 : shape[1]].astype(np.float32)
    corner = rng.integers(0, 2, 2)
    centre = corner * shape + rng.normal(0, 0.04, 2) * shape
    reach = min(shape) * rng.uniform(0.22, 0.34)
    swirl = fractal(rng, shape, (min(shape) / 4, min(shape) / 4), 2)
    from_stroke = np.abs(np.hypot(y - centre[0], x - centre[1]) - reach + 0.02 * min(shape) * swirl)
    width = min(shape) * 0.035
    ink = _step(width - from_stroke, 0.35 * width) * (0.75 + 0.1 * fractal(rng, shape, (6, 6), 2))
    return np.clip(ink, 0, 1.3).astype(np.float32)
