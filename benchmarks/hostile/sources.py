"""Sound files of every kind the program reads, small, and the same each time: what mutations start from."""

import io
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import shapely
import simplejpeg
import tifffile
from benchmarks.hostile.dicom import dicom
from numpy.typing import NDArray
from PIL import Image

from aspirate.core.geometry import Size, TileGrid
from aspirate.core.labels import Abnormality
from aspirate.core.records import Annotation
from aspirate.core.tile_file import TileTable, write_tiles
from aspirate.slides.geojson import write_geojson
from aspirate.synth.tiff import Page, TiffWriter
from aspirate.synth.writer import halved

Pixels = NDArray[np.uint8]
WIDTH, HEIGHT, TILE_PX = 448, 320, 64


@dataclass(frozen=True, slots=True)
class Source:
    """Files as they should be, one of which is mutated, and the door that is given `entry`."""

    name: str
    format: str
    door: str
    files: dict[str, bytes]
    target: str
    entry: str


def picture() -> Pixels:
    """Smooth and colourful, no two places alike."""
    rng = np.random.default_rng(0)
    coarse = Image.fromarray(rng.integers(0, 256, (12, 16, 3), np.uint8))
    return np.asarray(coarse.resize((WIDTH, HEIGHT), Image.Resampling.BICUBIC))


def _jpeg(pixels: Pixels) -> bytes:
    return bytes(simplejpeg.encode_jpeg(np.ascontiguousarray(pixels), 85, "RGB", "420"))


def _tiles(pixels: Pixels) -> list[bytes]:
    height, width = pixels.shape[:2]
    padded = np.pad(pixels, ((0, -height % TILE_PX), (0, -width % TILE_PX), (0, 0)), mode="edge")
    places = [(y, x) for y in range(0, height, TILE_PX) for x in range(0, width, TILE_PX)]
    return [_jpeg(padded[y : y + TILE_PX, x : x + TILE_PX]) for y, x in places]


def _pyramid(big: bool = False, aperio: bool = False) -> bytes:
    file, pixels = io.BytesIO(), picture()
    writer = TiffWriter(file, big)
    for level in range(3):
        height, width = pixels.shape[:2]
        text = f"Aperio Image Library v12.0.0\r\n{WIDTH}x{HEIGHT} [0,0 {WIDTH}x{HEIGHT}] (64x64) JPEG/RGB Q=85"
        text += "|AppMag = 40|MPP = 0.25" if level == 0 else f" -> {width}x{height}"
        about = text if aperio else None
        page = Page(width, height, TILE_PX, 2, 40_000 / 2**level, level > 0 and not aperio, about)
        writer.write(page, _tiles(pixels))
        if aperio and level == 0:
            small = halved(halved(pixels))
            writer.write(Page(small.shape[1], small.shape[0], None, 2, description=text), [_jpeg(small)])
        pixels = halved(pixels)
    return file.getvalue()


def _deflated() -> bytes:
    file = io.BytesIO()
    tifffile.imwrite(
        file, picture(), tile=(TILE_PX, TILE_PX), compression="deflate", photometric="rgb", metadata=None,
        resolution=(40_000, 40_000), resolutionunit="CENTIMETER",
    )  # fmt: skip
    return file.getvalue()


def _ndpi() -> bytes:
    """As Hamamatsu's scanners do: each level one JPEG stream in one strip, known by tags of their own."""
    file = io.BytesIO()
    with tifffile.TiffWriter(file) as writer:
        for level in range(3):
            pixels = picture()[:: 2**level, :: 2**level]
            own = [(65420, "I", 1, 1, True), (65421, "f", 1, 20.0 / 2**level, True), (65424, "i", 1, 0, True)]
            writer.write(
                iter([_jpeg(pixels)]), shape=pixels.shape, dtype=np.uint8, rowsperstrip=pixels.shape[0],
                compression="jpeg", photometric="ycbcr", resolution=(40_000 / 2**level,) * 2,
                resolutionunit="CENTIMETER", extratags=own, metadata=None,
            )  # fmt: skip
    return file.getvalue()


def _image(kind: str) -> bytes:
    file = io.BytesIO()
    Image.fromarray(picture()).save(file, kind)
    return file.getvalue()


def _written(suffix: str, write: Callable[[Path], None]) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"sound{suffix}"
        write(path)
        return path.read_bytes()


def _geojson(path: Path) -> None:
    marks = [
        Annotation(shapely.Point(10.5, 20.25), Abnormality.MALIGNANT, {"malignancy": 0.75}),
        Annotation(shapely.box(100, 100, 228, 228), None),
        Annotation(shapely.Polygon([(0, 0), (90, 0), (90, 90)], [[(60, 20), (80, 20), (80, 40)]]), Abnormality.NORMAL),
    ]
    write_geojson(path, marks)


def _tile_file(path: Path) -> None:
    grid = TileGrid.cover(Size(WIDTH, HEIGHT), 0.25, side_px=16)
    ramp = np.linspace(0, 1, len(grid), dtype=np.float32)
    write_tiles(path, TileTable.of_grid("s1", grid, {"informativeness": ramp, "selected": ramp > 0.5}, "ab" * 32))


XML = """<?xml version="1.0" encoding="UTF-8"?>
<Annotations MicronsPerPixel="0.25"><Annotation Id="1" Name="malignant" Type="4"><Regions>
<Region Id="1" Type="0" Text="" NegativeROA="0"><Vertices><Vertex X="10" Y="10" Z="0"/><Vertex X="90" Y="10" Z="0"/>
<Vertex X="90" Y="90" Z="0"/></Vertices></Region>
<Region Id="2" Type="1" Text="atypical" NegativeROA="0"><Vertices><Vertex X="100" Y="100"/><Vertex X="200" Y="180"/>
</Vertices></Region></Regions></Annotation></Annotations>
"""
COHORT = """slide_id,path,patient_id,malignant,bethesda,mpp,site,fold,reader_ann
s1,slides/s1.svs,p1,1,6,0.25,a,0,5
"s2, again",slides/s2.svs,p2,0,2,0.25,b,1,
s3,slides/s3.svs,p2,,III,,b,2,3
"""
MARKS = """slide_id,x,y,width,height,abnormality
s1,10.5,20,,,malignant
s1,100,100,128,128,
s2,5,5,,,normal
"""
RECIPE = """side_px = 64
mpp = 0.5
seed = 3
precision = "fp32"

[informativeness]
epochs = 2
batch = 16

[malignancy]
labels = "YS"
epochs = 3

[selection]
tiles = 100
"""


def _single(name: str, kind: str, door: str, file: str, data: bytes) -> Source:
    return Source(name, kind, door, {file: data}, file, file)


def slides() -> list[Source]:
    files = {
        "tiff": ("slide.tiff", _pyramid()),
        "bigtiff": ("slide.tiff", _pyramid(big=True)),
        "svs": ("slide.svs", _pyramid(aperio=True)),
        "tiff-deflate": ("slide.tiff", _deflated()),
        "ndpi": ("slide.ndpi", _ndpi()),
        "dicom": ("slide.dcm", dicom(Size(WIDTH, HEIGHT), TILE_PX, _tiles(picture()), mpp=0.25)),
        "png": ("slide.png", _image("PNG")),
        "jpeg": ("slide.jpg", _image("JPEG")),
    }
    return [_single(kind, kind, "slide", name, data) for kind, (name, data) in files.items()]


def tables_and_annotations() -> list[Source]:
    return [
        _single("geojson", "geojson", "geojson", "s1.geojson", _written(".geojson", _geojson)),
        _single("xml", "xml", "xml", "s1.xml", XML.encode()),
        _single("csv-cohort", "csv", "cohort", "cohort.csv", COHORT.encode()),
        _single("csv-annotations", "csv", "annotations", "annotations.csv", MARKS.encode()),
        _single("toml", "toml", "recipe", "recipe.toml", RECIPE.encode()),
        _single("hdf5", "hdf5", "tiles", "s1.h5", _written(".h5", _tile_file)),
    ]


@cache
def _bundle_files() -> dict[str, bytes]:
    from benchmarks.hostile.small_bundle import bundle_files

    return bundle_files()


BUNDLE_TARGETS = {
    "malignancy.safetensors": "safetensors",
    "model.json": "json",
    "reference.npy": "npy",
}


def bundles() -> list[Source]:
    files = {f"model/{name}": data for name, data in _bundle_files().items()}
    return [Source(kind, kind, "bundle", files, f"model/{target}", "model") for target, kind in BUNDLE_TARGETS.items()]


SUFFIX_FORMATS = {".svs": "svs", ".tiff": "tiff", ".tif": "tiff", ".ndpi": "ndpi", ".dcm": "dicom"}
LARGEST_SAMPLE_BYTES = 8_000_000
"""A larger one would take most of the time of a run to copy and to read."""


def samples(folder: Path) -> list[Source]:
    """Real slides, used where they lie and never kept."""
    paths = sorted(path for path in folder.iterdir() if path.suffix.lower() in SUFFIX_FORMATS)
    return [
        _single(path.name, SUFFIX_FORMATS[path.suffix.lower()], "slide", f"slide{path.suffix}", path.read_bytes())
        for path in paths
        if path.stat().st_size <= LARGEST_SAMPLE_BYTES
    ]
