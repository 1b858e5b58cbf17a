"""Tables of tiles: how stage 1 did, what annotators marked, and what the model says of the tiles it kept."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from aspirate.core.labels import TRAINABLE_BETHESDA
from aspirate.evaluation.analysis import Analysis
from aspirate.evaluation.discrimination import OverFolds
from aspirate.evaluation.material import TileFacts
from aspirate.evaluation.tables import GAP, Cell, Share, Table

KINDS = ("benign", "malignant")


def _over(values: Mapping[str, float], slides: int) -> OverFolds:
    """Of folds in which the figure is defined."""
    known = [value for value in values.values() if np.isfinite(value)]
    sd = float(np.std(known, ddof=1)) if len(known) > 1 else float("nan")
    return OverFolds(float(np.mean(known)) if known else float("nan"), sd, values, slides)


def stage_1_table(analysis: Analysis) -> Table:
    names = sorted({name for figures in analysis.stage_1.values() for name in figures})
    rows: list[tuple[Cell, ...]] = []
    for name in names:
        values = {fold: figures[name] for fold, figures in analysis.stage_1.items() if name in figures}
        rows.append((name.replace("_", " "), _over(values, 0), int(np.isfinite(list(values.values())).sum())))
    columns = ("figure", "mean ± sd", "folds")
    return Table("stage_1", "Stage 1: which tiles are informative", columns, tuple(rows), "On slides held out.")


def learning_table(analysis: Analysis) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for share in sorted({point.share for point in analysis.learning_curve}):
        own = [point for point in analysis.learning_curve if point.share == share]
        values = {point.fold: point.auc for point in own}
        over = _over(values, sum(p.slides for p in own))
        rows.append((f"{100 * share:g} %", round(float(np.mean([p.annotations for p in own]))), over, len(own)))
    columns = ("share of annotations", "annotations a fold", "AUC over folds", "folds")
    note = "Of Proposed (U,Y,S), trained anew with a part of the annotations on the same folds; by score in each fold."
    return Table("learning_curve", "What local annotations are worth", columns, tuple(rows), note)


def marks_table(analysis: Analysis) -> Table:
    marks = analysis.ppi.marks if analysis.ppi else None
    rows: list[tuple[Cell, ...]] = []
    if marks is not None:
        for y, s in _kinds():
            counts, shares = marks.counts[y, s], marks.shares[y, s]
            if counts.sum():
                cells = (
                    f"{n:,} ({100 * share:.0f} %)" for n, share in zip(counts.tolist(), shares.tolist(), strict=True)
                )
                rows.append((KINDS[y], f"TBS {TRAINABLE_BETHESDA[s]}", *cells, int(marks.slides[y, s])))
    columns = ("histology", "report", "normal", "atypical", "malignant", "slides")
    note = (
        ""
        if marks is None
        else f"Not counted: {marks.ungraded:,} marks without a grade, {marks.unlabelled:,} on slides without labels."
    )
    return Table("marks", "What annotators marked", columns, tuple(rows), note)


def annotated_table(analysis: Analysis) -> Table:
    found = analysis.ppi.annotated if analysis.ppi else ()
    rows = tuple((one.slide_id, Share(one.malignant), Share(one.abnormal)) for one in found)
    columns = ("slide", "marks graded malignant", "marks graded atypical or malignant")
    return Table("ppi_annotated", "PPI of each slide by its annotations", columns, rows)


def _kinds() -> Iterator[tuple[int, int]]:
    return ((y, s) for y in range(len(KINDS)) for s in range(len(TRAINABLE_BETHESDA)))


def model_table(analysis: Analysis) -> Table:
    truth, tbs = analysis.truth, analysis.bethesda
    rows: list[tuple[Cell, ...]] = []
    for y, s in _kinds():
        own = [t for t in _model(analysis) if (truth[t.slide_id], tbs[t.slide_id]) == (bool(y), TRAINABLE_BETHESDA[s])]
        judged = [t for t in own if t.judged]
        if own:
            informative = _percent([t.informative / max(t.tiles, 1) for t in own], 2)
            shares = ([t.positive / t.judged for t in judged], [t.mean_probability for t in judged])
            rows.append((KINDS[y], f"TBS {TRAINABLE_BETHESDA[s]}", informative, *map(_percent, shares), len(own)))
    columns = (
        "histology",
        "report",
        "informative tiles",
        "kept tiles that score above 0",
        "mean σ(score) of kept tiles",
    )
    note = "What the model says of slides it was not trained on, not what is true. Mean ± sd over slides."
    return Table("ppi_model", "PPI as the model sees it", (*columns, "slides"), tuple(rows), note)


def _model(analysis: Analysis) -> Sequence[TileFacts]:
    return analysis.ppi.model if analysis.ppi else ()


def _percent(shares: Sequence[float], digits: int = 0) -> str:
    if not shares:
        return GAP
    spread = f" ± {100 * float(np.std(shares, ddof=1)):.{digits}f}" if len(shares) > 1 else ""
    return f"{100 * float(np.mean(shares)):.{digits}f}{spread} %"


def model_slides_table(analysis: Analysis) -> Table:
    rows = tuple(
        (
            t.slide_id,
            t.tiles,
            t.informative,
            t.judged,
            t.positive / t.judged if t.judged else float("nan"),
            t.mean_probability,
        )
        for t in _model(analysis)
    )
    columns = ("slide", "tiles", "informative tiles", "kept tiles", "share that scores above 0", "mean σ(score)")
    return Table("ppi_model_slides", "PPI of each slide as the model sees it", columns, rows)
