"""Where the cells of a follicular group lie: sheets, microfollicles, papillae, crowded clusters.

A layout fills its box exactly, whatever the grade: the outermost cells touch the box's four sides, and
atypia may only add cells within.
"""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

Points = NDArray[np.float64]


class Architecture(IntEnum):
    SHEET = 0
    MICROFOLLICLES = 1
    PAPILLA = 2
    CLUSTER = 3


USUAL = np.array([0.42, 0.22, 0.14, 0.22])
"""Shares of architectures at no atypia."""
LEAN = np.array([-0.25, 0.15, 0.20, 0.10])
"""How atypia tilts them, in log shares per unit: mildly, since all occur in all grades."""

BODY = 0.72
"""Radius of a cell with its thin cytoplasm, in pitches."""


@dataclass(frozen=True, slots=True)
class Layout:
    cells: Points
    """(n, 2) centres from the box's top left corner, in pixels."""
    lumens: Points
    """(m, 3) centre and radius of follicle lumens."""
    height: NDArray[np.float64]
    """(n,) of each cell above the plane of focus, 0 in flat groups, in cell pitches."""


def choose(atypia: float, rng: np.random.Generator) -> Architecture:
    shares = USUAL * np.exp(LEAN * np.clip(atypia, -1, 3))
    return Architecture(int(rng.choice(len(shares), p=shares / shares.sum())))


def lay_out(
    kind: Architecture, width: float, height: float, pitch: float, crowding: float, rng: np.random.Generator
) -> Layout:
    """Cells whose bodies of radius 0.72 pitch fill a box; `crowding` adds that share of cells within."""
    margin = BODY * pitch
    room = np.array([max(width - 2 * margin, 1.0), max(height - 2 * margin, 1.0)])
    maker = (_sheet, _microfollicles, _papilla, _cluster)[kind]
    points, lumens = maker(room, pitch, rng)
    low, span = points.min(axis=0), np.ptp(points, axis=0)
    scale = room / np.maximum(span, 1e-6)
    points = (points - low) * scale
    if len(lumens):
        lumens = np.column_stack([(lumens[:, :2] - low) * scale, lumens[:, 2] * scale.mean()])
    points = _crowded(points, crowding, pitch, rng)
    points = _relaxed(points, pitch * max(0.86 - 0.5 * crowding, 0.4), room) + margin
    lift = np.zeros(len(points))
    if kind is Architecture.CLUSTER:
        from_middle = (((points - margin) / room - 0.5) ** 2).sum(axis=1)
        lift = rng.uniform(-1, 1, len(points)) * np.sqrt(np.clip(0.3 - from_middle, 0, None)) * 2.2
    lumens = lumens + np.array([margin, margin, 0.0]) if len(lumens) else np.empty((0, 3))
    return Layout(points, lumens, lift)


def _crowded(points: Points, share: float, pitch: float, rng: np.random.Generator) -> Points:
    """More cells beside present ones, towards the middle of the group, so that the box stays."""
    extra = rng.poisson(share * len(points))
    beside = points[rng.integers(len(points), size=extra)]
    inward = (points.mean(axis=0) - beside) * rng.uniform(0.0, 0.5, (extra, 1))
    step = rng.normal(0, 0.35 * pitch, (extra, 2))
    added = np.clip(beside + inward + step, points.min(axis=0), points.max(axis=0))
    return np.vstack([points, added])


def _relaxed(points: Points, least: float, room: Points) -> Points:
    """Cells closer than `least` push each other apart; those that hold the box stay on its sides."""
    for _ in range(6):
        apart = points[:, None] - points[None]
        distance = np.hypot(apart[..., 0], apart[..., 1]) + 1e-6
        push = np.clip(least - distance, 0, None) / distance
        np.fill_diagonal(push, 0.0)
        points = np.clip(points + 0.25 * (push[..., None] * apart).sum(axis=1), 0, room)
    stretched: Points = (points - points.min(axis=0)) * room / np.maximum(np.ptp(points, axis=0), 1e-6)
    return stretched


def _hexagonal(room: Points, pitch: float, jitter: float, rng: np.random.Generator) -> Points:
    """A turned, jittered honeycomb around the origin, larger than the room."""
    reach = int(np.ceil(np.hypot(*room) / pitch)) + 1
    rows, columns = np.mgrid[-reach : reach + 1, -reach : reach + 1]
    grid = np.stack([columns + 0.5 * (rows % 2), rows * np.sqrt(0.75)], axis=-1).reshape(-1, 2) * pitch
    grid += rng.normal(0, jitter * pitch, grid.shape) + rng.uniform(0, pitch, 2)
    angle = rng.uniform(0, np.pi)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    turned: Points = grid @ turn
    return turned


def _blob(points: Points, room: Points, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Within a wavy ellipse as large as the room."""
    unit = points / (room / 2)
    angle = np.arctan2(unit[:, 1], unit[:, 0])
    edge = 1.0 + sum(rng.normal(0, 0.21 / k**0.7) * np.cos(k * angle + rng.uniform(0, 2 * np.pi)) for k in (2, 3, 4, 5))
    return np.hypot(unit[:, 0], unit[:, 1]) < edge


def _at_least(points: Points, room: Points, rng: np.random.Generator, least: int = 4) -> Points:
    """Very small groups still are groups."""
    if len(points) >= least:
        return points
    angle = rng.uniform(0, 2 * np.pi) + np.arange(least) * 2 * np.pi / least + rng.normal(0, 0.2, least)
    return np.column_stack([np.cos(angle), np.sin(angle)]) * room / 2


def _sheet(room: Points, pitch: float, rng: np.random.Generator) -> tuple[Points, Points]:
    points = _hexagonal(room, pitch, 0.12, rng)
    return _at_least(points[_blob(points, room, rng)], room, rng), np.empty((0, 3))


def _cluster(room: Points, pitch: float, rng: np.random.Generator) -> tuple[Points, Points]:
    points = _hexagonal(room, 0.85 * pitch, 0.28, rng)
    return _at_least(points[_blob(points, room, rng)], room, rng), np.empty((0, 3))


def _microfollicles(room: Points, pitch: float, rng: np.random.Generator) -> tuple[Points, Points]:
    """Rings of cells around a lumen, packed side by side and sharing walls."""
    across = np.maximum(np.rint(room / (rng.uniform(2.0, 2.9) * pitch)), 1).astype(int)
    step = room / across
    rings, lumens = [], []
    for row in range(across[1]):
        for column in range(across[0] - row % 2 * (across[0] > 1)):
            centre = (np.array([column + 0.5 + 0.5 * (row % 2) * (across[0] > 1), row + 0.5])) * step
            centre += rng.normal(0, 0.15 * pitch, 2)
            own = step / 2 * rng.uniform(0.85, 1.0, 2)
            count = max(5, round(2 * np.pi * own.mean() / (0.85 * pitch)))
            angle = np.arange(count) * 2 * np.pi / count + rng.uniform(0, 6) + rng.normal(0, 0.10, count)
            reach = own * rng.normal(1.0, 0.06, (count, 1))
            rings.append(centre + np.column_stack([np.cos(angle), np.sin(angle)]) * reach)
            lumens.append([*centre, max(own.min() - 0.42 * pitch, 0.0)])
    return _at_least(_thinned(np.vstack(rings), 0.6 * pitch), room, rng), np.array(lumens)


def _papilla(room: Points, pitch: float, rng: np.random.Generator) -> tuple[Points, Points]:
    """Branching fingers: cells stand in a palisade along their edge and lie looser within."""
    long = int(np.argmax(room))
    branches = 1 + int(room.max() > 6 * pitch) * int(rng.integers(1, 4))
    parts = []
    root = -room[long] / 2
    for branch in range(branches):
        bend = rng.normal(0, 0.25) * room[1 - long]
        tip = rng.uniform(0.55, 1.0) * room[long] if branch else room[long]
        sway = rng.uniform(-0.5, 0.5) * room[1 - long] if branch else 0.0
        thick = max(0.75 * pitch, room[1 - long] * rng.uniform(0.13, 0.22))
        t = np.arange(0, tip, 0.72 * pitch)
        axis = root + t
        middle = sway * t / room[long] + bend * np.sin(np.pi * t / tip)
        width = thick * np.sqrt(np.clip(1.02 - (t / tip) ** 4, 0.05, 1))
        parts += [np.column_stack([axis, middle + edge * width]) for edge in (-1.0, 1.0)]
        core = np.arange(0, tip, 1.1 * pitch)
        parts.append(np.column_stack([root + core, np.interp(core, t, middle)]))
    points = np.vstack(parts)
    points += rng.normal(0, 0.10 * pitch, points.shape)
    points = _thinned(points, 0.5 * pitch)
    return _at_least(points[:, ::-1] if long == 1 else points, room, rng), np.empty((0, 3))


def _thinned(points: Points, least: float) -> Points:
    """Drops cells that lie closer than `least` to an earlier one."""
    distance = np.hypot(*(points[:, None] - points[None]).transpose(2, 0, 1))
    close = np.tril(distance < least, k=-1)
    keep = np.ones(len(points), bool)
    for i in range(len(points)):
        keep[i] = not (close[i] & keep).any()
    return points[keep]
