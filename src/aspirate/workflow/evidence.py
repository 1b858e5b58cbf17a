"""What a model saw on one slide, as files for a person: heat map, tiles for QuPath, sheet of its top tiles."""

from dataclasses import dataclass
from pathlib import Path

import shapely

from aspirate.core.records import Annotation
from aspirate.core.store import atomic_path, write_text
from aspirate.core.tile_file import TileTable
from aspirate.slides.geojson import write_geojson
from aspirate.slides.slide import Slide
from aspirate.workflow.bundle import Bundle
from aspirate.workflow.heat_map import Legend, draw_heat_map, heat_map_px, looked_at
from aspirate.workflow.predict import SlideResult
from aspirate.workflow.sheet import jpeg, ranked, sheet, shrunk

THUMBNAIL_PX = 240
PNG_EFFORT = 3
"""Half the time of the usual 6, a twentieth more bytes."""
MEASUREMENTS = ("informativeness", "malignancy")


@dataclass(frozen=True, slots=True)
class EvidencePaths:
    """Where the evidence of one slide goes."""

    heat_map: Path
    geojson: Path
    thumbnail: Path
    sheet: Path


def write_evidence(
    slide: Slide, result: SlideResult, bundle: Bundle, model_sha256: str, paths: EvidencePaths, most_tiles: int
) -> None:
    """Everything of one slide but its scores; at most `most_tiles` tiles are shown on its sheet."""
    tiles = result.tiles
    overview = slide.thumbnail(heat_map_px(tiles.side_px0, slide.size_px0))
    confident = result.prediction.informative_tiles or 0
    legend = Legend(bundle.confident, confident, len(tiles), tiles.slide_mpp, int(looked_at(tiles).sum()))
    with atomic_path(paths.heat_map) as part:
        draw_heat_map(overview, tiles, slide.size_px0, legend).save(part, "PNG", compress_level=PNG_EFFORT)
    write_geojson(paths.geojson, tile_annotations(tiles), slide.bounds_px0, "tile")
    with atomic_path(paths.thumbnail) as part:
        part.write_bytes(jpeg(shrunk(overview, THUMBNAIL_PX)))
    write_text(paths.sheet, sheet(slide, result, bundle, model_sha256, overview, most_tiles))


def tile_annotations(tiles: TileTable) -> list[Annotation]:
    """Kept tiles with both scores as measurements, most informative first."""
    found = []
    for i in ranked(tiles):
        x, y = tiles.corners_px0[i].tolist()
        square = shapely.box(x, y, x + tiles.side_px0, y + tiles.side_px0)
        found.append(Annotation(square, None, {name: float(tiles.values[name][i]) for name in MEASUREMENTS}))
    return found
