"""How far a scout may be trusted: decided on validation slides, where r_φ has looked at every tile.

The cascade runs on each of them with ever larger margins δ, once as on a new slide and once without the check by which
a slide looks further. The smallest margin is taken at which half of the error that is promised is not exceeded, since
validation slides are few:

                                            promised         on validation slides
    overlap, mean over slides               ≥ 0.98           ≥ 0.99, without the check
    overlap, worst slide                    ≥ 0.95           ≥ 0.975, with it
    change of a slide's probability         ≤ 0.01           ≤ 0.005, with it

So on the whole a margin must do by itself; on a small slide the check would see a good part of all tiles and prove
nothing. A single slide is judged as it will be: one with a dozen kept tiles may have one that the check finds.
Overlap is the share of the tiles kept by looking everywhere that the cascade keeps too. Where no margin does that with
less than half of the tiles looked at, the scout is not used.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aspirate.stages.selection import SelectionSettings
from aspirate.workflow.cascade import Cascade, Seen

MEAN_OVERLAP, WORST_OVERLAP, PROBABILITY = 0.98, 0.95, 0.01
"""Promised."""
MARGINS = tuple(np.arange(0.25, 12.25, 0.25).tolist())
MOST = 0.5
"""Share of tiles looked at beyond which a scout is not worth it."""


@dataclass(frozen=True, slots=True)
class HeldSlide:
    """A validation slide."""

    scouted: NDArray[np.float32]
    logits: NDArray[np.float32]
    """r_φ's, of every tile."""
    kept: NDArray[np.bool_]
    probability: Callable[[NDArray[np.bool_]], float]
    """Of malignancy, were these tiles kept."""


@dataclass(frozen=True, slots=True)
class Trust:
    """What was found on validation slides with the margin chosen, or with the widest where none will do."""

    admitted: bool
    margin: float
    slides: int
    overlap: float
    """Mean over slides,"""
    overlap_worst: float
    """and of the worst; both as on a new slide."""
    delta_probability: float | None
    """Of the worst slide; None where the overlap was too small to go on."""
    share: float
    """Of tiles that r_φ looked at, for the check too; mean over slides,"""
    share_worst: float
    """and of the worst."""
    overlap_unchecked: float | None = None
    """Mean over slides without the check; unknown in bundles of earlier versions."""

    @property
    def sentence(self) -> str:
        found = (
            f"on {self.slides} validation slides it kept {self.overlap:.1%} of the tiles that are kept by looking "
            f"everywhere (worst slide {self.overlap_worst:.1%}), and {self.share:.1%} of the tiles were looked at "
            f"closely (worst slide {self.share_worst:.1%})"
        )
        if self.delta_probability is not None:
            found += f"; the probability of malignancy changed by at most {self.delta_probability:.3f}"
        if self.admitted:
            return f"A scout decides which tiles are looked at closely, margin {self.margin:g} logits: {found}."
        return f"A scout was trained but is not used, so every tile is looked at closely: {found}."


def overlap(kept: NDArray[np.bool_], exact: NDArray[np.bool_]) -> float:
    """Share of the exact selection that was kept too."""
    return float((kept & exact).sum() / exact.sum())


def decide(slides: Sequence[HeldSlide], confident: float, selection: SelectionSettings) -> Trust:
    """The smallest margin that will do, or the last one tried."""
    for margin in MARGINS:
        trust = _tried(slides, Cascade(margin, confident, selection))
        if trust.admitted or trust.share > MOST:
            break
    return trust


def _tried(slides: Sequence[HeldSlide], cascade: Cascade) -> Trust:
    def seen(checked: bool) -> list[Seen]:
        return [cascade.see(slide.scouted, slide.logits.__getitem__, checked=checked) for slide in slides]

    def overlaps(found: list[Seen]) -> list[float]:
        return [overlap(each.kept, slide.kept) for each, slide in zip(found, slides, strict=True)]

    as_new = seen(checked=True)
    agreed, unchecked = overlaps(as_new), float(np.mean(overlaps(seen(checked=False))))
    shares = [float(each.exact.mean()) for each in as_new]
    alike = (
        1 - unchecked <= (1 - MEAN_OVERLAP) / 2
        and 1 - min(agreed) <= (1 - WORST_OVERLAP) / 2
        and np.mean(shares) <= MOST
    )
    change = None
    if alike:  # else tiles that only the cascade keeps would be read for nothing
        pairs = zip(as_new, slides, strict=True)
        change = max(abs(slide.probability(each.kept) - slide.probability(slide.kept)) for each, slide in pairs)
    return Trust(
        admitted=change is not None and change <= PROBABILITY / 2,
        margin=cascade.margin,
        slides=len(slides),
        overlap=float(np.mean(agreed)),
        overlap_worst=min(agreed),
        delta_probability=change,
        share=float(np.mean(shares)),
        share_worst=max(shares),
        overlap_unchecked=unchecked,
    )
