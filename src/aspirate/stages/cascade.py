"""Which tiles r_φ looks at, where a scout has guessed what it would say of each.

A tile matters to a slide from the level L = min(confident, weakest kept so far) on: it is kept, or counted. Where as
many are kept as may be, and those found are enough to judge the slide, others would only be counted, and L is the
weakest kept. The scout's guess s is trusted up to a margin δ in logits, so r_φ looks at tiles in the order of s until
only tiles are left with

    s < L − δ.

Then the slide checks the scout. r_φ looks at the next n tiles in its order, and at n drawn from the N others. With
m = 2 % of the kept tiles tolerated as missed, the scout has failed on this slide if a of the last n within the margin
matter and b of the next, and more than m are still to come,

    min(b · max(looked at, n) / n,  b / (1 − ρ)) > m,     ρ = (b + ½) / (a + 1) < 1,

as many in each stretch of n as in the next, or ever fewer: then its guesses are too low, and a quarter more are looked
at; or if k of the drawn ones matter with P(K ≥ k) < 0.05, K binomial of n and m / N: then it is blind to some, and
twice as many are looked at. The slide checks again, up to all of its tiles. In the end, by Clopper and Pearson, with
95 % confidence at most

    p = B⁻¹(0.95; k + 1, n − k)

of the N matter, B the distribution function of a beta variable.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

CONFIDENCE = 0.95
TOLERATED = 0.02
"""Share of the kept tiles that may be missed."""
FURTHER, MUCH_FURTHER = 1.25, 2
"""How many times as many tiles are looked at where the next ones still matter, and where any others do."""
AUDIT_SHARE, SMALLEST_AUDIT = 1 / 400, 32
"""n, as a share of the tiles of a slide, and at the least."""

Tiles = NDArray[np.int64]
Score = Callable[[Tiles], NDArray[np.float32]]
"""r_φ's logits of tiles, by their numbers in rising order."""
Keep = Callable[[NDArray[np.float32]], NDArray[np.bool_]]
"""Tiles kept, from logits of all; −∞ is a tile nobody looked at."""
Enough = Callable[[NDArray[np.float32]], bool]
"""Whether a slide can be judged by what was found, from the same."""


@dataclass(frozen=True, slots=True)
class Looked:
    """What r_φ saw of a slide."""

    logits: NDArray[np.float32]
    """−∞ where it did not look."""
    audited: int
    """Tiles drawn from `rest` in the last check,"""
    found: int
    """those of them that matter,"""
    rest: int
    """and N; 0 where every tile was looked at."""
    widened: int
    """How often the slide did not trust the scout."""
    counted: bool = True
    """Whether all confident tiles were looked for, or only those to keep."""

    @property
    def at(self) -> NDArray[np.bool_]:
        return np.asarray(~np.isneginf(self.logits))

    @property
    def share(self) -> float:
        """Of all tiles."""
        return float(self.at.mean())

    @property
    def missed_at_most(self) -> float:
        """Share of the tiles not looked at that matter, with 95 % confidence."""
        return highest_share(self.found, self.audited) if self.rest else 0.0


def highest_share(found: int, drawn: int, confidence: float = CONFIDENCE) -> float:
    """The largest share at which so few would be found with probability 1 − confidence."""
    if found >= drawn:
        return 1.0
    if not found:
        return 1 - float((1 - confidence) ** (1 / drawn))
    from scipy.special import betaincinv  # here, since it takes longer to load than a small slide to score

    p = betaincinv(found + 1, drawn - found, confidence)
    return float(p)


def too_many(found: int, drawn: int, tolerated: float) -> bool:
    """Whether a share of `tolerated` explains what was found with a probability below 1 − confidence."""
    if not found:
        return False
    from scipy.special import bdtrc

    return float(bdtrc(found - 1, drawn, min(tolerated, 1.0))) < 1 - CONFIDENCE


def still_to_come(last: int, following: int, stretches: float) -> float:
    """How many tiles matter from here on, where `last` of the n before do and `following` of the n after."""
    ratio = (following + 0.5) / (last + 1)
    constant = following * max(stretches, 1.0)
    return constant if ratio >= 1 else min(constant, following / (1 - ratio))


def look(
    scouted: NDArray[np.floating],
    score: Score,
    keep: Keep,
    confident: float,
    margin: float,
    least: int,
    checked: bool = True,
    most: int | None = None,
    enough: Enough = lambda logits: True,
) -> Looked:
    """`confident` and `margin` are logits; `least` tiles are looked at in any case, `most` are kept; `checked` as
    described above."""
    order = np.argsort(-scouted, kind="stable")
    logits = np.full(len(scouted), -np.inf, np.float32)

    def see(tiles: Tiles) -> None:
        new = np.sort(tiles[np.isneginf(logits[tiles])])  # neighbours lie together in the file
        if len(new):
            logits[new] = score(new)

    def matters_from() -> float:
        kept = keep(logits)
        weakest = float(logits[kept].min(initial=np.inf))
        all_kept = kept.sum() >= limit and enough(logits)
        return weakest if all_kept else min(confident, weakest)

    limit = len(scouted) if most is None else most
    n = max(SMALLEST_AUDIT, round(len(scouted) * AUDIT_SHARE))
    count = min(max(min(int((scouted >= confident - margin).sum()), limit), least), len(scouted))
    widened = 0
    while True:
        see(order[:count])
        level = matters_from()
        reach = int((scouted >= level - margin).sum())
        if reach > count:
            count = min(reach, 2 * count)  # in steps, as the level rises with what is found
            continue
        if not checked:
            return Looked(logits, 0, 0, len(scouted) - count, widened, level <= confident)
        near, rest = order[count : count + n], order[count + n :]
        if not len(rest):
            see(near)
            return Looked(logits, 0, 0, 0, widened)
        drawn = np.random.default_rng([len(scouted), widened]).choice(rest, min(n, len(rest)), replace=False)
        see(np.concatenate([near, drawn]))
        tolerated = TOLERATED * float(keep(logits).sum())
        found = int((logits[drawn] >= level).sum())
        last = order[max(0, count - n) : count]
        a, b = (int((logits[part] >= level).sum()) for part in (last, near))
        too_low = still_to_come(a, b, count / n) > tolerated
        blind = too_many(found, len(drawn), tolerated / len(rest))
        if not too_low and not blind:
            return Looked(logits, len(drawn), found, len(rest), widened, level <= confident)
        wider = round(count * (MUCH_FURTHER if blind else FURTHER))
        count = min(max(wider, count + n), len(scouted))
        widened += 1
