"""Which tiles are looked at: those that may matter, and enough others to notice a scout that fails."""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

from aspirate.stages.cascade import Looked, Tiles, highest_share, look, still_to_come, too_many

CONFIDENT = 0.0
"""As a logit."""


def keep(logits: NDArray[np.float32], least: int = 6, most: int = 10**6) -> NDArray[np.bool_]:
    """The confident ones, within limits."""
    count = min(most, max(least, int((logits >= CONFIDENT).sum())))
    kept = np.zeros(len(logits), bool)
    kept[np.argsort(-logits, kind="stable")[:count]] = True
    return kept & ~np.isneginf(logits)


class Net:
    """r_φ that remembers what it was shown."""

    def __init__(self, logits: NDArray[np.floating]) -> None:
        self.logits = logits.astype(np.float32)
        self.shown: list[int] = []

    def __call__(self, tiles: Tiles) -> NDArray[np.float32]:
        assert (np.diff(tiles) > 0).all(), "in the order of the file"
        self.shown += tiles.tolist()
        return self.logits[tiles]


def slide(tiles: int = 20_000, informative: int = 100, seed: int = 0) -> NDArray[np.float64]:
    """Logits of r_φ: glass, and a few tiles that matter."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(-8, 1, tiles)
    logits[rng.choice(tiles, informative, replace=False)] = rng.normal(4, 1, informative)
    return logits


def test_a_good_scout_saves_nearly_everything_and_loses_nothing() -> None:
    logits = slide()
    net = Net(logits)
    scouted = logits + np.random.default_rng(1).normal(0, 0.5, len(logits))
    found = look(scouted, net, keep, CONFIDENT, 2.0, 6)
    assert sorted(net.shown) == np.flatnonzero(found.at).tolist(), "each tile once"
    assert (logits[~found.at] < CONFIDENT).all()
    np.testing.assert_array_equal(keep(found.logits), keep(logits.astype(np.float32)))
    assert found.at.sum() == 100 + 2 * 50, "those that matter, and the two samples of the check"
    assert (found.audited, found.found, found.widened) == (50, 0, 0)
    assert found.rest == 20_000 - 150


def test_tiles_within_the_margin_are_looked_at_and_others_are_not() -> None:
    scouted = np.linspace(-10, 10, 4001)
    net = Net(scouted)
    found = look(scouted, net, keep, CONFIDENT, 3.0, 6)
    by_order = found.at[: np.searchsorted(scouted, -3.0)]
    assert found.at[np.searchsorted(scouted, -3.0) :].all()
    assert by_order[-32:].all() and by_order.sum() == 64


def test_where_few_are_confident_the_weakest_kept_sets_the_level() -> None:
    """Six are kept although none is confident; whatever could be among them is looked at."""
    rng = np.random.default_rng(2)
    logits = rng.normal(-8, 1, 5000)
    scouted = logits + rng.uniform(-1, 1, 5000)
    found = look(scouted, Net(logits), keep, CONFIDENT, 1.0, 6)
    np.testing.assert_array_equal(keep(found.logits), keep(logits.astype(np.float32)))
    assert found.share < 0.1


def test_confident_tiles_beyond_the_most_that_are_kept_are_counted_where_nobody_says_how_many_are_kept() -> None:
    logits = slide(informative=300)
    found = look(logits, Net(logits), lambda r: keep(r, most=50), CONFIDENT, 1.0, 6)
    assert (found.logits >= CONFIDENT).sum() == 300 and found.counted


def test_confident_tiles_beyond_the_most_that_are_kept_are_not_looked_for() -> None:
    """The same tiles are kept for a fraction of the looks, unless what was found is not enough."""
    logits = slide(informative=3000)
    scouted = logits + np.random.default_rng(1).uniform(-0.4, 0.4, len(logits))

    def fifty(seen: NDArray[np.float32]) -> NDArray[np.bool_]:
        return keep(seen, most=50)

    found = look(scouted, Net(logits), fifty, CONFIDENT, 0.8, 6, most=50)
    np.testing.assert_array_equal(fifty(found.logits), fifty(logits.astype(np.float32)))
    assert found.at.sum() < 600 and not found.counted and found.widened == 0
    asked: list[int] = []

    def enough(seen: NDArray[np.float32]) -> bool:
        asked.append(int((seen >= CONFIDENT).sum()))
        return False

    found = look(scouted, Net(logits), fifty, CONFIDENT, 0.8, 6, most=50, enough=enough)
    assert (found.logits >= CONFIDENT).sum() == (logits >= CONFIDENT).sum() == asked[-1] and found.counted
    few = slide(informative=30)
    rare = look(few, Net(few), fifty, CONFIDENT, 1.0, 6, most=50)
    assert rare.counted and (rare.logits >= CONFIDENT).sum() == 30, "where fewer are confident, all are found"


@pytest.mark.parametrize("margin", [np.inf, 1e6])
def test_without_limit_every_tile_is_looked_at(margin: float) -> None:
    logits = slide(1000)
    found = look(np.zeros(1000), Net(logits), keep, CONFIDENT, margin, 6)
    np.testing.assert_array_equal(found.logits, logits.astype(np.float32))
    assert (found.audited, found.rest, found.missed_at_most, found.share) == (0, 0, 0.0, 1.0)


def test_a_slide_on_which_the_scout_is_too_low_throughout_is_noticed_at_once() -> None:
    """Another stain: the order is right, the scale is not. The next tiles in its order give it away."""
    logits = slide()
    scouted = logits - 7
    found = look(scouted, Net(logits), keep, CONFIDENT, 2.0, 6)
    assert found.widened > 0
    assert (found.logits >= CONFIDENT).sum() >= 98
    assert found.share < 0.1


def test_a_scout_somewhat_too_low_costs_little_more_than_one_that_is_not() -> None:
    """Half of a hundred tiles beyond its margin matter: a quarter more tiles are looked at, not twice as many."""
    logits, scouted = np.full(20_000, -9.0), np.full(20_000, -9.0)
    logits[:900:2] = 3.0
    scouted[:800], scouted[800:900] = 0.0, -4.0
    found = look(scouted, Net(logits), keep, CONFIDENT, 2.0, 6)
    assert (found.logits >= CONFIDENT).sum() == 450 and found.widened == 1
    assert 1000 + 50 + 50 <= found.at.sum() <= 1000 + 50 + 2 * 50, (
        "a quarter more than 800, the next, those drawn twice"
    )


@pytest.mark.parametrize(
    ("last", "following", "stretches", "expected"),
    [
        (10, 5, 20, 10.0),  # halved from stretch to stretch: 5 + 2.5 + …
        (3, 0, 20, 0.0),
        (0, 1, 20, 20.0),  # not fewer
        (50, 50, 4, 200.0),
        (21, 10, 1.5, 15.0),  # the series, 19.1, is more than a slide of so few stretches is taken to hold
        (0, 2, 0.3, 2.0),  # the next stretch itself is there in any case
    ],
)
def test_how_many_are_still_to_come(last: int, following: int, stretches: float, expected: float) -> None:
    assert still_to_come(last, following, stretches) == pytest.approx(expected)


def test_a_tail_that_becomes_thinner_is_not_taken_for_an_endless_one() -> None:
    """Four of the next fifty matter after twelve of the last fifty: no reason to look on, though four in each fifty
    of as many again would be more than may be missed."""
    logits, scouted = np.full(20_000, -9.0), np.linspace(10, -30, 20_000)
    inside = int((scouted >= -2).sum())
    logits[: inside - 50], logits[inside - 50 : inside - 38] = 3.0, 3.0
    logits[inside : inside + 4] = 3.0
    found = look(scouted, Net(logits), keep, CONFIDENT, 2.0, 6)
    assert found.widened == 0
    assert (found.logits >= CONFIDENT).sum() == (logits >= CONFIDENT).sum()


def test_a_blind_scout_ends_with_every_tile_looked_at() -> None:
    """Its guesses mean nothing, and two in a hundred tiles matter: the drawn sample gives it away."""
    logits = slide(informative=400)
    scouted = np.random.default_rng(3).normal(-8, 1, len(logits))
    found = look(scouted, Net(logits), keep, CONFIDENT, 2.0, 6)
    assert (found.logits >= CONFIDENT).sum() >= 392
    assert found.widened >= 3


def test_the_same_slide_is_looked_at_in_the_same_way() -> None:
    logits = slide()
    first, second = (look(logits - 3, Net(logits), keep, CONFIDENT, 1.0, 6) for _ in range(2))
    np.testing.assert_array_equal(first.logits, second.logits)


@pytest.mark.parametrize(("found", "drawn"), [(0, 32), (0, 150), (1, 150), (7, 50), (49, 50)])
def test_the_bound_is_the_share_at_which_so_few_are_found_once_in_twenty(found: int, drawn: int) -> None:
    assert binom.cdf(found, drawn, highest_share(found, drawn)) == pytest.approx(0.05, abs=1e-9)


def test_the_bound_where_all_were_found_is_all() -> None:
    assert highest_share(5, 5) == 1.0
    assert highest_share(0, 100) == pytest.approx(1 - 0.05 ** (1 / 100))


@pytest.mark.parametrize("share", [1e-4, 0.002, 0.05])
def test_more_than_tolerated_is_what_chance_explains_less_than_once_in_twenty(share: float) -> None:
    for found in range(8):
        assert too_many(found, 150, share) == (found > 0 and binom.sf(found - 1, 150, share) < 0.05)


def test_the_bound_holds_as_often_as_promised() -> None:
    """Of many samples from a known share, the bound lies below it in at most one of twenty."""
    rng = np.random.default_rng(4)
    share = 0.02
    low = np.mean([highest_share(int(rng.binomial(150, share)), 150) < share for _ in range(2000)])
    assert low <= 0.06


def test_what_was_looked_at_is_known_tile_by_tile() -> None:
    looked = Looked(np.array([1.0, -np.inf, -3.0, -np.inf], np.float32), 2, 1, 2, 0)
    assert looked.at.tolist() == [True, False, True, False]
    assert looked.share == 0.5
    assert looked.missed_at_most == highest_share(1, 2)
