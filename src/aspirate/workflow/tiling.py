"""Tiles of a slide, with what annotations say of them."""

from aspirate.core.geometry import TileGrid, checked_mpp
from aspirate.core.records import SlideEntry
from aspirate.core.tile_file import TileTable
from aspirate.slides.annotations import AnnotationIndex
from aspirate.slides.reader import open_slide
from aspirate.slides.tile_labels import label_tiles


def tile_slide(entry: SlideEntry, annotations: AnnotationIndex) -> TileTable:
    """The grid over a slide, with `informative` and `abnormality` where someone annotated it."""
    with open_slide(entry.path, mpp=entry.mpp, name=entry.slide_id) as slide:
        grid = TileGrid.cover(slide.size_px0, checked_mpp(slide.mpp, slide.name))
        labels = label_tiles(grid, annotations.read(entry.slide_id, slide.bounds_px0))
    values = {"informative": labels.informative, "abnormality": labels.abnormality}
    return TileTable.of_grid(entry.slide_id, grid, values)
