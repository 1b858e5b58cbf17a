"""The sheet of a slide: its verdict, where the model looked, and the tiles it rests on, ranked.

One HTML file with no outside request and, whatever the slide, below `SHEET_BYTES`. Of an inadequate slide it says
that it is inadequate, and nothing of malignancy.
"""

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO

import numpy as np
import shapely
from jinja2 import Environment, PackageLoader
from numpy.typing import NDArray
from PIL import Image

from aspirate import __version__
from aspirate.core.labels import BETHESDA_NAMES
from aspirate.core.predictions import Prediction
from aspirate.core.tile_file import TileTable
from aspirate.core.touching import groups_of
from aspirate.slides.slide import RgbArray, Slide
from aspirate.stages.cascade import Looked
from aspirate.workflow.bundle import Bundle
from aspirate.workflow.charts import ScoreAxis, histogram, score_axis
from aspirate.workflow.heat_map import css_colours, heat_over
from aspirate.workflow.predict import SlideResult

SHEET_BYTES = 2_000_000
TILE_BYTES = 800_000
"""Of a sheet, what the pictures of tiles may take."""
MAP_BYTES = 520_000
"""The same for each of the two maps."""
MAP_PX = 1000
MAP_FORMS = ((MAP_PX, 90), (MAP_PX, 80), (MAP_PX, 60), (700, 60), (400, 60))
"""Longest side and JPEG quality, the first that keeps within the bytes is taken."""
SHOWN_PX = 128
"""Side of a tile on the sheet, whatever the nets see."""
OUTLINE_PX = 9.0
"""From the middle of a group to its outline, at the least: a single tile may be three pixels wide."""
FEW_SLIDES = 50
"""A calibration that rests on fewer is called rough."""


@dataclass(frozen=True, slots=True)
class TileCard:
    """One tile of the sheet."""

    rank: int
    uri: str
    informativeness: float
    confident: bool
    malignancy: float | None
    """None on an inadequate slide, of which nothing is said."""
    share: float
    """Where the malignancy lies on the score axis, in percent."""
    x: int
    y: int
    """As QuPath counts: level-0 pixels less the slide's bounds."""
    map_x: float
    map_y: float
    """Its centre on the overview, in its pixels."""


@dataclass(frozen=True, slots=True)
class Outline:
    """Around a group of tiles on the overview, as a path in its pixels."""

    path: str
    text: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """A slide's result in words; but for an adequate slide, all that is not `seen` is empty."""

    adequate: bool
    seen: str
    kind: str = "inadequate"
    percent: str = ""
    meaning: str = ""
    decision: str = ""
    category: str = ""
    category_name: str = ""


def templates() -> Environment:
    loader = PackageLoader("aspirate.workflow", "templates")
    return Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)


def sheet(
    slide: Slide, result: SlideResult, bundle: Bundle, model_sha256: str, overview: RgbArray, most_tiles: int
) -> str:
    tiles, prediction = result.tiles, result.prediction
    counted = result.looked is None or result.looked.counted
    verdict = verdict_of(prediction, result.groups, bundle, len(tiles), counted)
    order = ranked(tiles)
    axis = None
    if verdict.adequate and prediction.score is not None:
        cuts = sorted(bundle.cuts_of_score)
        axis = score_axis(prediction.score, bundle.threshold, cuts, tiles.values["malignancy"][order])
    small = shrunk(overview, MAP_PX)
    heat = heat_over(small, tiles, slide.size_px0)
    scale = small.shape[1] / slide.size_px0.width
    cards = _cards(slide, tiles, order[:most_tiles], bundle.confident, axis, scale)
    outlines, more_groups = group_outlines(tiles, bundle.confident, scale, order[: len(cards)])
    template = templates().get_template("sheet.html.j2")
    return template.render(
        slide_id=prediction.slide_id,
        verdict=verdict,
        groups=result.groups,
        needed=bundle.recipe.adequacy.groups,
        informative_tiles=prediction.informative_tiles,
        axis=axis,
        histogram=histogram(tiles.values["informativeness"], bundle.confident),
        overview=_map_uri(small),
        heat=_map_uri(heat),
        colours=css_colours(),
        width=small.shape[1],
        height=small.shape[0],
        outlines=outlines,
        more_groups=more_groups,
        tile_radius=round(max(tiles.side_px0 * scale, OUTLINE_PX) + 6, 1),
        cards=cards,
        kept=len(order),
        weighted=bundle.recipe.selection.weights == "informativeness",
        refitted=bool(bundle.slide_cuts),
        confident=bundle.confident,
        cascade=cascade_words(result.looked),
        facts=_facts(slide, tiles),
        method=prediction.method,
        model_sha256=model_sha256,
        version=__version__,
    )


def ranked(tiles: TileTable) -> NDArray[np.int64]:
    """Kept tiles, most informative first; of equal ones the first of the slide."""
    kept = np.flatnonzero(tiles.values["selected"])
    return kept[np.argsort(-tiles.values["informativeness"][kept], kind="stable")]


def verdict_of(prediction: Prediction, groups: int, bundle: Bundle, tiles: int, counted: bool = True) -> Verdict:
    """`counted` is whether all confident tiles were looked for, or only those to keep."""
    informative = f"{'' if counted else 'At least '}{_count(prediction.informative_tiles or 0, 'tile')}"
    seen = (
        f"{informative} of {tiles:,} reach informativeness {bundle.confident:.2f}, from which the "
        f"model is confident of follicular cells. They form {_count(groups, 'separate group')}; "
        f"{bundle.recipe.adequacy.groups} are needed."
    )
    if prediction.status != "ok" or prediction.probability is None or prediction.score is None:
        return Verdict(False, seen)
    slides = bundle.calibration.slides
    rough = ", so it is rough" if slides < FEW_SLIDES else ""
    malignant = bool(prediction.predicted_malignant)
    category = prediction.predicted_bethesda
    return Verdict(
        adequate=True,
        seen=seen,
        kind="malignant" if malignant else "normal",
        percent=percent(prediction.probability),
        meaning=f"Of 100 slides that score like this one, {_per_hundred(prediction.probability)} are expected to be "
        f"malignant. The figure was calibrated on {_count(slides, 'validation slide')}{rough}, and holds where "
        "malignancy is as frequent as among them.",
        decision=f"The slide score, {prediction.score:.3f}, is {'above' if malignant else 'not above'} the decision "
        f"threshold, {bundle.threshold:.3f}: the model calls it {'malignant' if malignant else 'benign'}.",
        category="" if category is None else f"TBS {category}",
        category_name="" if category is None else BETHESDA_NAMES[category],
    )


def cascade_words(looked: Looked | None) -> str:
    """What was looked at closely, and what the slide's own check of the scout says of the rest."""
    if looked is None:
        return ""
    if not looked.rest:
        return "Every tile was looked at closely: the scout could not be trusted on this slide."
    widened = " The scout did worse here than it should, so more was looked at." if looked.widened else ""
    return (
        f"{looked.at.sum():,} tiles ({looked.share:.1%}) were looked at closely; the others, drawn fainter, are the "
        f"scout's guess and never counted.{widened} To check it, {looked.audited:,} tiles were drawn from the last "
        f"{looked.rest:,} on its list, and {looked.found or 'none'} of them mattered: with 95 % confidence at most "
        f"{looked.missed_at_most:.1%} of that list do."
    )


def percent(probability: float) -> str:
    """Whole percent; never 0 or 100, which no calibration can promise."""
    if probability < 0.01:
        return "< 1 %"
    return "> 99 %" if probability > 0.99 else f"{probability:.0%}".replace("%", " %")


def _per_hundred(probability: float) -> str:
    if probability < 0.01:
        return "fewer than 1"
    return "more than 99" if probability > 0.99 else f"about {probability * 100:.0f}"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def group_outlines(
    tiles: TileTable, confident: float, scale: float, shown: NDArray[np.int64]
) -> tuple[list[Outline], int]:
    """One around each group of touching confident tiles that has a tile among those shown; and how many have none."""
    chosen = np.flatnonzero(tiles.values["informativeness"] >= confident)
    columns, rows = (tiles.corners_px0[chosen] // tiles.side_px0).T
    groups = groups_of(columns, rows)
    numbers = np.unique(groups[np.isin(chosen, shown)]).tolist()
    side = tiles.side_px0 * scale
    away = max(4.0, OUTLINE_PX - side / 2)
    outlines = []
    for number in numbers:
        x, y = columns[groups == number], rows[groups == number]
        squares = shapely.union_all(shapely.box(x * side, y * side, (x + 1) * side, (y + 1) * side))
        outlines.append(Outline(_path(squares.buffer(away, quad_segs=3)), f"group of {_count(len(x), 'tile')}"))
    return outlines, int(groups.max(initial=-1)) + 1 - len(numbers)


def _path(shape: shapely.Polygon) -> str:
    rings = [shape.exterior, *shape.interiors]
    return "".join("M" + "L".join(f"{x:.0f} {y:.0f}" for x, y in ring.coords[:-1]) + "Z" for ring in rings)


def _cards(
    slide: Slide, tiles: TileTable, order: NDArray[np.int64], confident: float, axis: ScoreAxis | None, scale: float
) -> list[TileCard]:
    """As many of the tiles, in their order, as the page has room for."""
    cards: list[TileCard] = []
    left_px0, top_px0 = slide.bounds_px0
    room = TILE_BYTES
    pixels = slide.read_squares(tiles.corners_px0[order], tiles.side_px0, SHOWN_PX)
    for rank, i in enumerate(order.tolist(), start=1):
        uri = _uri(jpeg(pixels[rank - 1]))
        room -= len(uri)
        if room < 0:
            break
        x, y = tiles.corners_px0[i].tolist()
        informativeness, malignancy = (float(tiles.values[name][i]) for name in ("informativeness", "malignancy"))
        middle = tiles.side_px0 / 2
        cards.append(
            TileCard(
                rank=rank,
                uri=uri,
                informativeness=informativeness,
                confident=informativeness >= confident,
                malignancy=None if axis is None else malignancy,
                share=0.0 if axis is None else axis.share(malignancy),
                x=x - left_px0,
                y=y - top_px0,
                map_x=round((x + middle) * scale, 1),
                map_y=round((y + middle) * scale, 1),
            )
        )
    return cards


def _facts(slide: Slide, tiles: TileTable) -> Sequence[str]:
    size = slide.size_px0
    resolution = "" if tiles.slide_mpp is None else f"{tiles.slide_mpp:.4g} µm per pixel"
    if slide.mpp is None and resolution:
        resolution += " as given"
    return [f"{size.width:,} × {size.height:,} px", resolution, slide.vendor, _count(len(tiles), "tile")]


def shrunk(picture: RgbArray, longest_px: int) -> RgbArray:
    image = Image.fromarray(picture)
    image.thumbnail((longest_px, longest_px), Image.Resampling.BICUBIC)
    return np.asarray(image)


def jpeg(picture: RgbArray, quality: int = 85) -> bytes:
    """Full colour resolution, so that edges of tiles stay where they are."""
    buffer = BytesIO()
    Image.fromarray(picture).save(buffer, "JPEG", quality=quality, subsampling=0)
    return buffer.getvalue()


def _map_uri(picture: RgbArray) -> str:
    uri = ""
    for longest_px, quality in MAP_FORMS:
        uri = _uri(jpeg(shrunk(picture, longest_px), quality))
        if len(uri) <= MAP_BYTES:
            break
    return uri


def _uri(data: bytes) -> str:
    return "data:image/jpeg;base64," + b64encode(data).decode()
