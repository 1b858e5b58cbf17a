"""An examination as a person reads it on a terminal."""

from collections.abc import Mapping

from rich.markup import escape

from aspirate.cli.display import out, table
from aspirate.slides.examination import LEVELS, Examination

SLIDES_SHOWN = 60
FINDINGS_SHOWN = 25
STYLES = {"error": "bold red", "warning": "yellow", "note": "dim"}


def show(examination: Examination) -> None:
    _show_slides(examination)
    _show_findings(examination)
    _show_labels(examination)
    out.print(f"[{'green' if examination.ok else 'bold red'}]{escape(examination.verdict)}[/]")


def _show_slides(examination: Examination) -> None:
    """All of a small cohort; of a large one those that need attention."""
    header, *rows = examination.rows()
    if len(rows) > SLIDES_SHOWN:
        fine = [row for row in rows if row[1] == "ok"]
        rows = [row for row in rows if row[1] != "ok"]
        out.print(f"{len(fine)} slides are fine" + (f", {len(rows)} are not:" if rows else ""))
    if rows:
        out.print(table([header, *rows[:SLIDES_SHOWN]], numeric=("levels", "µm/px", "tiles", "annotations")))
    if len(rows) > SLIDES_SHOWN:
        out.print(f"… and {len(rows) - SLIDES_SHOWN} more; --json FILE has all")


def _show_findings(examination: Examination) -> None:
    for level in LEVELS:
        found = [finding for finding in examination.findings if finding.level == level]
        for finding in found[:FINDINGS_SHOWN]:
            where = "" if finding.slide_id is None else f"{escape(finding.slide_id)}: "
            what = f"{where}{escape(finding.what)} [dim]→ {escape(finding.remedy)}[/]"
            out.print(f"[{STYLES[level]}]{level}[/]  {what}")
        if len(found) > FINDINGS_SHOWN:
            out.print(f"[{STYLES[level]}]{level}[/]  … and {len(found) - FINDINGS_SHOWN} more; --json FILE has all")
    if examination.findings:
        out.print()


def _show_labels(examination: Examination) -> None:
    counts = examination.counts
    out.print(
        f"{counts['slides']} slides of {counts['patients']} patients · {_by_value(counts['malignant'])} · "
        f"TBS {_by_value(counts['bethesda'])}"
    )
    if counts["annotations"]:
        grades = _by_value(counts["abnormality"])
        out.print(f"{counts['annotations']} annotations on {counts['annotated_slides']} slides · {grades}")
    train = [row.labels for row in examination.trainable if row.possible]
    crossval = [row.labels for row in examination.trainable if row.crossval]
    out.print(f"can be trained: {' '.join(train) or 'nothing'} · cross-validated: {' '.join(crossval) or 'nothing'}")
    lacking = [row.why for row in examination.trainable if not row.possible]
    reasons = dict.fromkeys(reason for why in lacking for reason in why.split("; "))
    for reason in reasons:
        out.print(f"  [dim]too few for {escape(reason)}[/]")


def _by_value(counts: Mapping[str, int]) -> str:
    """`benign: 44, malignant: 16`; what there is, without what there is not."""
    return ", ".join(f"{value}: {count}" for value, count in counts.items() if count) or "none"
