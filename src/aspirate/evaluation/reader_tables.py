"""Tables of readers: beside the algorithm, together with it, and where the two conflict."""

from collections.abc import Sequence

from aspirate.evaluation.analysis import Analysis
from aspirate.evaluation.readers import ALGORITHM, Combination
from aspirate.evaluation.tables import HOLM, PValue, Signed, Table


def readers_table(analysis: Analysis) -> Table:
    found = analysis.readers.comparisons if analysis.readers else ()
    rows = tuple(
        (
            one.reader,
            one.own.auc,
            one.algorithm.auc,
            Signed(one.gain.auc_delong.estimate),
            PValue(one.gain.auc_delong.p_holm),
            one.own.ap,
            one.algorithm.ap,
            Signed(one.gain.ap.estimate),
            PValue(one.gain.ap.p_holm),
            f"{one.own.malignant}/{one.own.auc.n}",
        )
        for one in found
    )
    columns = ("reader", "AUC, reader", "AUC, algorithm", "ΔAUC", "p", "AP, reader", "AP, algorithm", "ΔAP", "p ")
    note = f"{analysis.reference} on the slides of each reader. Δ: algorithm less reader; {HOLM} ({len(rows)})."
    return Table("readers", "Readers beside the algorithm", (*columns, "malignant / slides"), rows, note)


def combination_table(analysis: Analysis) -> Table:
    rows = tuple(
        (
            one.reader,
            one.rule,
            one.discrimination.auc,
            Signed(one.gain.auc_delong.estimate),
            PValue(one.gain.auc_delong.p_holm),
            one.discrimination.ap,
            Signed(one.gain.ap.estimate),
            PValue(one.gain.ap.p_holm),
            " / ".join(str(one.decided_by(who)) for who in ("reader", "algorithm", "both")),
            len(one.conflicts),
            one.discrimination.auc.n,
        )
        for one in _combinations(analysis)
    )
    columns = ("reader", "rule", "AUC", "ΔAUC", "p", "AP", "ΔAP", "p ", "decided by reader / algorithm / both")
    note = (
        "Whoever says TBS 2 or 6 decides; where both say 3–5, the reader does (Combined345Human) or the algorithm "
        f"(Combined345Alg). Δ: combined less the reader alone; {HOLM} ({len(rows)})."
    )
    return Table("combination", "Reader and algorithm together", (*columns, "conflicts", "slides"), rows, note)


def _combinations(analysis: Analysis) -> Sequence[Combination]:
    return analysis.readers.combinations if analysis.readers else ()


def conflicts_table(analysis: Analysis) -> Table:
    truth = analysis.truth
    names = {True: "malignant", False: "benign", None: "unknown"}
    rows = tuple(
        (slide.slide_id, one.reader, f"TBS {slide.reader}", f"TBS {slide.algorithm}", names[truth[slide.slide_id]])
        for one in _combinations(analysis)
        if one.rule == "Combined345Human"  # both rules have the same
        for slide in one.conflicts
    )
    note = "One says TBS 2, the other TBS 6. The reader stands; look at these slides again."
    return Table(
        "conflicts", "Conflicts", ("slide", "reader", "reader says", "algorithm says", "histology"), rows, note
    )


def _who(name: str) -> str:
    return name if name == ALGORITHM else f"reader {name}"


def kappa_table(analysis: Analysis) -> Table:
    found = analysis.readers.agreements if analysis.readers else ()
    rows = tuple((_who(one.first), _who(one.second), one.kappa, one.kappa.n) for one in found)
    return Table("kappa", "Agreement on TBS", ("first", "second", "κ", "slides"), rows, "Quadratic weights.")
