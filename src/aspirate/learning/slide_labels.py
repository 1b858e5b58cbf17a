"""What is known of slides, as ranks to learn from and to be judged by."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aspirate.core.ranking import concordance
from aspirate.core.records import SlideEntry
from aspirate.nn.ordinal import UNKNOWN

Ranks = dict[str, NDArray[np.int64]]
LabelLogits = Mapping[str, NDArray[np.float32]]
"""Per label, the logits (K,) that a slide's rank exceeds each cut."""


def score_of(exceeds: LabelLogits) -> float:
    """The logit of malignancy, or the mean of the four of S where Y is not learned from."""
    return float((exceeds["Y"] if "Y" in exceeds else exceeds["S"]).mean())


def ranks_of(entries: Sequence[SlideEntry]) -> Ranks:
    """Ranks of slides by label, −1 where unknown; TBS 1 is no rank."""
    malignant = [UNKNOWN if e.malignant is None else int(e.malignant) for e in entries]
    bethesda = [UNKNOWN if e.bethesda is None or e.bethesda < 2 else e.bethesda - 2 for e in entries]
    return {"Y": np.array(malignant, np.int64), "S": np.array(bethesda, np.int64)}


def useful_slides(ranks: Ranks, labels: str) -> NDArray[np.int64]:
    """Slides that have at least one of the labels; all, where none of these is a slide's."""
    known = [ranks[label] != UNKNOWN for label in labels if label in ranks]
    return np.flatnonzero(np.any(known, axis=0)) if known else np.arange(len(ranks["Y"]))


def judged_order(scores: ArrayLike, entries: Sequence[SlideEntry]) -> Mapping[str, float]:
    """How well scores order held-out slides: by Y and by S where known, `judged` their mean."""
    scores = np.asarray(scores, float)
    by = {}
    for label, ranks in ranks_of(entries).items():
        known = ranks != UNKNOWN
        by[label] = concordance(scores[known], ranks[known])
    finite = [value for value in by.values() if np.isfinite(value)]
    judged = sum(finite) / len(finite) if finite else float("nan")
    return {"judged": judged, "auc": by["Y"], "concordance_bethesda": by["S"]}
