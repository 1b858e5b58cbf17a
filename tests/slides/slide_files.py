"""Small slides of every variety, made from known pixels."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import imagecodecs
import numpy as np
import simplejpeg
import tifffile
from numpy.typing import NDArray
from PIL import Image

Pixels = NDArray[np.uint8]
APERIO = "Aperio Image Library v12.0.15\r\n{w}x{h} [0,0 {w}x{h}] ({t}x{t}) JPEG/RGB Q=85|AppMag = 40|MPP = 0.2501"


def picture(width: int, height: int, seed: int = 0) -> Pixels:
    """Smooth, colourful, no two places alike."""
    rng = np.random.default_rng(seed)
    coarse = rng.integers(0, 256, (height // 24 + 3, width // 24 + 3, 3), np.uint8)
    smooth = Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC)
    return np.clip(np.asarray(smooth) + rng.normal(0, 4, (height, width, 3)), 0, 255).astype(np.uint8)


def halved(pixels: Pixels) -> Pixels:
    height, width = pixels.shape[:2]
    return np.asarray(Image.fromarray(pixels).resize((width // 2, height // 2), Image.Resampling.BOX))


def segments(stream: bytes) -> Iterator[tuple[int, bytes]]:
    """Marker code and whole bytes of each part of a JPEG stream; the last one is all from SOS on."""
    at = 2
    while stream[at + 1] != 0xDA:
        end = at + 2 + int.from_bytes(stream[at + 2 : at + 4], "big")
        yield stream[at + 1], stream[at:end]
        at = end
    yield 0xDA, stream[at:]


def ycbcr(subsampling: str) -> Callable[[Pixels], bytes]:
    return lambda tile: simplejpeg.encode_jpeg(tile, 85, colorsubsampling=subsampling)


_YCBCR_420 = ycbcr("420")


def rgb_unmarked(tile: Pixels) -> bytes:
    """RGB without Adobe's marker and with components numbered 1, 2, 3: only the TIFF says that it is RGB."""
    stream = bytes(imagecodecs.jpeg8_encode(tile, level=85, colorspace="rgb", outcolorspace="rgb"))
    parts = [b"\xff\xd8"]
    for code, part in segments(stream):
        if code == 0xC0:
            part = part[:10] + bytes(b for k in range(3) for b in (k + 1, *part[11 + 3 * k : 13 + 3 * k])) + part[19:]
        if code == 0xDA:
            part = part[:5] + bytes(b for k in range(3) for b in (k + 1, part[6 + 2 * k])) + part[11:]
        if not 0xE0 <= code <= 0xEF:
            parts.append(part)
    return b"".join(parts)


def rgb_with_jfif(tile: Pixels) -> bytes:
    """RGB behind a JFIF marker, which says YCbCr: the TIFF knows better."""
    jfif = b"\xff\xe0\x00\x10JFIF\x00\x01\x01\x00\x00\x01\x00\x01\x00\x00"
    stream = rgb_unmarked(tile)
    return stream[:2] + jfif + stream[2:]


def abbreviated(encode: Callable[[Pixels], bytes]) -> tuple[Callable[[Pixels], bytes], bytes]:
    """The same encoder without its tables, and the tables."""

    def split(tile: Pixels) -> tuple[bytes, bytes]:
        parts = list(segments(encode(tile)))
        tables = b"".join(part for code, part in parts if code in (0xDB, 0xC4))
        rest = b"".join(part for code, part in parts if code not in (0xDB, 0xC4))
        return b"\xff\xd8" + rest, b"\xff\xd8" + tables + b"\xff\xd9"

    return lambda tile: split(tile)[0], split(picture(16, 16))[1]


@dataclass(frozen=True)
class Variety:
    encode: Callable[[Pixels], bytes] = _YCBCR_420
    tables: bytes | None = None
    rgb: bool = False
    tile: tuple[int, int] = (256, 256)  # height, width
    levels: int = 3
    bigtiff: bool = False
    subifds: bool = False
    aperio: bool = False
    resolution: tuple[float, str] | None = None  # pixels per unit, unit
    description: str | None = None


def _tiles(pixels: Pixels, variety: Variety) -> Iterator[bytes]:
    tall, wide = variety.tile
    for y in range(0, pixels.shape[0], tall):
        for x in range(0, pixels.shape[1], wide):
            cut = pixels[y : y + tall, x : x + wide]
            padding = ((0, tall - cut.shape[0]), (0, wide - cut.shape[1]), (0, 0))
            yield variety.encode(np.ascontiguousarray(np.pad(cut, padding, mode="edge")))


def write_slide(path: Path, pixels: Pixels, variety: Variety) -> Path:
    height, width = pixels.shape[:2]
    with tifffile.TiffWriter(path, bigtiff=variety.bigtiff, ome=False) as file:
        for level in range(variety.levels):
            description = variety.description if level == 0 else None
            if variety.aperio and level == 0:
                description = APERIO.format(w=width, h=height, t=variety.tile[0])
            if variety.aperio and level == 1:  # OpenSlide takes the second page for the thumbnail
                file.write(halved(halved(pixels)), metadata=None, photometric="rgb", rowsperstrip=16)
            file.write(
                _tiles(pixels, variety),
                shape=pixels.shape,
                dtype=np.uint8,
                tile=variety.tile,
                compression="jpeg",
                photometric="rgb" if variety.rgb else "ycbcr",
                compressionargs={"outcolorspace": "rgb"} if variety.rgb else {},
                jpegtables=variety.tables,
                subfiletype=int(level > 0 and not variety.aperio),
                subifds=variety.levels - 1 if variety.subifds and level == 0 else None,
                description=description,
                metadata=None,
                resolution=(variety.resolution[0],) * 2 if variety.resolution else None,
                resolutionunit=variety.resolution[1] if variety.resolution else None,
                software=False,
            )
            if level + 1 < variety.levels:
                pixels = halved(pixels)
    return path


_SHORT, _TABLES = abbreviated(_YCBCR_420)
_SHORT_RGB, _RGB_TABLES = abbreviated(rgb_unmarked)
VARIETIES = {
    "ycbcr 4:2:0": Variety(),
    "ycbcr 4:2:2": Variety(ycbcr("422")),
    "ycbcr 4:4:4": Variety(ycbcr("444")),
    "ycbcr 4:4:0": Variety(ycbcr("440")),
    "rgb, not marked": Variety(rgb_unmarked, rgb=True),
    "rgb behind jfif": Variety(rgb_with_jfif, rgb=True),
    "abbreviated": Variety(_SHORT, _TABLES),
    "abbreviated rgb": Variety(_SHORT_RGB, _RGB_TABLES, rgb=True),
    "bigtiff": Variety(bigtiff=True),
    "tiles of 240": Variety(tile=(240, 240)),
    "tiles of 128 x 512": Variety(tile=(128, 512)),
    "tiles of 1024": Variety(tile=(1024, 1024)),
    "one level": Variety(levels=1),
    "aperio": Variety(_SHORT, _TABLES, aperio=True),
    "aperio rgb, tiles of 240": Variety(rgb_unmarked, rgb=True, tile=(240, 240), aperio=True),
    "subifds": Variety(subifds=True, bigtiff=True),
}


def corner_sum(path: Path) -> int:
    """For other processes: opens a slide by itself and reads of it."""
    from aspirate.slides.reader import open_slide

    with open_slide(path) as slide:
        return int(slide.read_squares([[40, 40]], 300, 300).sum())
