"""Figures of points, bars and counts: intervals side by side, histograms, confusion, what would be decided."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from aspirate.core.labels import TRAINABLE_BETHESDA
from aspirate.evaluation.agreement import Confusion
from aspirate.evaluation.analysis import Analysis, ReadersAnalysis
from aspirate.evaluation.drawing import BENIGN, BLACK, BLUE, GREEN, GREY, MALIGNANT, VERMILION, WIDE_IN, panels
from aspirate.evaluation.estimates import Estimate
from aspirate.evaluation.material import TileFacts
from aspirate.evaluation.readers import ALGORITHM

ROW_IN = 0.24


def _forest(axes: Axes, rows: Sequence[tuple[str, Estimate, str]], what: str) -> None:
    """A point and its interval a row, first at the top; (name, estimate, colour)."""
    for y, (_, found, colour) in enumerate(rows):
        if np.isfinite(found.low):
            axes.plot([found.low, found.high], [y, y], color=colour, linewidth=1.3)
        axes.plot(found.value, y, "o", color=colour, markersize=4.5)
    axes.set(ylim=(len(rows) - 0.5, -0.5), xlabel=what)
    axes.set_yticks(range(len(rows)), [f"{name}  (n = {found.n})" for name, found, _ in rows])
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color="#e6e6e6", linewidth=0.6)
    axes.spines["left"].set_visible(False)


def methods_forest(analysis: Analysis) -> Figure:
    figure, axes = panels(2, 1.0 + ROW_IN * len(analysis.methods))
    for each, name in zip(axes, ("auc", "ap"), strict=True):
        rows = [
            (m.name, getattr(m.pooled, name), BLACK if m.name == analysis.reference else BLUE) for m in analysis.methods
        ]
        _forest(each, rows, "AUC" if name == "auc" else "average precision")
    axes[1].set_yticklabels([])
    return figure


def subgroups_forest(analysis: Analysis) -> Figure:
    own = analysis.method(analysis.reference)
    rows = [("all slides", own.pooled.auc_delong, BLACK)]
    rows += [
        (
            g.name if g.kind == "bethesda" else f"site {g.name}",
            g.discrimination.auc_delong,
            BLUE if g.kind == "site" else GREEN,
        )
        for g in own.subgroups
    ]
    figure, (axes,) = panels(1, 0.8 + ROW_IN * len(rows), 4.8)
    _forest(axes, rows, f"AUC of {analysis.reference}, DeLong")
    axes.axvline(0.5, color=GREY, linestyle=":", linewidth=0.9)
    return figure


def combination_forest(readers: ReadersAnalysis) -> Figure:
    rows: list[tuple[str, Estimate, str]] = []
    colours = {"Combined345Human": GREEN, "Combined345Alg": VERMILION}
    for comparison in readers.comparisons:
        rows.append((f"reader {comparison.reader}", comparison.own.auc_delong, BLACK))
        rows += [
            (f"with {one.reader}, {one.rule}", one.discrimination.auc_delong, colours[one.rule])
            for one in readers.combinations
            if one.reader == comparison.reader
        ]
    figure, (axes,) = panels(1, 0.8 + ROW_IN * len(rows), 4.8)
    _forest(axes, rows, "AUC, DeLong")
    return figure


def operating_bars(analysis: Analysis) -> Figure:
    methods = [(method.name, method.operating.decisions) for method in analysis.methods if method.operating]
    figure, (axes,) = panels(1, 1.1 + 0.27 * len(methods), WIDE_IN)
    for y, (_, found) in enumerate(methods):
        benign, malignant = found.called_benign.value, found.called_malignant.value
        left = 0.0
        parts = ((benign, BENIGN, found.benign_risk), (1 - benign - malignant, "#e2e2e2", found.undecided_risk))
        for share, colour, risk in (*parts, (malignant, MALIGNANT, found.malignant_risk)):
            axes.barh(y, share, left=left, color=colour, height=0.72)
            if share > 0.055:
                ink = "black" if colour == "#e2e2e2" else "white"
                axes.text(
                    left + share / 2, y, f"{100 * risk.value:.0f} %", color=ink, ha="center", va="center", size=6.5
                )
            left += share
    axes.set(ylim=(len(methods) - 0.4, -0.6), xlim=(0, 1), xlabel="share of slides")
    axes.set_yticks(range(len(methods)), [name for name, _ in methods])
    axes.tick_params(axis="y", length=0)
    for colour, name in ((BENIGN, "called benign"), ("#e2e2e2", "undecided"), (MALIGNANT, "called malignant")):
        axes.barh(-9, 0, color=colour, label=name)
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3)
    return figure


def truth_histogram(analysis: Analysis) -> Figure:
    figure, (axes,) = panels(1, 2.9, 4.8)
    own = analysis.method(analysis.reference)
    edges = np.linspace(0, 1, 21)
    values = analysis.reference_scores
    by_kind = [[v for slide, v in values.items() if analysis.truth[slide] is kind] for kind in (False, True)]
    if own.pooled_by == "score":
        edges = np.histogram_bin_edges(list(values.values()), 20)
    heights = [np.histogram(kind, edges)[0] for kind in by_kind]
    width = (edges[1] - edges[0]) * 0.44
    for offset, height, colour, name in zip(
        (0.04, 0.52), heights, (BENIGN, MALIGNANT), ("benign", "malignant"), strict=True
    ):
        left = edges[:-1] + (edges[1] - edges[0]) * offset
        hatch = "" if name == "benign" else "////"
        axes.bar(
            left,
            height,
            width,
            align="edge",
            color=colour,
            hatch=hatch,
            edgecolor="white",
            linewidth=0,
            label=f"{name} (n = {height.sum()})",
        )
    axes.set(xlabel=f"{own.pooled_by} of malignancy", ylabel="slides")
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend(loc="upper right")
    return figure


def confusions(analysis: Analysis) -> list[tuple[str, Confusion]]:
    """The algorithm's TBS beside that of the report and of each reader, where both have given one."""
    own = analysis.method(analysis.reference)
    beside = [a for a in analysis.readers.agreements if a.first == ALGORITHM] if analysis.readers else []
    found = [("report", own.confusion), *((f"reader {a.second}", a.confusion) for a in beside)]
    return [(name, table) for name, table in found if table.n]


def confusion_matrices(analysis: Analysis) -> Figure:
    shown = confusions(analysis)
    columns = min(len(shown), 4)
    rows = -(-len(shown) // columns)
    figure = Figure(figsize=(1.95 * columns + 0.4, 2.1 * rows + 0.1))
    grid = figure.subplots(rows, columns, squeeze=False)
    for axes in grid.flat[len(shown) :]:
        axes.set_visible(False)
    for i, (axes, (name, table)) in enumerate(zip(grid.flat, shown, strict=False)):
        _confusion(axes, table, name)
        if i % columns == 0:
            axes.set_ylabel("algorithm's TBS")
    return figure


def _confusion(axes: Axes, table: Confusion, name: str) -> None:
    shares = table.column_shares
    axes.imshow(np.nan_to_num(shares), cmap="Blues", vmin=0, vmax=1, origin="lower")
    for (y, x), count in np.ndenumerate(table.counts):
        if count:
            ink = "white" if shares[y, x] > 0.55 else "black"
            axes.text(x, y, f"{100 * shares[y, x]:.0f} %\n{count}", ha="center", va="center", size=6, color=ink)
    ticks = range(len(TRAINABLE_BETHESDA))
    axes.set_xticks(ticks, [str(c) for c in TRAINABLE_BETHESDA])
    axes.set_yticks(ticks, [str(c) for c in TRAINABLE_BETHESDA])
    axes.set(xlabel=f"TBS, {name}", title=f"n = {table.n}")
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


def informativeness_histogram(slides: Sequence[TileFacts]) -> Figure:
    figure, (axes,) = panels(1, 2.7, 4.8)
    counts = np.sum([one.informativeness for one in slides], axis=0)
    edges = np.linspace(0, 1, len(counts) + 1)
    colours = [VERMILION if left >= 0.5 else BLUE for left in edges[:-1]]
    axes.bar(edges[:-1], counts, np.diff(edges) * 0.92, align="edge", color=colours)
    axes.set_yscale("log")
    axes.set(xlabel="informativeness", ylabel="tiles (logarithmic)", xlim=(0, 1), ylim=(0.7, None))
    axes.axvline(0.5, color=BLACK, linestyle=":", linewidth=0.9)
    return figure
