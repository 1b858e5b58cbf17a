"""The tables of a report, from what was found; one that would be empty is left out."""

from collections.abc import Callable, Sequence

from aspirate.core.labels import TRAINABLE_BETHESDA
from aspirate.evaluation.analysis import Analysis
from aspirate.evaluation.method_results import MethodResult
from aspirate.evaluation.operating_points import Rates
from aspirate.evaluation.reader_tables import combination_table, conflicts_table, kappa_table, readers_table
from aspirate.evaluation.readers import Gain
from aspirate.evaluation.tables import GAP, HOLM, Cell, PValue, Share, Signed, Table
from aspirate.evaluation.tile_tables import (
    annotated_table,
    learning_table,
    marks_table,
    model_slides_table,
    model_table,
    stage_1_table,
)


def tables(analysis: Analysis) -> dict[str, Table]:
    """By name, in the order of the report."""
    makers: Sequence[Callable[[Analysis], Table]] = (
        slides_table, methods_table, reference_table, pairs_table, calibration_table, operating_table, rates_table,
        agreement_table, confusion_table, subgroups_table, readers_table, combination_table, conflicts_table,
        kappa_table, stage_1_table, learning_table, marks_table, annotated_table, model_table, model_slides_table,
    )  # fmt: skip
    made = [make(analysis) for make in makers]
    return {table.name: table for table in made if table.rows}


def slides_table(analysis: Analysis) -> Table:
    found = analysis.slides
    rows: list[tuple[Cell, ...]] = [("all", found.slides)]
    rows += [("patients", found.patients)] if found.patients is not None else []
    rows += [("malignant by histology", found.malignant), ("benign by histology", found.benign)]
    rows += [("histology unknown", found.unlabelled)] if found.unlabelled else []
    rows += [*found.by_bethesda.items(), *((f"site {name}", count) for name, count in found.by_site.items())]
    return Table("slides", "Slides", ("slides", "number"), tuple(rows))


def methods_table(analysis: Analysis) -> Table:
    columns = (
        "method",
        "AUC over folds",
        "AP over folds",
        "AUC",
        "AUC, DeLong",
        "AP",
        "malignant / slides",
        "left out",
    )
    rows = tuple(
        (
            method.name,
            method.auc_folds,
            method.ap_folds,
            method.pooled.auc,
            method.pooled.auc_delong,
            method.pooled.ap,
            f"{method.pooled.malignant}/{method.counts.used}",
            _left_out(method),
        )
        for method in analysis.methods
    )
    note = (
        "Over folds: mean ± standard deviation, by score within each fold. Others: all folds together, by probability "
        "(where there is none and one fold, by score), 95 % intervals by resampling patients or by DeLong."
    )
    return Table("methods", "All methods", columns, rows, note, analysis.reference)


def _left_out(method: MethodResult) -> str:
    found = method.counts
    named = (("inadequate", found.inadequate), ("failed", found.failed), ("histology unknown", found.unlabelled))
    return ", ".join(f"{count} {name}" for name, count in named if count) or "none"


def _gain_cells(gain: Gain) -> tuple[Cell, ...]:
    three = (gain.auc_delong, gain.auc, gain.ap)
    return tuple(cell for one in three for cell in (Signed(one.estimate), PValue(one.p_holm)))


GAIN_COLUMNS = ("ΔAUC, DeLong", "p", "ΔAUC, bootstrap", "p ", "ΔAP, bootstrap", "p  ")


def reference_table(analysis: Analysis) -> Table:
    """The blanks after p keep the names of columns apart."""
    rows = tuple((gain.auc.second, *_gain_cells(gain), gain.auc.estimate.n) for gain in analysis.against_reference)
    title = f"{analysis.reference} less each other method"
    note = f"On the slides that both have. Above 0: {analysis.reference} is better. {HOLM} ({len(rows)})."
    return Table("against_reference", title, ("method", *GAIN_COLUMNS, "slides"), rows, note)


def pairs_table(analysis: Analysis) -> Table:
    rows = tuple(
        (gain.auc.first, gain.auc.second, *_gain_cells(gain), PValue(gain.auc_delong.p), gain.auc.estimate.n)
        for gain in analysis.pairs
    )
    columns = ("first", "second", *GAIN_COLUMNS, "p, DeLong, not adjusted", "slides")
    return Table("pairs", "First less second, all pairs", columns, rows, f"{HOLM} ({len(rows)}).")


def calibration_table(analysis: Analysis) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for method in analysis.methods:
        for name, found in (("before", method.before), ("after", method.after)):
            if found is not None:
                ece = found.ece
                chance = f"{ece.chance_mean:.3f}, 95 % below {ece.chance_high:.3f}"
                rows.append((method.name, name, found.brier, found.log_loss, ece, chance, ece.bins, ece.n))
    columns = ("method", "calibration", "Brier", "log loss", "ECE", "ECE by chance", "bins", "slides")
    note = (
        "Before: σ(score). After: the calibrated probability. ECE by chance: what perfectly calibrated probabilities "
        "would show with as many slides. Chance only raises an ECE, so its interval lies rather below than about it, "
        "and reaches 0 where chance explains it."
    )
    return Table("calibration", "Calibration", columns, tuple(rows), note, analysis.reference)


def operating_table(analysis: Analysis) -> Table:
    rows = tuple(
        (
            method.name,
            Share(d.decided),
            Share(d.benign_risk),
            Share(d.malignant_risk),
            Share(d.undecided_risk),
        )
        for method in analysis.methods
        if method.operating is not None
        for d in (method.operating.decisions,)
    )
    columns = ("method", "decided", "malignant of those called benign", "malignant of those called malignant")
    settings = analysis.settings
    note = (
        "Thresholds were chosen in each fold on validation slides alone, for a risk of malignancy of at most "
        f"{100 * settings.benign_risk:g} % among slides called benign and at least "
        f"{100 * settings.malignant_risk:g} % among those called malignant; the rest is "
        "left undecided. Here is what came of it on test slides. Exact intervals."
    )
    title = "Whom it would decide, at which risk"
    return Table("operating_points", title, (*columns, "malignant of the undecided"), rows, note, analysis.reference)


def rates_table(analysis: Analysis) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for method in analysis.methods:
        named: list[tuple[str, Rates | None]] = [("own threshold", method.own_rates)]
        if method.operating is not None:
            found = method.operating.decisions
            named += [("rule out: not called benign", found.rule_out), ("rule in: called malignant", found.rule_in)]
        rows += [
            (method.name, name, Share(r.sensitivity), Share(r.specificity), r.ppv, r.npv, r.prevalence)
            for name, r in named
            if r is not None
        ]
    columns = ("method", "counted as malignant", "sensitivity", "specificity", "PPV", "NPV", "at prevalence")
    note = "PPV and NPV by Bayes at the prevalence given; exact intervals, slides taken as independent."
    return Table("rates", "Sensitivity and specificity", columns, tuple(rows), note, analysis.reference)


def agreement_table(analysis: Analysis) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for method in analysis.methods:
        sets = method.sets
        if method.confusion.n:
            cells: tuple[Cell, ...] = (GAP, GAP, GAP)
            if sets is not None:
                cells = (Share(sets.coverage.covered), sets.coverage.mean_size, Share(sets.coverage.singletons))
            rows.append((method.name, method.kappa, method.confusion.n, *cells))
    promised = 1 - analysis.settings.alpha
    columns = (
        "method",
        "κ with the report",
        "slides",
        f"sets hold the TBS ({100 * promised:g} % promised)",
        "mean size",
    )
    note = (
        "κ with quadratic weights. Sets are ranges of TBS categories by split conformal prediction; only a method "
        "that learns cuts for its score has them."
    )
    title = "TBS categories"
    return Table("agreement", title, (*columns, "sets of one category"), tuple(rows), note, analysis.reference)


def subgroups_table(analysis: Analysis) -> Table:
    rows = tuple(
        (
            method.name,
            group.name if group.kind == "bethesda" else f"site {group.name}",
            group.discrimination.auc_delong,
            group.discrimination.ap,
            f"{group.discrimination.malignant}/{group.discrimination.malignant + group.discrimination.benign}",
            *(
                (Share(d.decided), Share(d.benign_risk), Share(d.malignant_risk))
                if (d := group.decisions) is not None
                else (GAP, GAP, GAP)
            ),
            group.discrimination.auc_delong.note,
        )
        for method in analysis.methods
        for group in method.subgroups
    )
    called = ("malignant of those called benign", "malignant of those called malignant")
    columns = ("method", "slides", "AUC, DeLong", "AP", "malignant / slides", "decided", *called, "note")
    note = "TBS as reported. Decided by the thresholds that were chosen for all slides."
    return Table("subgroups", "Subgroups", columns, rows, note, analysis.reference)


def confusion_table(analysis: Analysis) -> Table:
    """The counts that figures of confusion show, for the reference method and for readers."""
    own = analysis.method(analysis.reference)
    pairs = [(own.name, "report", own.confusion)] if own.confusion.n else []
    pairs += [(p.first, p.second, p.confusion) for p in (analysis.readers.agreements if analysis.readers else ())]
    names = [f"TBS {category}" for category in TRAINABLE_BETHESDA]
    rows = tuple(
        (first, second, name, *counts)
        for first, second, table in pairs
        for name, counts in zip(names, table.counts.tolist(), strict=True)
    )
    columns = ("first", "second", "first says", *(f"second says {name}" for name in names))
    return Table("confusion", "TBS categories of two", columns, rows, f"algorithm: {own.name}.")
