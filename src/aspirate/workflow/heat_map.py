"""Informativeness over the slide's thumbnail: the slide as in dark field, tiles that matter light up in it.

Glass is black and whatever is stained is grey, so that a few small tiles among fifty thousand are seen at once. A
tile of informativeness 0 leaves the slide as it is; from there on its colour comes from a table whose lightness rises
evenly, laid over the slide the more opaquely the higher it is, with stained places darker within it. Every pixel takes
the colour of the one tile that holds its centre: tile edges are exact, neighbours neither overlap nor leave a gap.
Where a scout guessed and r_φ did not look, colours are fainter, and the legend says so.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from aspirate.core.geometry import Size, px0_of_um
from aspirate.core.tile_file import TileTable
from aspirate.slides.slide import RgbArray

SMALLEST_PX, LARGEST_PX = 1200, 2400
TILE_PX = 6
"""Pixels across a tile that a heat map has where its size allows."""
DARKEST, LIGHTEST = 14, 165
"""Grey levels of glass, and of what is stained most."""
GREYS = 32
"""So few, because the noise of glass is no information and costs megabytes in a PNG."""
OPAQUE_FROM = 0.5
"""Informativeness from which a tile hides the grey beneath; below, the more faintly the nearer to 0."""
GUESSED = 0.5
"""Opacity of what the scout guessed, relative to what was looked at closely."""
SHADE = 0.35
"""How much darker a tile's colour is where the slide is stained most."""
LEGEND_PX, LINE_PX = 64, 20

_STOPS: tuple[tuple[float, tuple[int, int, int]], ...] = (
    (0.0, (20, 14, 60)),
    (0.2, (72, 22, 118)),
    (0.4, (148, 38, 122)),
    (0.6, (222, 72, 92)),
    (0.8, (252, 146, 72)),
    (1.0, (253, 236, 150)),
)


def colours(values: NDArray[np.floating]) -> RgbArray:
    """0 … 1 as colours, (…, 3): dark violet, magenta, orange, pale yellow."""
    at = [stop for stop, _ in _STOPS]
    channels = [np.interp(values, at, [rgb[channel] for _, rgb in _STOPS]) for channel in range(3)]
    return np.round(np.stack(channels, axis=-1)).astype(np.uint8)


def css_colours(steps: int = 11) -> list[str]:
    """The table in even steps, for a gradient of a page."""
    return [f"rgb({r}, {g}, {b})" for r, g, b in colours(np.linspace(0, 1, steps)).tolist()]


def heat_map_px(side_px0: int, size_px0: Size) -> int:
    """The longer side that gives a tile `TILE_PX` pixels, within limits."""
    across = max(size_px0.width, size_px0.height) / side_px0
    return int(np.clip(round(across * TILE_PX), SMALLEST_PX, LARGEST_PX))


def value_image(
    tiles: TileTable, values: NDArray[np.floating], size_px0: Size, shape: tuple[int, int]
) -> NDArray[np.float64]:
    """Of every pixel of a thumbnail (height, width), the value of the tile that holds its centre; 0 where none does."""
    columns, rows = (tiles.corners_px0 // tiles.side_px0).T
    grid = np.zeros((rows.max(initial=0) + 1, columns.max(initial=0) + 1))
    grid[rows, columns] = values
    y, x = (
        np.floor((np.arange(pixels) + 0.5) * length_px0 / pixels / tiles.side_px0).astype(np.int64)
        for pixels, length_px0 in zip(shape, (size_px0.height, size_px0.width), strict=True)
    )
    inside = (y < grid.shape[0])[:, None] & (x < grid.shape[1])[None, :]
    return np.where(inside, grid[np.minimum(y, grid.shape[0] - 1)][:, np.minimum(x, grid.shape[1] - 1)], 0.0)


def looked_at(tiles: TileTable) -> NDArray[np.bool_]:
    """Tiles that r_φ scored itself; all, where the file does not say."""
    exact: NDArray[np.bool_] = tiles.values.get("exact", np.ones(len(tiles), bool))
    return exact


def heat_over(thumbnail: RgbArray, tiles: TileTable, size_px0: Size) -> RgbArray:
    """Informativeness over the slide."""
    shape = thumbnail.shape[:2]
    heat = value_image(tiles, tiles.values["informativeness"], size_px0, shape)
    strength = value_image(tiles, np.where(looked_at(tiles), 1.0, GUESSED), size_px0, shape)
    return overlay(thumbnail, heat, strength)


def overlay(thumbnail: RgbArray, heat: NDArray[np.floating], strength: NDArray[np.floating] | float = 1.0) -> RgbArray:
    """The slide as in dark field with colours laid over it; all have the same height and width."""
    light = np.asarray(Image.fromarray(thumbnail).convert("L"), np.float64) / 255
    glass = max(float(np.percentile(light, 90)), 0.5)
    stain = np.round(np.clip(1 - light / glass, 0, 1) * (GREYS - 1))[..., None] / (GREYS - 1)
    slide = DARKEST + stain**0.8 * (LIGHTEST - DARKEST)
    colour = colours(heat) * (1 - SHADE * stain)
    opacity = (np.clip(heat / OPAQUE_FROM, 0, 1) * strength)[..., None]
    drawn: RgbArray = np.round(slide * (1 - opacity) + colour * opacity).astype(np.uint8)
    return drawn


@dataclass(frozen=True, slots=True)
class Legend:
    """What is written beneath a heat map."""

    confident: float
    confident_tiles: int
    tiles: int
    slide_mpp: float | None
    looked_at: int
    """Tiles that r_φ scored itself; a scout guessed at the others."""

    @property
    def lines(self) -> tuple[str, ...]:
        share = self.confident_tiles / max(self.tiles, 1)
        usual = (
            f"informativeness; the mark is at {self.confident:.2f}, confident from there on",
            f"{self.confident_tiles:,} of {self.tiles:,} tiles confident ({share:.2%})",
        )
        if self.looked_at == self.tiles:
            return usual
        return (*usual, f"{self.looked_at:,} tiles looked at closely; fainter: the scout's guess")


def draw_heat_map(thumbnail: RgbArray, tiles: TileTable, size_px0: Size, legend: Legend) -> Image.Image:
    """Slide and colours, and beneath them the scale in numbers."""
    return with_legend(heat_over(thumbnail, tiles, size_px0), size_px0, legend)


def with_legend(picture: RgbArray, size_px0: Size, legend: Legend) -> Image.Image:
    height, width = picture.shape[:2]
    page = Image.new("RGB", (max(width, 560), height + LEGEND_PX), (DARKEST, DARKEST, DARKEST))
    page.paste(Image.fromarray(picture), (0, 0))
    draw = ImageDraw.Draw(page)
    font = ImageFont.load_default(size=15)
    left, top, wide, tall, ink = 16, height + 12, 220, 14, (225, 225, 230)
    bar = colours(np.linspace(0, 1, wide))[None].repeat(tall, axis=0)
    page.paste(Image.fromarray(bar), (left, top))
    for value in (0.0, 0.25, 0.5, 0.75, 1.0):
        x = left + value * (wide - 1)
        draw.line((x, top + tall, x, top + tall + 4), ink)
        draw.text((x, top + tall + 6), f"{value:g}", ink, font, anchor="mt")
    x = left + legend.confident * (wide - 1)
    draw.polygon([(x - 5, top - 8), (x + 5, top - 8), (x, top - 1)], (255, 255, 255))
    first = top - 2 if len(legend.lines) < 3 else top - 10
    for number, line in enumerate(legend.lines):
        draw.text((left + wide + 20, first + number * LINE_PX), line, ink, font)
    if legend.slide_mpp is not None:
        _scale_bar(draw, page.size, width / size_px0.width, legend.slide_mpp, font)
    return page


def _scale_bar(
    draw: ImageDraw.ImageDraw,
    size: tuple[int, int],
    px_per_px0: float,
    slide_mpp: float,
    font: ImageFont.FreeTypeFont | ImageFont.ImageFont,
) -> None:
    """The longest round length that takes at most a sixth of the width; left out where it meets the words."""
    lengths_um = [digit * 10**power for power in range(6) for digit in (1, 2, 5)]
    drawn = [(um, px0_of_um(um, slide_mpp) * px_per_px0) for um in lengths_um]
    fitting = [(um, px) for um, px in drawn if px <= size[0] / 6]
    if not fitting or size[0] < 800:
        return
    um, px = fitting[-1]
    right, y = size[0] - 20, size[1] - LEGEND_PX + 19
    draw.line((right - px, y, right, y), (255, 255, 255), 3)
    draw.text((right - px / 2, y + 8), f"{um / 1000:g} mm", (225, 225, 230), font, anchor="mt")
