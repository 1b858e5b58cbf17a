"""Any block of a slide's pixels, the same to the last bit however the slide is cut into blocks.

Optical densities are whole numbers and are summed: coarse fields, textures, noise, stamped cells, groups.
One table turns the sum into light.
"""

from functools import cache, lru_cache
from itertools import pairwise, product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import zoom
from scipy.spatial import cKDTree

from aspirate.core.geometry import Box
from aspirate.synth.cells import Bank, Sprite
from aspirate.synth.fields import LACE_STEPS, NODE_PX, draw_fields
from aspirate.synth.groups import GroupPicture, draw_group, reach_box
from aspirate.synth.model import Stream
from aspirate.synth.plan import SlidePlan
from aspirate.synth.scatter import Scatter
from aspirate.synth.shapes import OD_UNIT, Floats, draw_grain, noise_tile, quantised, stamp

BLOCK_PX = 512
"""Side of what is drawn at a time; no larger than the tiles of noise."""
NOISE_PX = 512
TEXTURE_PX = 1024
LIGHT = np.rint(255.0 * np.exp(-np.arange(8 * OD_UNIT) / OD_UNIT)).astype(np.uint8)
"""What is seen of an optical density."""


class SlideRenderer:
    """Draws a planned slide."""

    def __init__(self, plan: SlidePlan) -> None:
        self.plan = plan
        rng = plan.stream(Stream.SPRITE, 0)
        self._grain = draw_grain(rng, plan.px(1.0))
        self._fields = draw_fields(plan)
        self._scatter = Scatter(plan, Bank(plan, self._grain), self._fields)
        self._noise = _twice(_scanner_noise(plan, rng))
        self._lace = cache(lambda: _twice(_lace(plan)))
        self._cracks = cache(lambda: _twice(_cracks(plan)))
        self._reach = [reach_box(group, plan) for group in plan.groups]
        self._group = lru_cache(maxsize=64)(self._draw_group)

    def region(self, box_px0: Box) -> NDArray[np.uint8]:
        """(height, width, 3) of any region, also beyond the slide's right and bottom edge."""
        image = np.empty((box_px0.height, box_px0.width, 3), np.uint8)
        right, bottom = box_px0.x + box_px0.width, box_px0.y + box_px0.height
        for top, left in product(_cuts(box_px0.y, bottom), _cuts(box_px0.x, right)):
            part = Box(left[0], top[0], left[1] - left[0], top[1] - top[0])
            y, x = part.y - box_px0.y, part.x - box_px0.x
            self._block(part, image[y : y + part.height, x : x + part.width])
        return image

    def _block(self, box: Box, out: NDArray[np.uint8]) -> None:
        density = self._ground(box)
        for x, y, sprite in self._scatter.near(box):
            stamp(density, sprite, x - box.x, y - box.y)
        for index, reach in enumerate(self._reach):
            if _meet(reach, box):
                picture = self._group(index)
                stamp(density, picture.sprite, picture.x_px0 - box.x, picture.y_px0 - box.y)
        out[:] = np.take(LIGHT, density, mode="clip")

    def _draw_group(self, index: int) -> GroupPicture:
        box = self.plan.groups[index].box_px0
        row, column = (box.y + box.height // 2) // NODE_PX, (box.x + box.width // 2) // NODE_PX
        return draw_group(self.plan, self._grain, index, int(self._fields.focus[row, column]))

    def _ground(self, box: Box) -> Sprite:
        """Fields between their nodes, with textures and noise, (height, width, 3)."""
        fields, palette = self._fields, self.plan.appearance.palette
        nodes = (_nodes(box.y, box.height), _nodes(box.x, box.width))
        textures = [
            (_between(strength[nodes], box) * _at(tile(), box), colour)
            for strength, tile, colour in (
                (fields.lace, self._lace, palette.film),
                (fields.cracks, self._cracks, palette.colloid),
            )
            if strength[nodes].any()
        ]
        density = np.empty((box.height, box.width, 3), np.int16)
        for channel in range(3):
            level = _between(fields.tint[..., channel][nodes], box)
            for texture, colour in textures:
                level += texture * colour[channel]
            density[:, :, channel] = level
        density += _at(self._noise, box)
        return density


def _cuts(low: int, high: int) -> list[tuple[int, int]]:
    """An interval cut at whole blocks."""
    edges = [low, *range((low // BLOCK_PX + 1) * BLOCK_PX, high, BLOCK_PX), high]
    return list(pairwise(edges))


def _meet(a: Box, b: Box) -> bool:
    return a.x < b.x + b.width and b.x < a.x + a.width and a.y < b.y + b.height and b.y < a.y + a.height


def _nodes(start: int, length: int) -> slice:
    return slice(start // NODE_PX, -(-(start + length) // NODE_PX) + 1)


def _between(nodes: NDArray[Any], box: Box) -> Floats:
    """Bilinear between the nodes around a box; whole numbers below 2²⁴ are exact in float32."""
    step = np.arange(NODE_PX, dtype=np.float32)
    patch = nodes.astype(np.float32)
    rows = patch[:-1, None] * NODE_PX + np.diff(patch, axis=0)[:, None] * step[:, None]
    rows = rows.reshape(-1, patch.shape[1])[box.y % NODE_PX :][: box.height] * np.float32(NODE_PX**-2)
    level = np.diff(rows, axis=1)[:, :, None] * step
    level += (rows[:, :-1] * NODE_PX)[:, :, None]
    return level.reshape(len(rows), -1)[:, box.x % NODE_PX :][:, : box.width]


def _twice(tile: NDArray[Any]) -> NDArray[Any]:
    """A periodic tile beside itself, so that any block is one slice of it."""
    return np.concatenate([np.concatenate([tile, tile], axis=1)] * 2, axis=0)


def _at(tile: NDArray[Any], box: Box) -> NDArray[Any]:
    period = tile.shape[0] // 2
    y, x = box.y % period, box.x % period
    return tile[y : y + box.height, x : x + box.width]


def _scanner_noise(plan: SlidePlan, rng: np.random.Generator) -> Sprite:
    """Grey and coloured noise of the camera."""
    grey = noise_tile(rng, NOISE_PX, 1.0, 1e4)[..., None]
    colour = np.stack([noise_tile(rng, NOISE_PX, 1.5, 1e4) for _ in range(3)], axis=-1)
    return quantised(np.float32(plan.scanner.noise) * (0.85 * grey + 0.5 * colour))


def _lace(plan: SlidePlan) -> Floats:
    """Strands and holes of a drying film, zero on average, as optical density per step of strength."""
    rng, px, side = plan.stream(Stream.SPRITE, 2), plan.px(1.0), TEXTURE_PX
    tile = 1.0 - 1.9 * np.abs(noise_tile(rng, side, 4 * px, 14 * px))
    tile += 0.6 * noise_tile(rng, side, 8 * px, 40 * px) + 0.25 * noise_tile(rng, side, px, 4 * px)
    tile -= tile.mean()
    return np.rint(np.clip(0.55 * tile, -1.2, 1.6) * OD_UNIT / LACE_STEPS).astype(np.float32)


def _cracks(plan: SlidePlan) -> Floats:
    """Pale lines where dried colloid has torn into plates, as optical density per step of strength.

    Plates are the cells of a periodic Voronoi diagram: a line lies where two centres are equally far.
    """
    rng, side, coarse = plan.stream(Stream.SPRITE, 3), TEXTURE_PX, 4
    count = max(3, round((side / plan.px(55.0)) ** 2))
    centres = rng.uniform(0, side, (count, 2))
    axis = np.arange(0, side, coarse)
    pixels = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    wobble = np.stack([noise_tile(rng, side // coarse, 10, 60).ravel() for _ in range(2)], axis=1)
    tree = cKDTree(centres, boxsize=np.array([side, side]))
    near = np.asarray(tree.query((pixels + plan.px(1.2) * wobble) % side, k=2)[0])
    gap = (near[:, 1] - near[:, 0]).reshape(len(axis), len(axis)).astype(np.float32)
    gap = zoom(gap, coarse, order=1, mode="grid-wrap", grid_mode=True)
    tear = np.exp(-((gap / plan.px(rng.uniform(0.45, 1.1))) ** 2))
    return np.asarray(np.rint(-0.9 * tear * OD_UNIT / LACE_STEPS), np.float32)
