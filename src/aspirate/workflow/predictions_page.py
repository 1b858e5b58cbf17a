"""All predicted slides on one page, each with a link to its sheet; needs no pixels, so it is cheap to write again."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from aspirate import __version__
from aspirate.core.labels import BETHESDA_NAMES
from aspirate.core.predictions import Prediction
from aspirate.core.store import write_text
from aspirate.workflow.sheet import percent, templates


def write_predictions_page(path: Path, predictions: Sequence[Prediction], model_sha256: str) -> None:
    statuses = Counter(prediction.status for prediction in predictions)
    shown = {"slides": len(predictions), "judged": statuses["ok"], "inadequate": statuses["inadequate"]}
    shown |= {"failed": statuses["failed"]}
    template = templates().get_template("predictions.html.j2")
    html = template.render(
        facts=[(name, f"{count:,}") for name, count in shown.items() if count or name == "slides"],
        rows=predictions,
        known=known if any(map(known, predictions)) else None,
        percent=percent,
        bethesda_names=BETHESDA_NAMES,
        method=next((row.method for row in predictions if row.method), ""),
        model_sha256=model_sha256,
        version=__version__,
    )
    write_text(path, html)


def known(prediction: Prediction) -> str:
    """What the cohort says of the slide."""
    histology = {None: "", True: "malignant", False: "benign"}[prediction.malignant]
    return ", ".join(filter(None, (histology, f"TBS {prediction.bethesda}" if prediction.bethesda else "")))
