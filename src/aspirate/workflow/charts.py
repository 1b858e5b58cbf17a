"""Small charts as coordinates of an inline SVG: a slide's score among the cuts, its tiles by informativeness, and many
slides by their score and what was known of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aspirate.core.labels import BETHESDA_NAMES, TRAINABLE_BETHESDA

WIDTH = 1000
BINS = 50
HISTOGRAM_HEIGHT = 240
ZONE_COLOURS = {2: "#3f9c66", 3: "#a3b552", 4: "#e8b04a", 5: "#de7a3c", 6: "#c4372d"}
PAD = 0.08
"""Of the axis, left free at either end."""


@dataclass(frozen=True, slots=True)
class Mark:
    x: float
    text: str

    @property
    def anchor(self) -> str:
        """Where its text is held, so that it stays on the chart."""
        return "start" if self.x < WIDTH / 10 else "end" if self.x > WIDTH * 9 / 10 else "middle"


@dataclass(frozen=True, slots=True)
class Zone:
    """A category's stretch of the score axis."""

    left: float
    right: float
    category: int
    name: str
    here: bool
    """Whether the slide's score lies in it."""

    @property
    def colour(self) -> str:
        return ZONE_COLOURS[self.category]

    @property
    def middle(self) -> float:
        return round((self.left + self.right) / 2, 1)


@dataclass(frozen=True, slots=True)
class ScoreAxis:
    """Scores from left to right; positions are 0 … `WIDTH`."""

    low: float
    high: float
    zones: list[Zone]
    cuts: list[Mark]
    threshold: Mark
    score: Mark
    tiles: list[float]
    """Of every kept tile, one tick."""

    @property
    def tick_opacity(self) -> float:
        """Fainter the more there are, so that a crowd still shows where it is densest."""
        return round(float(np.clip(20 / max(len(self.tiles), 1), 0.08, 0.6)), 2)

    def share(self, score: float) -> float:
        """Where a score lies, in percent of the axis; beyond either end, at it."""
        return round(float(np.clip((score - self.low) / (self.high - self.low), 0, 1)) * 100, 1)


def score_axis(score: float, threshold: float, cuts: Sequence[float], tile_scores: NDArray[np.floating]) -> ScoreAxis:
    """Wide enough for cuts, threshold, slide and all but the outermost hundredths of its tiles."""
    shown = [score, threshold, *cuts, *np.percentile(tile_scores, [1, 99]).tolist()]
    spread = max(max(shown) - min(shown), 1e-3)
    low, high = min(shown) - PAD * spread, max(shown) + PAD * spread

    def x(value: float) -> float:
        return round(float(np.clip((value - low) / (high - low), 0, 1)) * WIDTH, 1)

    edges = [low, *cuts, high]
    here = int(np.searchsorted(np.asarray(cuts), score, side="left"))
    zones = [
        Zone(x(edges[i]), x(edges[i + 1]), category, BETHESDA_NAMES[category], i == here)
        for i, category in enumerate(TRAINABLE_BETHESDA)
        if cuts
    ]
    return ScoreAxis(
        low=low,
        high=high,
        zones=zones,
        cuts=[Mark(x(cut), f"{cut:.2f}") for cut in cuts],
        threshold=Mark(x(threshold), f"{threshold:.3f}"),
        score=Mark(x(score), f"{score:.3f}"),
        tiles=[x(value) for value in np.asarray(tile_scores, float).tolist()],
    )


@dataclass(frozen=True, slots=True)
class Bar:
    x: float
    y: float
    width: float
    height: float
    confident: bool
    text: str


@dataclass(frozen=True, slots=True)
class Level:
    """A horizontal line of the grid."""

    y: float
    text: str


@dataclass(frozen=True, slots=True)
class Histogram:
    """Counts on a logarithmic axis; positions are 0 … `WIDTH` and 0 … `HISTOGRAM_HEIGHT`, downwards."""

    bars: list[Bar]
    levels: list[Level]
    threshold: Mark
    counts: list[int]


def histogram(informativeness: NDArray[np.floating], confident: float) -> Histogram:
    """A bin with one tile has height too, so that a single informative tile among thousands is seen."""
    counts = np.histogram(informativeness, bins=BINS, range=(0, 1))[0]
    decades = max(1, int(np.ceil(np.log10(max(int(counts.max()), 1) + 1))))

    def height(count: float) -> float:
        """Half a decade stands for the first tile."""
        return round((np.log10(count) + 0.5) / (decades + 0.5) * HISTOGRAM_HEIGHT, 1) if count else 0.0

    wide = WIDTH / BINS
    bars = [
        Bar(
            x=round(i * wide + 1, 1),
            y=HISTOGRAM_HEIGHT - height(count),
            width=round(wide - 2, 1),
            height=height(count),
            confident=(i + 0.5) / BINS >= confident,
            text=f"{i / BINS:.2f}–{(i + 1) / BINS:.2f}: {count:,} {'tile' if count == 1 else 'tiles'}",
        )
        for i, count in enumerate(counts.tolist())
        if count
    ]
    levels = [Level(HISTOGRAM_HEIGHT - height(10**power), f"{10**power:,}") for power in range(decades + 1)]
    return Histogram(bars, levels, Mark(round(confident * WIDTH, 1), f"{confident:.2f}"), counts.tolist())


DOT_PX = 13
"""Between the centres of dots that would else hide each other."""
ROW_PX = 90


@dataclass(frozen=True, slots=True)
class Dot:
    x: float
    y: float
    slide_id: str
    text: str


@dataclass(frozen=True, slots=True)
class StripRow:
    name: str
    y: float
    dots: list[Dot]


@dataclass(frozen=True, slots=True)
class Strip:
    """Slides as dots from low to high score, a row for each outcome; positions are 0 … `WIDTH` and 0 … `height`."""

    rows: list[StripRow]
    threshold: Mark
    height: float


def strip(slides: Mapping[str, Sequence[tuple[str, float, str]]], threshold: float) -> Strip:
    """`slides` are (slide_id, score, text) by outcome; dots that would meet are stacked about the row's line."""
    scores = [score for row in slides.values() for _, score, _ in row] + [threshold]
    spread = max(max(scores) - min(scores), 1e-3)
    low, high = min(scores) - PAD * spread, max(scores) + PAD * spread

    def x(value: float) -> float:
        return round((value - low) / (high - low) * WIDTH, 1)

    rows = []
    for number, (name, members) in enumerate(slides.items()):
        middle = (number + 0.5) * ROW_PX
        dots: list[Dot] = []
        for slide_id, score, text in sorted(members, key=lambda member: member[1]):
            taken = {dot.y for dot in dots if x(score) - dot.x < DOT_PX}
            offsets = (middle + sign * step * DOT_PX for step in range(len(dots) + 1) for sign in (1, -1))
            dots.append(Dot(x(score), next(y for y in offsets if y not in taken), slide_id, text))
        rows.append(StripRow(name, middle, dots))
    return Strip(rows, Mark(x(threshold), f"{threshold:.2f}"), len(rows) * ROW_PX)
