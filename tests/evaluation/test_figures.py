"""Figures: drawn from the numbers, the same bytes each time, nothing from outside."""

import re
from dataclasses import replace
from functools import cache
from itertools import pairwise

import matplotlib
import numpy as np
import pytest
from matplotlib.axes import Axes
from tests.evaluation.simulated import RIVAL, simulated

from aspirate.evaluation import bar_figures, curve_figures
from aspirate.evaluation.analysis import Analysis, analyse
from aspirate.evaluation.drawing import STYLE, Drawing
from aspirate.evaluation.figures import draw_figures, planned
from aspirate.evaluation.material import PROPOSED, EvaluateSettings, Material, TileFacts

EXPECTED = [
    "roc_pr",
    "methods",
    "operating_points",
    "reliability",
    "histogram",
    "decision_curve",
    "subgroups",
    "confusion",
]
EXPECTED += ["roc_pr_readers", "combination"]


@cache
def found() -> Analysis:
    return analyse(simulated(), EvaluateSettings(resamples=100, benign_risk=0.1, malignant_risk=0.8))


@cache
def drawn() -> dict[str, Drawing]:
    return draw_figures(planned(found()))


def test_every_figure_that_has_data_is_drawn() -> None:
    assert list(drawn()) == EXPECTED
    bare = Material(tuple(r for r in simulated(40).predictions if r.malignant and r.method == PROPOSED))
    names = [name for name, *_ in planned(analyse(bare, EvaluateSettings(resamples=100)))]
    assert names == ["reliability", "histogram", "confusion"], "one kind has no ROC"
    no_category = tuple(replace(row, predicted_bethesda=None) for row in simulated(40).predictions)
    wordless = analyse(replace(simulated(40), predictions=no_category), EvaluateSettings(resamples=100))
    assert wordless.readers is not None
    assert "confusion" not in [name for name, *_ in planned(wordless)], "readers have categories, the algorithm none"


def test_the_same_figure_is_the_same_bytes_and_refers_to_nothing() -> None:
    again = draw_figures(planned(found())[:2])
    for name, drawing in again.items():
        assert drawing.svg == drawn()[name].svg and drawing.pdf == drawn()[name].pdf
    for drawing in drawn().values():
        links = set(re.findall(r"https?://[^\s\"<]+", drawing.svg[drawing.svg.index("<svg") :]))
        assert links <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
        assert drawing.pdf.startswith(b"%PDF") and b"CreationDate" not in drawing.pdf


def lines_of(axes: Axes) -> dict[str, np.ndarray]:
    return {str(line.get_label()): np.asarray(line.get_xydata()) for line in axes.get_lines()}


def test_curves_are_the_points_of_the_analysis() -> None:
    roc, pr = curve_figures.methods_curves(found()).axes
    own = found().method(RIVAL)
    line = lines_of(roc)[f"{RIVAL}, AUC {own.pooled.auc.value:.3f}"]
    assert line[1:, 0] == pytest.approx(own.curves.false_positive_rate)
    assert line[1:, 1] == pytest.approx(own.curves.sensitivity)
    line = lines_of(pr)[f"{RIVAL}, AP {own.pooled.ap.value:.3f}"]
    assert line[1:, 1] == pytest.approx(own.curves.precision)


def test_histogram_and_bars_count_every_slide() -> None:
    axes = bar_figures.truth_histogram(found()).axes[0]
    heights = [sum(bar.get_height() for bar in bars) for bars in axes.containers]
    own = found().method(PROPOSED).pooled
    assert heights == [own.benign, own.malignant]
    axes = bar_figures.operating_bars(found()).axes[0]
    widths = [bars[0].get_width() for bars in axes.containers][:3]
    operating = found().method(PROPOSED).operating
    assert operating is not None and sum(widths) == pytest.approx(1)
    assert widths[0] == pytest.approx(operating.decisions.called_benign.value)


def test_tiles_by_informativeness_are_summed_over_slides() -> None:
    slides = [TileFacts("a", (3, 0, 1), 1, 1, 1, 0.6), TileFacts("b", (5, 2, 2), 2, 2, 0, 0.4)]
    axes = bar_figures.informativeness_histogram(slides).axes[0]
    assert [bar.get_height() for bar in axes.patches] == [8, 2, 3]  # type: ignore[attr-defined]


def test_no_words_are_cut_off_or_laid_over_each_other() -> None:
    with matplotlib.rc_context(STYLE):
        figure = bar_figures.methods_forest(found())
        figure.draw_without_rendering()
        names = [label.get_window_extent() for label in figure.axes[0].get_yticklabels() if label.get_text()]
        assert len(names) == 2 and all(a.y0 > b.y1 or b.y0 > a.y1 for a, b in pairwise(names))
        box = figure.get_tightbbox()
        assert all(name.x0 / figure.dpi >= box.x0 - 1e-6 for name in names)
