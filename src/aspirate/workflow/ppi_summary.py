"""What the PPI study shows: every method at every PPI, its gap to the best rival, how near it is to the ceiling.

Repeats are paired: methods are compared on the same bags. The best rival of a cell is the one with the highest mean
there, chosen after the fact, which is in its favour. Intervals are Student's over the paired differences. The share
closed is (method − best rival) / (ceiling − best rival), where the two are at least a point apart.
"""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO, StringIO
from itertools import groupby
from math import isfinite, sqrt
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.stats import t as student

from aspirate.core.store import atomic_path, write_text
from aspirate.evaluation import drawing
from aspirate.evaluation.estimates import NAN, Estimate
from aspirate.workflow.ppi_methods import METHODS
from aspirate.workflow.ppi_study import PpiRun

FIGURES = ("accuracy", "accuracy_youden", "auc")
ALL = "all"
"""All class splits together."""
LEVEL = 0.95
SMALLEST_DISTANCE = 0.01
ROLES = {method.name: method.role for method in METHODS}

STYLES: dict[str, tuple[str, Any, str, float]] = {
    "NoisyOr": (drawing.ORANGE, "-", "v", 1.2),
    "TextbookNoisyOr": (drawing.ORANGE, "--", "v", 1.2),
    "NoisyAnd": (drawing.GREEN, "-.", "s", 1.2),
    "AttentionMIL": (drawing.BLUE, "-", "^", 1.2),
    "GatedAttentionMIL": (drawing.BLUE, "--", "^", 1.2),
    "AveragePooling": (drawing.SKY, "-", "D", 1.2),
    "Proposed": (drawing.VERMILION, "-", "o", 1.6),
    "Proposed, refitted": (drawing.VERMILION, ":", "o", 1.2),
    "Mixture, as learned": (drawing.BLACK, ":", "o", 1.2),
    "Mixture": (drawing.BLACK, "-", "o", 2.2),
    "Tile labels known": (drawing.GREY, (0, (6, 2)), "", 1.2),
}
"""Colour, dashes, marker and width; kin share a colour."""
LABELS = {"accuracy": "accuracy on test bags", "auc": "AUC on test bags"}


@dataclass(frozen=True, slots=True)
class Cell:
    """One method at one PPI of one class split, in one figure of merit."""

    figure: str
    positive_classes: str
    ppi: float
    method: str
    mean: float
    standard_error: float
    best_rival: str
    gap: Estimate
    closed: float
    """Share of the distance from the best rival to the ceiling; NaN where there is none."""

    @property
    def role(self) -> str:
        return ROLES[self.method]


def summarise(runs: Sequence[PpiRun]) -> tuple[Cell, ...]:
    """By figure of merit, class split and PPI; all splits together last, where there are several."""
    splits = sorted({run.positive_classes for run in runs})
    groups = [(split, [run for run in runs if run.positive_classes == split]) for split in splits]
    if len(splits) > 1:
        groups.append((ALL, list(runs)))
    cells: list[Cell] = []
    for figure in FIGURES:
        for split, own in groups:
            by_ppi = groupby(sorted(own, key=lambda run: run.ppi), key=lambda run: run.ppi)
            for ppi, here in by_ppi:
                cells += _cells(figure, split, ppi, list(here))
    return tuple(cells)


def _cells(figure: str, split: str, ppi: float, runs: Sequence[PpiRun]) -> list[Cell]:
    """Of draws of bags that every method has seen."""
    values: dict[str, dict[tuple[str, int], float]] = {}
    for run in runs:
        values.setdefault(run.method, {})[run.positive_classes, run.repeat] = getattr(run, figure)
    draws = sorted(set.intersection(*(set(own) for own in values.values())))
    if not draws:
        return []
    table = {m.name: np.array([values[m.name][d] for d in draws]) for m in METHODS if m.name in values}
    means = {name: float(own.mean()) for name, own in table.items()}
    rivals = [name for name in table if ROLES[name] == "rival"]
    best = max(rivals, key=means.__getitem__) if rivals else ""
    ceiling = max((means[name] for name in table if ROLES[name] == "ceiling"), default=NAN)
    cells = []
    for name, own in table.items():
        gap = paired(own - table[best]) if best else paired(np.empty(0))
        distance = ceiling - means[best] if best else NAN
        closed = gap.value / distance if distance >= SMALLEST_DISTANCE else NAN
        spread = float(own.std(ddof=1)) / sqrt(len(own)) if len(own) > 1 else NAN
        cells.append(Cell(figure, split, ppi, name, means[name], spread, best, gap, closed))
    return cells


def paired(differences: np.ndarray[tuple[int], np.dtype[np.float64]]) -> Estimate:
    """Their mean with Student's interval."""
    n, method = len(differences), f"paired Student's t, {LEVEL:g}"
    if n < 2:
        value = float(differences[0]) if n else NAN
        return Estimate(value, NAN, NAN, n, method, "an interval needs two repeats")
    mean, error = float(differences.mean()), float(differences.std(ddof=1)) / sqrt(n)
    reach = float(student.ppf((1 + LEVEL) / 2, n - 1)) * error
    return Estimate(mean, mean - reach, mean + reach, n, method)


COLUMNS = (
    *("figure", "positive_classes", "ppi", "method", "role", "repeats", "mean", "standard_error"),
    *("best_rival", "gap", "gap_low", "gap_high", "closed"),
)


def write_summary(path: Path, cells: Sequence[Cell]) -> None:
    text = StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(COLUMNS)
    for c in cells:
        numbers = [c.mean, c.standard_error]
        gaps = [c.gap.value, c.gap.low, c.gap.high, c.closed]
        row = [c.figure, c.positive_classes, f"{c.ppi:g}", c.method, c.role, c.gap.n]
        table.writerow([*row, *map(_number, numbers), c.best_rival, *map(_number, gaps)])
    write_text(path, text.getvalue())


def _number(value: float) -> str:
    return f"{value:.6g}" if isfinite(value) else ""


def draw_figure(cells: Sequence[Cell]) -> Figure:
    """A row of panels for each class split: accuracy and AUC against PPI."""
    splits = list(dict.fromkeys(c.positive_classes for c in cells if c.positive_classes != ALL))
    figure = Figure(figsize=(drawing.WIDE_IN, 2.9 * len(splits) + 0.9))
    axes = figure.subplots(len(splits), 2, squeeze=False)
    for row, split in zip(axes, splits, strict=True):
        for panel, name in zip(row, LABELS, strict=True):
            _panel(panel, [c for c in cells if (c.positive_classes, c.figure) == (split, name)])
            panel.set_ylabel(LABELS[name])
            panel.set_title(f"positive classes {', '.join(split)}", loc="left")
    handles, names = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=4)
    return figure


def _panel(axes: Axes, cells: Sequence[Cell]) -> None:
    for name, (colour, dash, marker, width) in STYLES.items():
        own = [c for c in cells if c.method == name]
        if own:
            errors = [c.standard_error if isfinite(c.standard_error) else 0.0 for c in own]
            look = {"color": colour, "linestyle": dash, "marker": marker, "linewidth": width, "markersize": 3.5}
            over = 3 if ROLES[name] == "ours" else 2
            axes.errorbar(
                [c.ppi for c in own], [c.mean for c in own], errors, **look, capsize=2, zorder=over, label=name
            )
    ppis = sorted({c.ppi for c in cells})
    axes.set_xscale("log")
    axes.set_xticks(ppis, [f"{100 * ppi:g}" for ppi in ppis])
    axes.minorticks_off()
    axes.set_xlabel("PPI: positive tiles in a positive bag, %")
    axes.grid(color="#e6e6e6", linewidth=0.6)
    axes.set_axisbelow(True)


def write_figure(folder: Path, cells: Sequence[Cell]) -> Path:
    """ppi.svg, ppi.pdf and ppi.png."""
    drawn = drawing.drawn("ppi", "", "", lambda: draw_figure(cells))
    write_text(folder / "ppi.svg", drawn.svg)
    with matplotlib.rc_context(drawing.STYLE), BytesIO() as png:
        draw_figure(cells).savefig(png, format="png", dpi=200, metadata={"Software": None})
        pictures = {"ppi.pdf": drawn.pdf, "ppi.png": png.getvalue()}
    for name, content in pictures.items():
        with atomic_path(folder / name) as part:
            part.write_bytes(content)
    return folder / "ppi.svg"
