"""What a method says of a slide, put into words as a row of `predictions.csv`."""

from dataclasses import dataclass

from aspirate.core.predictions import Prediction
from aspirate.core.records import SlideEntry
from aspirate.stages.calibration import Calibration
from aspirate.stages.slide_score import Adequacy


@dataclass(frozen=True, slots=True)
class Opinion:
    score: float
    bethesda: int | None


def prediction_of(
    entry: SlideEntry,
    opinion: Opinion,
    calibration: Calibration,
    threshold: float,
    enough: Adequacy | None,
    fold: str,
    method: str,
) -> Prediction:
    """For an inadequate slide the score stands alone; methods that see whole slides cannot tell (`enough` is None)."""
    said = enough is None or enough.adequate
    return Prediction(
        slide_id=entry.slide_id,
        fold=fold,
        method=method,
        malignant=entry.malignant,
        bethesda=entry.bethesda,
        score=opinion.score,
        probability=float(calibration.probability(opinion.score)) if said else None,
        predicted_malignant=opinion.score > threshold if said else None,
        predicted_bethesda=opinion.bethesda if said else None,
        adequate=None if enough is None else enough.adequate,
        informative_tiles=None if enough is None else enough.informative_tiles,
        status="ok" if said else "inadequate",
    )


def failed_row(entry: SlideEntry, why: str) -> Prediction:
    """A slide of which nothing can be said is a row all the same."""
    return Prediction(entry.slide_id, malignant=entry.malignant, bethesda=entry.bethesda, status="failed", error=why)
