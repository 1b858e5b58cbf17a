"""How figures look, in print and to those who do not tell red from green; and how they become bytes."""

from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO, StringIO
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

# The eight colours of Okabe and Ito, told apart with any colour vision.
BLACK, ORANGE, SKY, GREEN = "#000000", "#e69f00", "#56b4e9", "#009e73"
YELLOW, BLUE, VERMILION, PURPLE = "#f0e442", "#0072b2", "#d55e00", "#cc79a7"
GREY = "#9a9a9a"
BENIGN, MALIGNANT = BLUE, VERMILION
SERIES = (BLACK, VERMILION, BLUE, GREEN, PURPLE, ORANGE, SKY)
DASHES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (8, 2)), (0, (1, 1)))
"""With the colours, so that black and white print tells lines apart too."""
WIDE_IN = 7.2
STYLE: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 8.5,
    "axes.titlesize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "legend.frameon": False,
    "legend.fontsize": 7.5,
    "lines.linewidth": 1.4,
    "figure.constrained_layout.use": True,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "pdf.fonttype": 42,
    "svg.fonttype": "path",
    "svg.hashsalt": "aspirate",
    "path.simplify": False,
    "savefig.bbox": "tight",
    "savefig.pad_inches": 0.06,
}


@dataclass(frozen=True, slots=True)
class Drawing:
    name: str
    """Of its files."""
    title: str
    caption: str
    svg: str
    pdf: bytes


def drawn(name: str, title: str, caption: str, draw: Callable[[], Figure]) -> Drawing:
    """Without date or address, so that the same figure is the same bytes."""
    with matplotlib.rc_context(STYLE):
        figure = draw()
        figure.draw_without_rendering()
        figure.set_layout_engine("none")  # laid out once, not again for each format
        svg, pdf = StringIO(), BytesIO()
        figure.savefig(svg, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
        figure.savefig(pdf, format="pdf", metadata=dict.fromkeys(("Creator", "Producer", "CreationDate")))
    return Drawing(name, title, caption, svg.getvalue(), pdf.getvalue())


def panels(count: int, height_in: float = 3.4, width_in: float = WIDE_IN) -> tuple[Figure, list[Axes]]:
    figure = Figure(figsize=(width_in, height_in))
    axes = figure.subplots(1, count, squeeze=False)
    return figure, list(axes[0])


def unit_square(axes: Axes, x: str, y: str) -> None:
    """Both axes from 0 to 1, with room for lines along the edges."""
    axes.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), xlabel=x, ylabel=y, aspect="equal")
    axes.grid(color="#e6e6e6", linewidth=0.6)
    axes.set_axisbelow(True)
