"""Plain images, held in memory whole."""

import struct
import warnings
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from aspirate.core.errors import UnreadableSlide
from aspirate.core.geometry import Size
from aspirate.core.progress import Advance, silent
from aspirate.slides.sampling import WHITE, SampledSlide
from aspirate.slides.slide import DamagedTile, RgbArray

FORMATS = {".png": "PNG", ".jpg": "JPEG", ".jpeg": "JPEG", ".bmp": "BMP", ".webp": "WEBP"}
"""By suffix, and no TIFF: what is left of a damaged slide can look like a plain image, and the file that
stands for a MIRAX slide is one."""
LARGEST_PX = 2**26
"""67 million, e.g. 8192 × 8192: more belongs into a tiled file."""
EIGHT_BIT_MODES = frozenset({"1", "L", "LA", "P", "PA", "RGB", "RGBA", "RGBX", "CMYK", "YCbCr"})


class ImageSlide(SampledSlide):
    reader = "image"

    def __init__(self, path: Path, name: str, mpp: float | None) -> None:
        self._pixels = _read_whole(path, name)
        height, width = self._pixels.shape[:2]
        super().__init__(path, name, "image", [Size(width, height)], mpp, {})

    def close(self) -> None:
        """Nothing is open; the pixels go with the object."""

    def _fill(self, level: int, xy_px: NDArray[np.int64], out: RgbArray) -> None:
        out[...] = WHITE
        height, width = out.shape[1:3]
        for patch, (x, y) in zip(out, xy_px.tolist(), strict=True):
            left, top = max(x, 0), max(y, 0)
            seen = self._pixels[top : max(y + height, 0), left : max(x + width, 0)]
            patch[top - y : top - y + seen.shape[0], left - x : left - x + seen.shape[1]] = seen

    @property
    def verify_steps(self) -> int:
        return 1

    def damaged(self, advance: Advance = silent) -> list[DamagedTile]:
        """None: an image that did not decode whole was refused when it was opened."""
        advance(1)
        return []


def is_plain_image(path: Path) -> bool:
    return path.suffix.lower() in FORMATS


def _read_whole(path: Path, name: str) -> RgbArray:
    try:
        with warnings.catch_warnings():
            # Our own limit is the stricter one.
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            with Image.open(path, formats=[FORMATS[path.suffix.lower()]]) as image:
                _check(image, name)
                return np.asarray(_on_white(image))
    except Image.DecompressionBombError as exc:
        raise UnreadableSlide(_too_large(name)) from exc
    except (OSError, SyntaxError, ValueError, TypeError, KeyError, EOFError, struct.error) as exc:
        raise UnreadableSlide(
            f"{name}: not an image, or a damaged one ({exc}); check the path, or copy the file again"
        ) from exc


def _check(image: Image.Image, name: str) -> None:
    if image.width * image.height > LARGEST_PX:
        raise UnreadableSlide(_too_large(name))
    if image.mode not in EIGHT_BIT_MODES:
        raise UnreadableSlide(f"{name}: pixels of kind {image.mode}; convert the image to 8 bits a channel")


def _too_large(name: str) -> str:
    return f"{name}: a plain image of more than {LARGEST_PX} pixels; convert it to a tiled, pyramidal TIFF"


def _on_white(image: Image.Image) -> Image.Image:
    if not image.has_transparency_data:
        return image.convert("RGB")
    seen = image.convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", seen.size, "white"), seen).convert("RGB")
