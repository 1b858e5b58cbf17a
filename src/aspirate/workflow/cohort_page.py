"""A cohort on one page: slides, what was marked on them, and tiles side by side; no outside request."""

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from io import BytesIO
from pathlib import Path

import numpy as np
from jinja2 import Environment
from numpy.typing import NDArray
from PIL import Image

from aspirate import __version__
from aspirate.core.errors import AspirateError
from aspirate.core.labels import BETHESDA_NAMES, Abnormality
from aspirate.core.progress import Advance, silent
from aspirate.core.records import SlideEntry
from aspirate.core.store import write_text
from aspirate.core.tile_file import TileTable
from aspirate.slides.annotations import find_annotations
from aspirate.slides.cohort import Cohort
from aspirate.slides.examination import Examination
from aspirate.slides.reader import open_slide
from aspirate.slides.slide import RgbArray, Slide
from aspirate.workflow.tiling import tile_slide

OVERVIEW_PX = 360
TILES_PER_SLIDE = 4
TILES_PER_GALLERY = 18
UNGRADED, BACKGROUND = "informative", "background"


@dataclass(frozen=True, slots=True)
class TilePicture:
    uri: str
    caption: str
    kind: str


@dataclass(frozen=True, slots=True)
class Mark:
    """An annotated tile on the overview, in its pixels."""

    x: float
    y: float
    side: float
    kind: str


@dataclass(frozen=True, slots=True)
class Tag:
    kind: str
    text: str
    note: str


@dataclass(frozen=True, slots=True)
class Card:
    """What the page says of one slide."""

    slide_id: str
    tags: list[Tag]
    lines: list[str]
    uri: str = ""
    width: int = 0
    height: int = 0
    marks: list[Mark] = field(default_factory=list)
    tiles: list[TilePicture] = field(default_factory=list)

    @property
    def share(self) -> float:
        """Width of the overview in percent of the square it stands in."""
        return round(100 * self.width / max(self.width, self.height, 1), 1)


@dataclass(frozen=True, slots=True)
class Gallery:
    kind: str
    title: str
    note: str
    tiles: list[TilePicture]


def make_card(entry: SlideEntry, tiles: TileTable, seed: int = 0) -> Card:
    """One slide's overview and a few of its tiles: those marked by someone, else some at random."""
    with open_slide(entry.path, mpp=entry.mpp, name=entry.slide_id) as slide:
        overview = slide.thumbnail(OVERVIEW_PX)
        height, width = overview.shape[:2]
        scale = width / slide.size_px0.width
        kinds = _kinds(tiles)
        shown = _choose(kinds, np.random.default_rng(seed))
        pictures = _pictures(slide, tiles, shown, kinds)
        lines = _lines(slide, tiles, int((kinds != BACKGROUND).sum()))
    marked = np.flatnonzero(kinds != BACKGROUND)
    marks = [
        Mark(
            round(float(tiles.corners_px0[i, 0]) * scale, 1),
            round(float(tiles.corners_px0[i, 1]) * scale, 1),
            round(max(tiles.side_px0 * scale, 5.0), 1),
            str(kinds[i]),
        )
        for i in marked
    ]
    return Card(entry.slide_id, _tags(entry), lines, _jpeg(overview), width, height, marks, pictures)


def write_cohort_page(
    path: Path,
    cohort: Cohort,
    examination: Examination,
    title: str = "Cohort",
    advance: Advance = silent,
) -> None:
    """Draw every slide of an examined cohort; one that cannot be drawn is shown with its reason."""
    annotations, _ = find_annotations(cohort.folder)
    resolutions = {slide.slide_id: slide.mpp for slide in examination.slides}
    cards = []
    for number, listed in enumerate(cohort.entries):
        entry = replace(listed, mpp=resolutions.get(listed.slide_id, listed.mpp))
        try:
            cards.append(make_card(entry, tile_slide(entry, annotations), seed=number))
        except AspirateError as error:
            cards.append(Card(entry.slide_id, _tags(entry), [str(error)]))
        advance(1)
    source = (files("aspirate.workflow") / "templates" / "cohort.html.j2").read_text(encoding="utf-8")
    template = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string(source)
    html = template.render(
        title=title,
        facts=_facts(examination),
        verdict=examination.verdict,
        findings=examination.findings,
        galleries=_galleries(cards),
        cards=cards,
        tile_note="Tiles as the networks see them: 128 × 128 pixels at 0.25 µm per pixel.",
        slide_note="Squares are tiles that someone marked, by grade.",
        footer=f"Aspirate {__version__}. Research use only.",
    )
    write_text(path, html)


def _facts(examination: Examination) -> list[tuple[str, str]]:
    counts = examination.counts
    tiles = sum(slide.tiles or 0 for slide in examination.slides)
    marked = ", ".join(f"{count} {grade}" for grade, count in counts["abnormality"].items() if count)
    return [
        ("slides", f"{counts['slides']:,}"),
        ("patients", f"{counts['patients']:,}"),
        *((name, f"{count:,}") for name, count in counts["malignant"].items() if count and name != "unknown"),
        ("tiles", f"{tiles:,}"),
        (f"annotations ({marked})" if marked else "annotations", f"{counts['annotations']:,}"),
    ]


def _kinds(tiles: TileTable) -> NDArray[np.str_]:
    """Of every tile: its grade, `informative` where it has none, `background` where nobody marked it."""
    kinds = np.full(len(tiles), BACKGROUND, dtype="U16")
    kinds[tiles.values["informative"]] = UNGRADED
    for grade in Abnormality:
        kinds[tiles.values["abnormality"] == grade] = grade.name.lower()
    return kinds


def _choose(kinds: NDArray[np.str_], rng: np.random.Generator) -> list[int]:
    """A few tiles of every kind that the slide has, in the slide's order within a kind."""
    chosen: list[int] = []
    for kind in (*(g.name.lower() for g in Abnormality), UNGRADED, BACKGROUND):
        of_kind = np.flatnonzero(kinds == kind)
        count = min(TILES_PER_SLIDE, len(of_kind))
        chosen += sorted(rng.choice(of_kind, count, replace=False).tolist())
    return chosen


def _pictures(slide: Slide, tiles: TileTable, chosen: Sequence[int], kinds: NDArray[np.str_]) -> list[TilePicture]:
    pixels = slide.read_squares(tiles.corners_px0[list(chosen)], tiles.side_px0, tiles.side_px)
    return [
        TilePicture(_jpeg(pixels[k]), f"{slide.name} at {', '.join(map(str, tiles.corners_px0[i]))}", str(kinds[i]))
        for k, i in enumerate(chosen)
    ]


def _galleries(cards: Sequence[Card]) -> list[Gallery]:
    """Tiles of all slides by kind, one of each slide before a second of any."""
    notes = {
        "normal": ("Normal", "annotated grade 0"),
        "atypical": ("Atypical", "annotated grade 1"),
        "malignant": ("Malignant", "annotated grade 2"),
        UNGRADED: ("Informative", "annotated without a grade"),
        BACKGROUND: ("Not annotated", "drawn at random: what nearly all of a slide looks like"),
    }
    galleries = []
    for kind, (title, note) in notes.items():
        by_card = [[tile for tile in card.tiles if tile.kind == kind] for card in cards]
        turns = max((len(own) for own in by_card), default=0)
        mixed = [own[turn] for turn in range(turns) for own in by_card if turn < len(own)]
        if mixed:
            galleries.append(Gallery(kind, title, note, mixed[:TILES_PER_GALLERY]))
    return galleries


def _tags(entry: SlideEntry) -> list[Tag]:
    tags = []
    if entry.malignant is not None:
        truth = ("malignant", "malignant") if entry.malignant else ("normal", "benign")
        tags.append(Tag(*truth, note="histology"))
    if entry.bethesda is not None:
        tags.append(Tag("", f"TBS {entry.bethesda}", note=BETHESDA_NAMES[entry.bethesda]))
    if entry.site is not None:
        tags.append(Tag("background", entry.site, note="site"))
    return tags


def _lines(slide: Slide, tiles: TileTable, marked: int) -> list[str]:
    size = slide.size_px0
    resolution = "unknown" if slide.mpp is None else f"{slide.mpp:.4g} µm/px"
    return [
        f"{size.width:,} × {size.height:,} px · {resolution} · {slide.vendor}",
        f"{len(tiles):,} {'tile' if len(tiles) == 1 else 'tiles'}, {f'{marked} marked' if marked else 'not annotated'}",
    ]


def _jpeg(pixels: RgbArray) -> str:
    buffer = BytesIO()
    Image.fromarray(pixels).save(buffer, "JPEG", quality=85)
    return "data:image/jpeg;base64," + b64encode(buffer.getvalue()).decode()
