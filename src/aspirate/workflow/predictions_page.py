"""All predicted slides on one page, each with a link to its sheet; needs no pixels, so it is cheap to write again."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from aspirate import __version__
from aspirate.core.labels import BETHESDA_NAMES
from aspirate.core.predictions import Prediction
from aspirate.core.ranking import auc, average_precision
from aspirate.core.store import write_text
from aspirate.workflow.charts import strip
from aspirate.workflow.sheet import percent, templates

OUTCOMES = {True: "malignant", False: "benign"}


def write_predictions_page(
    path: Path, predictions: Sequence[Prediction], model_sha256: str, threshold: float, title: str = "Predictions"
) -> None:
    """`threshold` is the score above which a slide is called malignant."""
    statuses = Counter(prediction.status for prediction in predictions)
    shown = {"slides": len(predictions), "judged": statuses["ok"], "inadequate": statuses["inadequate"]}
    shown |= {"failed": statuses["failed"]}
    facts = [(name, f"{count:,}") for name, count in shown.items() if count or name == "slides"]
    figures = known_figures(predictions)
    template = templates().get_template("predictions.html.j2")
    html = template.render(
        title=title,
        facts=facts + [(name, f"{value:.3f}") for name, value in figures.items()],
        strip=strip(_by_outcome(predictions), threshold) if figures else None,
        rows=predictions,
        known=known if any(map(known, predictions)) else None,
        percent=percent,
        bethesda_names=BETHESDA_NAMES,
        method=next((row.method for row in predictions if row.method), ""),
        model_sha256=model_sha256,
        version=__version__,
    )
    write_text(path, html)


def known_figures(predictions: Sequence[Prediction]) -> dict[str, float]:
    """AUC and average precision over judged slides whose outcome is known; empty unless both outcomes are there."""
    rows = [row for row in predictions if row.status == "ok" and row.malignant is not None]
    scores, malignant = [row.score or 0.0 for row in rows], [bool(row.malignant) for row in rows]
    if len(set(malignant)) < 2:
        return {}
    return {"AUC": auc(scores, malignant), "average precision": average_precision(scores, malignant)}


def _by_outcome(predictions: Sequence[Prediction]) -> dict[str, list[tuple[str, float, str]]]:
    return {
        name: [
            (row.slide_id, row.score or 0.0, f"{row.slide_id}: {percent(row.probability or 0.0)}")
            for row in predictions
            if row.status == "ok" and row.malignant is outcome
        ]
        for outcome, name in OUTCOMES.items()
    }


def known(prediction: Prediction) -> str:
    """What the cohort says of the slide."""
    histology = "" if prediction.malignant is None else OUTCOMES[prediction.malignant]
    return ", ".join(filter(None, (histology, f"TBS {prediction.bethesda}" if prediction.bethesda else "")))
