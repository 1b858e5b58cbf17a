"""The figures of a report, from what was found; one that would be empty is left out."""

from collections.abc import Callable
from math import isfinite

from matplotlib.figure import Figure

from aspirate.core.progress import Advance, silent
from aspirate.evaluation import bar_figures as bars
from aspirate.evaluation import curve_figures as lines
from aspirate.evaluation.analysis import Analysis
from aspirate.evaluation.drawing import Drawing, drawn

Plan = list[tuple[str, str, str, Callable[[], Figure]]]
"""Name, title, caption, and who draws it."""


def planned(analysis: Analysis) -> Plan:
    """In the order of the report."""
    return [*_of_methods(analysis), *_of_reference(analysis), *_of_readers(analysis), *_of_tiles(analysis)]


def draw_figures(plan: Plan, advance: Advance = silent) -> dict[str, Drawing]:
    """By name."""
    made = {}
    for name, title, caption, draw in plan:
        made[name] = drawn(name, title, caption, draw)
        advance(1)
    return made


def _of_methods(analysis: Analysis) -> Plan:
    plan: Plan = []
    if any(method.curves.thresholds for method in analysis.methods):
        caption = "Test slides of all folds together, ranked as in the table. Dotted: a score without any information."
        plan.append(("roc_pr", "ROC and precision–recall", caption, lambda: lines.methods_curves(analysis)))
    if len(analysis.methods) > 1 and any(isfinite(method.pooled.auc.value) for method in analysis.methods):
        caption = (
            "Points with 95 % intervals by resampling patients. Overlapping intervals say little of a difference: "
        )
        caption += "methods see the same slides, so the paired comparison counts."
        plan.append(("methods", "All methods, with intervals", caption, lambda: bars.methods_forest(analysis)))
    if any(method.operating for method in analysis.methods):
        caption = "Numbers are the share of malignant slides within each part, on test slides."
        plan.append(("operating_points", "What would be decided", caption, lambda: bars.operating_bars(analysis)))
    return plan


def _of_reference(analysis: Analysis) -> Plan:
    own = analysis.method(analysis.reference)
    plan: Plan = []
    if own.after is not None:
        caption = "Bins hold equally many slides; bars are exact 95 % intervals. On the dotted line probabilities hold."
        plan.append(("reliability", "Reliability", caption, lambda: lines.reliability_curves(analysis)))
    if analysis.reference_scores:
        caption = f"{analysis.reference}, test slides of all folds, by histology."
        plan.append(("histogram", "Slides by what was said of them", caption, lambda: bars.truth_histogram(analysis)))
    if analysis.decision_curve:
        caption = "Malignant slides found per slide, less false alarms weighed by the odds of the threshold. "
        caption += "Grey: 95 % at each threshold by itself, patients resampled."
        plan.append(("decision_curve", "Decision curve", caption, lambda: lines.decision_figure(analysis)))
    if any(isfinite(group.discrimination.auc.value) for group in own.subgroups):
        caption = "95 % intervals by DeLong; a group that lacks a kind has no point."
        plan.append(("subgroups", "Subgroups", caption, lambda: bars.subgroups_forest(analysis)))
    if bars.confusions(analysis):
        caption = f"Rows: TBS of {analysis.reference}. Each column sums to 100 %; below, numbers of slides."
        plan.append(
            ("confusion", "TBS of algorithm, report and readers", caption, lambda: bars.confusion_matrices(analysis))
        )
    return plan


def _of_readers(analysis: Analysis) -> Plan:
    readers = analysis.readers
    plan: Plan = []
    if readers is None:
        return plan
    if any(curve.thresholds for curve in readers.curves.values()):
        caption = "A reader's TBS 2 to 6 is a score, so each category is a point. The algorithm on all slides that any "
        caption += "reader read; compared figures, in the table, are of the slides that both have."
        draw = lines.readers_curves
        plan.append(("roc_pr_readers", "Readers and algorithm", caption, lambda: draw(analysis.reference, readers)))
    if readers.combinations and any(isfinite(one.own.auc.value) for one in readers.comparisons):
        caption = "Each reader alone, and with the algorithm by both rules, on the slides that both have."
        plan.append(("combination", "Reader and algorithm together", caption, lambda: bars.combination_forest(readers)))
    return plan


def _of_tiles(analysis: Analysis) -> Plan:
    plan: Plan = []
    if analysis.learning_curve:
        caption = "Grey: each fold. Black: their mean. Folds differ in their slides, so slopes tell more than heights."
        title = "What local annotations are worth"
        plan.append(("learning_curve", title, caption, lambda: lines.learning_figure(analysis.learning_curve)))
    found = analysis.ppi.model if analysis.ppi else ()
    if not found:
        return plan
    tiles, informative = sum(one.tiles for one in found), sum(one.informative for one in found)
    caption = f"All {tiles:,} tiles of {len(found)} test slides; {100 * informative / max(tiles, 1):.2f} % are above ½."
    draw = bars.informativeness_histogram
    return [*plan, ("informativeness", "Tiles by informativeness", caption, lambda: draw(found))]
