"""From scores of tiles to what a method says of their slide, put into words as a row of `predictions.csv`."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from aspirate.core.labels import TRAINABLE_BETHESDA
from aspirate.core.predictions import Prediction
from aspirate.core.records import SlideEntry
from aspirate.learning.settings import SlideTraining
from aspirate.nn.tile_pooling import AS_IT_IS, Pooling
from aspirate.stages.calibration import Calibration, fit_cuts
from aspirate.stages.slide_score import Adequacy, bethesda_of, slide_score

Scores = NDArray[np.floating]
"""Of the kept tiles of a slide."""


@dataclass(frozen=True, slots=True)
class Opinion:
    score: float
    bethesda: int | None

    def recut(self, cuts: tuple[float, ...]) -> "Opinion":
        """With the category that cuts on the axis of scores give; as it was, where there are none."""
        return replace(self, bethesda=bethesda_of(self.score, cuts)) if cuts else self


def slide_cuts(settings: SlideTraining, held_out: Iterable[tuple[SlideEntry, Opinion]]) -> tuple[float, ...]:
    """None where the method gives no category, its learned cuts are to stand, or all held-out slides are alike."""
    if settings.categories == "learned":
        return ()
    known = [(said.score, e.bethesda) for e, said in held_out if said.bethesda and e.bethesda in TRAINABLE_BETHESDA]
    return fit_cuts([score for score, _ in known], [category for _, category in known])


@dataclass(frozen=True, slots=True)
class Reading:
    """How scores of kept tiles are read: the slide's score is the mean of what `pooling` makes of them, its category is
    the mean of what `link` does, by the cuts. The proposed method takes scores as they are, in both."""

    pooling: Pooling = AS_IT_IS
    link: Pooling = AS_IT_IS
    cuts: tuple[float, ...] = ()
    """Of S, on the axis of `link`; empty where no category is given."""
    slide_cuts: tuple[float, ...] = ()
    """Of S, on the axis of the slide's score, which go first where held-out slides have given them."""

    def of_tiles(self, scores: Scores) -> Scores:
        """What each tile adds to the slide's score."""
        return _read(self.pooling, scores)

    def score(self, scores: Scores, u: NDArray[np.floating]) -> float:
        return slide_score(self.of_tiles(scores), u)

    def opinion(self, scores: Scores, u: NDArray[np.floating]) -> Opinion:
        category = bethesda_of(slide_score(_read(self.link, scores), u), self.cuts) if self.cuts else None
        return Opinion(self.score(scores, u), category).recut(self.slide_cuts)


def _read(pooling: Pooling, scores: Scores) -> Scores:
    return scores if pooling == AS_IT_IS else pooling.evidence(scores)


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
