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


def tiles_path(run: Path, row: Prediction) -> Path:
    """Where a cross-validation keeps what a fold said of the tiles of a slide."""
    return run / f"fold-{row.fold}" / TILE_FOLDER / f"{row.slide_id}.h5"


def collect_pictures(run: Path, rows: Sequence[Prediction], entries: Mapping[str, SlideEntry]) -> Pictures:
    """Of the test slides of one method in a run's folder."""
    shown = [row for row in usable(rows) if row.slide_id in entries and tiles_path(run, row).exists()]
    maps: list[HeatMap] = []
    unreadable: set[str] = set()
    for caption, row in telling_slides(shown).items():
        try:
            maps.append(_heat_map(run, row, entries[row.slide_id], caption))
        except AspirateError:
            unreadable.add(row.slide_id)
    gallery: dict[int, tuple[GalleryTile, ...]] = {}
    for category in TRAINABLE_BETHESDA:
        own = [row for row in shown if row.bethesda == category]
        tiles: list[GalleryTile] = []
        for row, places in _most_informative(run, own).items():
            try:
                tiles += _tiles(read_tiles(tiles_path(run, row)), row, entries[row.slide_id], places)
            except AspirateError:
                unreadable.add(row.slide_id)
        if tiles:
            gallery[category] = tuple(tiles)
    return Pictures(tuple(maps), gallery, _note(sorted(unreadable)))


def _note(unreadable: Sequence[str]) -> tuple[str, ...]:
    if not unreadable:
        return ()
    named = ", ".join(unreadable[:NAMED]) + (" …" if len(unreadable) > NAMED else "")
    return (f"pictures of slides that cannot be read ({len(unreadable)}: {named}); aspirate doctor says why",)


def telling_slides(rows: Sequence[Prediction]) -> dict[str, Prediction]:
    """By what they show: the clearest of each kind, and the gravest error of each, if any."""
    chosen: dict[str, Prediction] = {}
    for kind, name in ((False, "benign"), (True, "malignant")):
        own = sorted((row for row in rows if row.malignant is kind), key=_said)
        if own:
            clearest, gravest = (own[-1], own[0]) if kind else (own[0], own[-1])
            chosen[f"{name}, and clearly so"] = clearest
            if gravest.predicted_malignant is not None and gravest.predicted_malignant is not kind:
                chosen[f"{name}, but called {'benign' if kind else 'malignant'}"] = gravest
    return chosen


def _said(row: Prediction) -> float:
    return row.probability if row.probability is not None else row.score or 0.0


def _heat_map(run: Path, row: Prediction, entry: SlideEntry, caption: str) -> HeatMap:
    tiles = read_tiles(tiles_path(run, row))
    with open_slide(entry.path, mpp=entry.mpp, name=entry.slide_id) as slide:
        overview = slide.thumbnail(OVERVIEW_PX)
        values = value_image(tiles, tiles.values["informativeness"], slide.size_px0, overview.shape[:2])
    parts = [caption] + ([f"probability {row.probability:.2f}"] if row.probability is not None else [])
    parts += [f"reported as TBS {row.bethesda}"] if row.bethesda is not None else []
    return HeatMap(row.slide_id, "; ".join(parts), jpeg(overview), jpeg(overlay(overview, values)))


def _most_informative(run: Path, rows: Sequence[Prediction]) -> dict[Prediction, NDArray[np.int64]]:
    """Places of the tiles to show, by slide; the slide with the most informative tile first."""
    found: list[tuple[float, str, int, Prediction]] = []
    for row in rows:
        values = read_tiles(tiles_path(run, row)).values["informativeness"]
        best = np.argsort(-values, kind="stable")[:TILES_PER_SLIDE]
        found += [(-float(values[i]), row.slide_id, int(i), row) for i in best]
    chosen: dict[Prediction, list[int]] = {}
    for _, _, place, row in sorted(found, key=lambda one: one[:3])[:TILES]:
        chosen.setdefault(row, []).append(place)
    return {row: np.array(places) for row, places in chosen.items()}


def _tiles(tiles: TileTable, row: Prediction, entry: SlideEntry, places: NDArray[np.int64]) -> list[GalleryTile]:
    with open_slide(entry.path, mpp=entry.mpp, name=entry.slide_id) as slide:
        pixels = slide.read_squares(tiles.corners_px0[places], tiles.side_px0, TILE_PX)
    kind = "malignant" if row.malignant else "benign"
    said = tiles.values["informativeness"][places]
    return [
        GalleryTile(row.slide_id, f"{row.slide_id}, {kind}, informativeness {value:.2f}", jpeg(picture))
        for value, picture in zip(said.tolist(), pixels, strict=True)
    ]


def jpeg(picture: NDArray[np.uint8]) -> bytes:
    buffer = BytesIO()
    Image.fromarray(picture).save(buffer, "JPEG", quality=85)
    return buffer.getvalue()
