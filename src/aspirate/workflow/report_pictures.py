"""Pictures for a report, read from slides: where the model looked, and the tiles it found most informative."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from aspirate.core.errors import AspirateError
from aspirate.core.labels import TRAINABLE_BETHESDA
from aspirate.core.predictions import Prediction
from aspirate.core.records import SlideEntry
from aspirate.core.store import TILE_FOLDER
from aspirate.core.tile_file import TileTable, read_tiles
from aspirate.evaluation.method_results import usable
from aspirate.slides.reader import open_slide
from aspirate.workflow.heat_map import overlay, value_image

OVERVIEW_PX = 640
TILE_PX = 128
TILES = 12
"""Of each TBS category."""
NAMED = 5
"""Of slides that cannot be read, so many by name."""
TILES_PER_SLIDE = 3
"""So that no slide fills the gallery of its category alone."""


@dataclass(frozen=True, slots=True)
class HeatMap:
    slide_id: str
    caption: str
    overview: bytes
    """JPEG, as the map."""
    map: bytes


@dataclass(frozen=True, slots=True)
class GalleryTile:
    slide_id: str
    caption: str
    jpeg: bytes


@dataclass(frozen=True, slots=True)
class Pictures:
    heat_maps: tuple[HeatMap, ...] = ()
    gallery: Mapping[int, tuple[GalleryTile, ...]] = field(default_factory=dict)
    """By reported TBS."""
    notes: tuple[str, ...] = ()
    """What could not be shown."""


def fold_tiles(run: Path, row: Prediction) -> TileTable | None:
    """What a fold of a run said of the tiles of one of its test slides; None where it was not kept whole."""
    try:
        tiles = read_tiles(run / f"fold-{row.fold}" / TILE_FOLDER / f"{row.slide_id}.h5")
    except AspirateError:
        return None
    return tiles if "informativeness" in tiles.values else None


def collect_pictures(run: Path, rows: Sequence[Prediction], entries: Mapping[str, SlideEntry]) -> Pictures:
    """Of the test slides of one method in a run's folder."""
    shown = [row for row in usable(rows) if row.slide_id in entries]
    maps: list[HeatMap] = []
    unreadable: set[str] = set()
    for caption, row in telling_slides(shown).items():
        tiles = fold_tiles(run, row)
        if tiles is not None:
            try:
                maps.append(_heat_map(tiles, row, entries[row.slide_id], caption))
            except AspirateError:
                unreadable.add(row.slide_id)
    gallery: dict[int, tuple[GalleryTile, ...]] = {}
    for category in TRAINABLE_BETHESDA:
        own = [row for row in shown if row.bethesda == category]
        found: list[GalleryTile] = []
        for place in most_informative(run, own):
            try:
                found.append(_gallery_tile(place, entries[place.row.slide_id]))
            except AspirateError:
                unreadable.add(place.row.slide_id)
        if found:
            gallery[category] = tuple(found)
    return Pictures(tuple(maps), gallery, _note(sorted(unreadable)))


def _note(unreadable: Sequence[str]) -> tuple[str, ...]:
    if not unreadable:
        return ()
    named = ", ".join(unreadable[:NAMED]) + (" …" if len(unreadable) > NAMED else "")
    return (f"pictures of slides that cannot be read ({len(unreadable)}: {named}); aspirate doctor says why",)


def telling_slides(rows: Sequence[Prediction]) -> dict[str, Prediction]:
    """By what they show: the clearest of each kind, and the gravest error of each, if any."""
    chosen: dict[str, Prediction] = {}
    for kind, name, other in ((False, "benign", "malignant"), (True, "malignant", "benign")):
        own = sorted((row for row in rows if row.malignant is kind), key=_said, reverse=kind)
        if own and own[0].predicted_malignant is not (not kind):
            chosen[f"{name}, and clearly so"] = own[0]
        if own and own[-1].predicted_malignant is (not kind):
            chosen[f"{name}, but called {other}"] = own[-1]
    return chosen


def _said(row: Prediction) -> float:
    return row.probability if row.probability is not None else row.score or 0.0


def _heat_map(tiles: TileTable, row: Prediction, entry: SlideEntry, caption: str) -> HeatMap:
    with open_slide(entry.path, mpp=entry.mpp, name=entry.slide_id) as slide:
        overview = slide.thumbnail(OVERVIEW_PX)
        values = value_image(tiles, tiles.values["informativeness"], slide.size_px0, overview.shape[:2])
    parts = [caption] + ([f"probability {row.probability:.2f}"] if row.probability is not None else [])
    parts += [f"reported as TBS {row.bethesda}"] if row.bethesda is not None else []
    return HeatMap(row.slide_id, "; ".join(parts), jpeg(overview), jpeg(overlay(overview, values)))


@dataclass(frozen=True, slots=True)
class Place:
    """A tile to show."""

    row: Prediction
    informativeness: float
    corner_px0: tuple[int, int]
    side_px0: int


def most_informative(run: Path, rows: Sequence[Prediction]) -> list[Place]:
    """The highest of all these slides, a few of each; the first is the highest."""
    found: list[Place] = []
    for row in rows:
        tiles = fold_tiles(run, row)
        if tiles is not None:
            values = tiles.values["informativeness"]
            for i in np.argsort(-values, kind="stable")[:TILES_PER_SLIDE]:
                x, y = tiles.corners_px0[i].tolist()
                found.append(Place(row, float(values[i]), (x, y), tiles.side_px0))
    return sorted(found, key=lambda place: (-place.informativeness, place.row.slide_id))[:TILES]


def _gallery_tile(place: Place, entry: SlideEntry) -> GalleryTile:
    with open_slide(entry.path, mpp=entry.mpp, name=entry.slide_id) as slide:
        pixels = slide.read_squares([place.corner_px0], place.side_px0, TILE_PX)[0]
    kind = "malignant" if place.row.malignant else "benign"
    caption = f"{entry.slide_id}, {kind}, informativeness {place.informativeness:.2f}"
    return GalleryTile(entry.slide_id, caption, jpeg(pixels))


def jpeg(picture: NDArray[np.uint8]) -> bytes:
    buffer = BytesIO()
    Image.fromarray(picture).save(buffer, "JPEG", quality=85)
    return buffer.getvalue()
