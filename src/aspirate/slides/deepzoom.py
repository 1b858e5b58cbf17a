"""What serving tiles is measured against: OpenSlide's own deep-zoom generator, as its example server uses it."""

from io import BytesIO
from pathlib import Path

import openslide
from openslide.deepzoom import DeepZoomGenerator


class DeepZoomYardstick:
    def __init__(self, path: Path, tile_px: int, quality: int) -> None:
        self._generator = DeepZoomGenerator(openslide.OpenSlide(path), tile_size=tile_px, overlap=0)
        self._quality = quality

    def tile(self, level: int, column: int, row: int) -> bytes:
        buffer = BytesIO()
        self._generator.get_tile(level, (column, row)).save(buffer, "JPEG", quality=self._quality)
        return buffer.getvalue()
