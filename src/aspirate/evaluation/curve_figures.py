"""Figures of curves: ROC and precision–recall of methods and readers, reliability, net benefit."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from aspirate.core.learning_points import LearningPoint
from aspirate.evaluation.analysis import Analysis, ReadersAnalysis
from aspirate.evaluation.curves import Curves
from aspirate.evaluation.drawing import BLACK, BLUE, DASHES, GREY, SERIES, VERMILION, panels, unit_square
from aspirate.evaluation.probabilities import ProbabilityQuality
from aspirate.evaluation.readers import ALGORITHM

FEW = len(SERIES)
"""Methods that can be told apart by colour; of more, all but the reference are grey."""


def methods_curves(analysis: Analysis) -> Figure:
    figure, axes = panels(2, 3.9)
    known = [method for method in analysis.methods if method.curves.thresholds]
    few = len(known) <= FEW
    others = iter(zip(SERIES[1:], DASHES[1:], strict=True))
    for method in known:
        auc, ap = method.pooled.auc.value, method.pooled.ap.value
        if method.name == analysis.reference:
            colour, dash, width, name, over = BLACK, DASHES[0], 2.0, method.name, 3
        elif few:
            colour, dash = next(others)
            width, name, over = 1.3, method.name, 2
        else:
            colour, dash, width, name, over = GREY, "-", 0.7, "", 1
        labels = [f"{name}, {what} {value:.3f}" if name else None for what, value in (("AUC", auc), ("AP", ap))]
        _draw(axes, method.curves, labels, color=colour, linestyle=dash, linewidth=width, zorder=over)
    if not few:
        for each in axes:
            each.plot([], [], color=GREY, linewidth=0.7, label=f"{len(known) - 1} other methods")
    _finish(figure, axes, max(method.curves.malignant / method.curves.n for method in known))
    return figure


def readers_curves(reference: str, readers: ReadersAnalysis) -> Figure:
    figure, axes = panels(2, 3.9)
    known = {name: curve for name, curve in readers.curves.items() if curve.thresholds}
    for i, (name, curve) in enumerate(known.items()):
        style = {"color": SERIES[i % FEW], "linestyle": DASHES[i % FEW], "zorder": 3 if name == ALGORITHM else 2}
        shown = reference if name == ALGORITHM else f"reader {name}"
        marker = {} if name == ALGORITHM else {"marker": "o", "markersize": 3.5, "markevery": slice(1, None)}
        label = f"{shown}, n = {curve.n}"
        _draw(axes, curve, [label, label], **style, **marker)
    _finish(figure, axes, max(curve.malignant / curve.n for curve in known.values()))
    return figure


def _draw(axes: list[Axes], curve: Curves, labels: list[str | None], **style: Any) -> None:
    fpr, tpr = np.array((0, *curve.false_positive_rate)), np.array((0, *curve.sensitivity))
    axes[0].plot(fpr, tpr, label=labels[0], **style)
    recall, precision = np.array((0, *curve.sensitivity)), np.array((curve.precision[0], *curve.precision))
    # a step, as average precision counts it: between two scores nothing is interpolated
    axes[1].plot(recall, precision, drawstyle="steps-pre", label=labels[1], **style)


def _finish(figure: Figure, axes: list[Axes], prevalence: float) -> None:
    unit_square(axes[0], "1 − specificity", "sensitivity")
    axes[0].plot([0, 1], [0, 1], color=GREY, linestyle=":", linewidth=0.9)
    unit_square(axes[1], "recall (sensitivity)", "precision (PPV)")
    axes[1].axhline(prevalence, color=GREY, linestyle=":", linewidth=0.9)
    for each in axes:
        each.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), handlelength=3)


def reliability_curves(analysis: Analysis) -> Figure:
    own = analysis.method(analysis.reference)
    stages = [(name, q) for name, q in (("before", own.before), ("after", own.after)) if q is not None]
    figure, axes = panels(len(stages), 3.6, 7.2 if len(stages) == 2 else 3.8)
    for each, (name, quality) in zip(axes, stages, strict=True):
        _reliability(each, quality)
        shown = "before calibration: σ(score)" if name == "before" else "after calibration"
        each.set_title(f"{shown}\nECE {quality.ece.value:.3f}, by chance up to {quality.ece.chance_high:.3f}")
    return figure


def _reliability(axes: Axes, quality: ProbabilityQuality) -> None:
    unit_square(axes, "probability said", "share that is malignant")
    axes.plot([0, 1], [0, 1], color=GREY, linestyle=":", linewidth=0.9)
    points = quality.reliability
    mean, seen = [p.mean for p in points], [p.observed.value for p in points]
    below = [p.observed.value - p.observed.low for p in points]
    above = [p.observed.high - p.observed.value for p in points]
    axes.errorbar(mean, seen, yerr=[below, above], color=BLUE, marker="o", markersize=4, capsize=2, elinewidth=0.8)


def decision_figure(analysis: Analysis) -> Figure:
    figure, (axes,) = panels(1, 2.9, 4.8)
    at = [point.threshold for point in analysis.decision_curve]
    own = [point.method for point in analysis.decision_curve]
    every = [point.treat_all for point in analysis.decision_curve]
    low, high = ([getattr(point, end) for point in analysis.decision_curve] for end in ("low", "high"))
    axes.fill_between(at, low, high, color=BLACK, alpha=0.12, linewidth=0)
    axes.plot(at, own, color=BLACK, label=analysis.reference)
    axes.plot(at, every, color=VERMILION, linestyle="--", label="call every slide malignant")
    axes.axhline(0, color=BLUE, linestyle=":", label="call no slide malignant")
    highest = max(0.01, *own, *every)
    axes.set(xlabel="threshold probability", ylabel="net benefit", xlim=(0, 1), ylim=(-0.25 * highest, 1.1 * highest))
    axes.grid(color="#e6e6e6", linewidth=0.6)
    axes.legend(loc="upper right")
    return figure


def learning_figure(points: Sequence[LearningPoint]) -> Figure:
    figure, (axes,) = panels(1, 3.2, 3.8)
    for fold in sorted({point.fold for point in points}):
        own = sorted((point for point in points if point.fold == fold), key=lambda point: point.annotations)
        axes.plot([p.annotations for p in own], [p.auc for p in own], color=GREY, linewidth=0.8, marker=".")
    shares = sorted({point.share for point in points})
    groups = [[point for point in points if point.share == share] for share in shares]
    means = [(np.mean([p.annotations for p in own]), np.nanmean([p.auc for p in own])) for own in groups]
    axes.plot(*zip(*means, strict=True), color=BLACK, linewidth=2.0, marker="o", markersize=4)
    axes.set_xscale("log")
    axes.set_xlabel("annotations learned from")
    axes.set_ylabel("AUC on test slides")
    axes.grid(alpha=0.25)
    return figure
