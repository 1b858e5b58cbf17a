"""Which precisions may score a model unasked: those that agree with fp32 on the model's own reference tiles.

The order of the tiles must stay, for both nets (Spearman's rank correlation with fp32 at least 0.999), and so must the
probability of the slide that the reference tiles would make together, each counting as far as it is informative:

    P = σ(a·f + b),   f = Σ u·g / Σ u,   u = σ(r);     |P − P of fp32| ≤ 0.01

with g as it is read for a slide's score, and a and b of the calibration, whose limits do not apply here: beyond them
every difference would be 0.

Weights instead of a selection, because among so few tiles a single one that changed sides would weigh too much.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aspirate.core.logits import sigmoid
from aspirate.core.ranking import rank_correlation
from aspirate.nn.shapes import Range
from aspirate.stages.calibration import Calibration
from aspirate.workflow.opinion import Reading

RANK_CORRELATION = 0.999
DELTA_PROBABILITY = 0.01
AS_THEY_ARE = Reading()

Scores = Mapping[str, NDArray[np.floating]]
"""Of the reference tiles, by net."""


@dataclass(frozen=True, slots=True)
class Admission:
    """One precision before the reference tiles, as it stands in `model.json`."""

    precision: str
    admitted: bool
    why: str
    """In words."""
    rank_correlation: dict[str, float] = field(default_factory=dict)
    """By net; empty where the machine that made the bundle could not try it."""
    difference: dict[str, float] = field(default_factory=dict)
    """The largest, in logits, by net."""
    delta_probability: float | None = None
    ranges: dict[str, list[Range]] = field(default_factory=dict)
    """Of int8, by net: what came into each layer on the first half of the reference tiles."""

    @classmethod
    def read(cls, note: Mapping[str, Any]) -> "Admission":
        """As a stranger may have written it; what makes no sense is a ValueError or a TypeError."""
        ranges = {net: [(float(low), float(high)) for low, high in all_] for net, all_ in dict(note["ranges"]).items()}
        read = cls(**{**note, "ranges": ranges})
        numbers = [
            *read.rank_correlation.values(),
            *read.difference.values(),
            *(limit for all_ in ranges.values() for range_ in all_ for limit in range_),
        ]
        if not np.isfinite(np.array(numbers, np.float64)).all() or not isinstance(read.admitted, bool):
            raise ValueError(f"precision {read.precision}: its evidence makes no sense")
        return read

    def refuse_other(self, name: str, layers: int) -> None:
        """Ranges must be one for each layer in 8 bits: all but the first and the last."""
        if self.ranges and len(self.ranges.get(name, ())) != layers - 2:
            raise ValueError(f"precision {self.precision}: its ranges are not those of {name}")

    def allowed(self, net: str) -> float:
        """How far a score may be off when the model is loaded on another machine."""
        return 2 * self.difference.get(net, np.inf)


def slide_probability(scores: Scores, calibration: Calibration, reading: Reading = AS_THEY_ARE) -> float:
    """Of the slide that the reference tiles would make."""
    u = sigmoid(np.asarray(scores["informativeness"], np.float32))
    f = reading.score(np.asarray(scores["malignancy"]), np.maximum(u, 1e-6))
    return float(sigmoid(calibration.slope * f + calibration.offset))


def judged(
    precision: str,
    exact: Scores,
    found: Scores,
    calibration: Calibration,
    ranges: dict[str, list[Range]],
    reading: Reading = AS_THEY_ARE,
) -> Admission:
    """The verdict, from scores alone."""
    correlation = {name: round(rank_correlation(exact[name], found[name]), 6) for name in exact}
    difference = {name: float(f"{np.abs(found[name] - exact[name]).max():.3g}") for name in exact}
    delta = abs(slide_probability(found, calibration, reading) - slide_probability(exact, calibration, reading))
    if not np.isfinite([*correlation.values(), *difference.values(), delta]).all():
        return Admission(precision, False, "not admitted: scores that are no numbers, or do not tell tiles apart")
    admitted = all(value >= RANK_CORRELATION for value in correlation.values()) and delta <= DELTA_PROBABILITY
    evidence = (
        f"rank correlation {', '.join(f'{value:.4f}' for value in correlation.values())} with fp32 (at least "
        f"{RANK_CORRELATION:g}), slide probability off by {delta:.4f} (at most {DELTA_PROBABILITY:g})"
    )
    why = f"{'admitted' if admitted else 'not admitted'}: {evidence}"
    return Admission(precision, admitted, why, correlation, difference, float(f"{delta:.3g}"), ranges)
