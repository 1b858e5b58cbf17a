"""Single cells between the groups, from a lattice of parcels each seeded by its own place."""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aspirate.core.geometry import Box
from aspirate.synth.cells import Bank, Sprite
from aspirate.synth.fields import NODE_PX, Fields
from aspirate.synth.model import Stream
from aspirate.synth.plan import SlidePlan

RED_PITCH_UM = 6.7
"""Distance of red cells in a full sheet."""
PLACES = 20
"""Places of the red cells' lattice along a parcel's side; even, so that its offset rows go on beyond."""
PER_PARCEL = {"lymphocyte": 0.30, "neutrophil": 0.10, "macrophage": 0.035, "debris": 0.25, "precipitate": 0.15}
"""Mean number of other things in a parcel of the smear, before the slide's own abundance."""

Placed = tuple[int, int, Sprite]


class Scatter:
    """All single cells of a slide, drawn where they are asked for."""

    def __init__(self, plan: SlidePlan, bank: Bank, fields: Fields) -> None:
        self._plan, self._bank, self._fields = plan, bank, fields
        self._pitch = plan.px(RED_PITCH_UM)
        self._side = self._pitch * PLACES
        look = plan.appearance
        abundance = {
            "lymphocyte": look.lymphocytes,
            "neutrophil": 0.5 + look.blood,
            "macrophage": look.macrophages,
            "debris": look.debris,
            "precipitate": look.debris,
        }
        self._rates = {kind: rate * abundance[kind] for kind, rate in PER_PARCEL.items()}
        boxes = [(g.box_px0.x, g.box_px0.y, g.box_px0.width, g.box_px0.height) for g in plan.groups]
        self._groups = np.array(boxes, np.float64).reshape(-1, 4)
        self._parcel = lru_cache(maxsize=600)(self._draw_parcel)

    def near(self, box: Box) -> Iterator[Placed]:
        """Corner and sprite of whatever may touch a box."""
        left, top = box.x - self._bank.reach_px, box.y - self._bank.reach_px
        right, bottom = box.x + box.width + self._bank.reach_px, box.y + box.height + self._bank.reach_px
        for row in range(int(top // self._side), int(bottom // self._side) + 1):
            for column in range(int(left // self._side), int(right // self._side) + 1):
                for x, y, sprite in self._parcel(row, column):
                    inside = x < box.x + box.width and y < box.y + box.height
                    if inside and x + sprite.shape[1] > box.x and y + sprite.shape[0] > box.y:
                        yield x, y, sprite

    def _draw_parcel(self, row: int, column: int) -> list[Placed]:
        # Parcels left of or above the slide have negative numbers; seeds must not.
        rng = self._plan.stream(Stream.PARCEL, row + 2, column + 2)
        corner = np.array([column, row]) * self._side
        placed = self._red_cells(corner, rng)
        for kind, rate in self._rates.items():
            count = rng.poisson(4 * rate)
            centres = corner + rng.uniform(0, self._side, (count, 2))
            keep = rng.random(count) < 0.25 * self._sample(self._fields.cells, centres)
            placed += self._chosen(kind, centres[keep], rng)
        return placed

    def _red_cells(self, corner: NDArray[np.float64], rng: np.random.Generator) -> list[Placed]:
        rows, columns = np.mgrid[0:PLACES, 0:PLACES]
        lattice = np.stack([columns + 0.5 * (rows % 2), rows], axis=-1).reshape(-1, 2)
        centres = corner + (lattice + rng.normal(0, 0.21, lattice.shape)) * self._pitch
        taken = rng.random(len(centres)) < self._sample(self._fields.blood, centres)
        stacked = rng.random(len(centres)) < 0.06 * self._plan.appearance.rouleaux
        flat = self._chosen("red", centres[taken & ~stacked], rng)
        return flat + self._chosen("rouleau", centres[taken & stacked], rng)

    def _chosen(self, kind: str, centres: NDArray[np.float64], rng: np.random.Generator) -> list[Placed]:
        """A random sprite for each centre, as sharp as the slide is there; few lie upon groups."""
        centres = centres[~self._on_group(centres) | (rng.random(len(centres)) < 0.1)]
        variants = rng.random(len(centres))
        steps = self._sample(self._fields.focus, centres)
        placed = []
        for (x, y), step, variant in zip(centres, steps, variants, strict=True):
            sprites = self._bank.get(kind, int(step))
            sprite = sprites[int(variant * len(sprites))]
            placed.append((round(x) - sprite.shape[1] // 2, round(y) - sprite.shape[0] // 2, sprite))
        return placed

    def _on_group(self, centres: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Within the ellipse of any group's box."""
        if not len(centres):
            return np.zeros(0, bool)
        low, high = centres.min(axis=0), centres.max(axis=0)
        g = self._groups
        g = g[(g[:, 0] < high[0]) & (g[:, 0] + g[:, 2] > low[0]) & (g[:, 1] < high[1]) & (g[:, 1] + g[:, 3] > low[1])]
        unit = (centres[:, None] - g[:, :2] - g[:, 2:] / 2) / (g[:, 2:] / 2)
        return np.asarray(((unit**2).sum(axis=-1) < 1.0).any(axis=1))

    def _sample(self, field: NDArray[Any], centres: NDArray[np.float64]) -> NDArray[Any]:
        """A field at its nearest nodes; beyond the slide, as at its edge."""
        nodes = np.rint(centres / NODE_PX).astype(int)
        rows = np.clip(nodes[:, 1], 0, field.shape[0] - 1)
        columns = np.clip(nodes[:, 0], 0, field.shape[1] - 1)
        return np.asarray(field[rows, columns])
