"""Where each kind of file enters the program: a path in, a digest of all that was read out."""

import hashlib
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from aspirate.core.tile_file import read_tiles
from aspirate.slides.annotations import parse_annotation_table
from aspirate.slides.aperio_xml import read_aperio_xml
from aspirate.slides.cohort import Cohort
from aspirate.slides.geojson import read_geojson
from aspirate.slides.reader import open_slide

PROBE_PX = 256


class Door(Protocol):
    def __call__(self, path: Path, /) -> str: ...


def digest(*parts: Any) -> str:
    found = hashlib.sha256()
    for part in parts:
        found.update(part.tobytes() if isinstance(part, np.ndarray) else repr(part).encode(errors="surrogatepass"))
    return found.hexdigest()[:16]


def slide(path: Path) -> str:
    """All that a prediction does: open, an overview, tiles; and what the doctor does when told to look closely."""
    with open_slide(path, threads=1) as opened:
        overview = opened.thumbnail(PROBE_PX)
        corners = [
            [x * opened.size_px0.width // 3, y * opened.size_px0.height // 3] for x in range(3) for y in range(3)
        ]
        tiles = opened.read_squares(corners, 128, 128)
        damaged = opened.damaged()
        return digest(opened.level_sizes, opened.mpp, damaged, overview, tiles)


def geojson(path: Path) -> str:
    return digest(read_geojson(path))


def xml(path: Path) -> str:
    return digest(read_aperio_xml(path))


def cohort(path: Path) -> str:
    return digest([(entry.slide_id, entry.malignant, entry.bethesda, entry.mpp) for entry in Cohort.read(path).entries])


def annotations(path: Path) -> str:
    found, problems = parse_annotation_table(path)
    return digest(sorted(found.items()), problems)


def tiles(path: Path) -> str:
    table = read_tiles(path)
    values = [part for name in sorted(table.values) for part in (name, table.values[name])]
    return digest(table.slide_id, table.side_px0, table.side_px, table.slide_mpp, table.corners_px0, *values)


DOORS = {
    "slide": f"{__name__}:slide",
    "geojson": f"{__name__}:geojson",
    "xml": f"{__name__}:xml",
    "cohort": f"{__name__}:cohort",
    "annotations": f"{__name__}:annotations",
    "tiles": f"{__name__}:tiles",
    "recipe": "benchmarks.hostile.torch_doors:recipe",
    "bundle": "benchmarks.hostile.torch_doors:bundle",
}


def door(name: str) -> Door:
    """Imported when first asked for: only some need torch."""
    module, _, function = DOORS[name].partition(":")
    found: Door = getattr(import_module(module), function)
    return found
