"""Tiles and tile labels of every slide of a cohort, as files."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from aspirate.core.errors import AspirateError
from aspirate.core.geometry import TileGrid, checked_mpp
from aspirate.core.records import SlideEntry
from aspirate.core.store import TILE_FOLDER
from aspirate.core.tile_file import TileTable, write_tiles
from aspirate.slides.annotations import AnnotationIndex
from aspirate.slides.cohort import Cohort
from aspirate.slides.reader import open_slide
from aspirate.slides.tile_labels import label_tiles


@dataclass(frozen=True, slots=True)
class TiledSlide:
    """A slide's tiles, or why it has none."""

    entry: SlideEntry
    tiles: TileTable | None
    error: str | None = None


def tile_slide(entry: SlideEntry, annotations: AnnotationIndex) -> TileTable:
    """The grid over a slide, with `informative` and `abnormality` where someone annotated it."""
    with open_slide(entry.path, mpp=entry.mpp, name=entry.slide_id) as slide:
        grid = TileGrid.cover(slide.size_px0, checked_mpp(slide.mpp, slide.name))
        labels = label_tiles(grid, annotations.read(entry.slide_id, slide.bounds_px0))
    values = {"informative": labels.informative, "abnormality": labels.abnormality}
    return TileTable.of_grid(entry.slide_id, grid, values)


def tile_cohort(cohort: Cohort, out: Path) -> Iterator[TiledSlide]:
    """Each slide in turn, its tiles written to OUT/tiles; a slide that fails does not stop the others."""
    annotations = AnnotationIndex.of(cohort.folder)
    for entry in cohort.entries:
        try:
            tiles = tile_slide(entry, annotations)
        except AspirateError as error:
            yield TiledSlide(entry, None, str(error))
        else:
            write_tiles(out / TILE_FOLDER / f"{entry.slide_id}.h5", tiles)
            yield TiledSlide(entry, tiles)
