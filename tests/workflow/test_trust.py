"""How far a scout is trusted: the smallest margin that will do on validation slides, or not at all."""

import numpy as np
import pytest
from numpy.typing import NDArray

from aspirate.stages.selection import SelectionSettings, select
from aspirate.workflow.cascade import Cascade, seen_whole
from aspirate.workflow.trust import HeldSlide, decide, overlap

CONFIDENT = 0.5
ADAPTIVE = SelectionSettings(tiles=1000)


def sigmoid(x: NDArray[np.floating]) -> NDArray[np.float32]:
    return np.asarray(1 / (1 + np.exp(-x.astype(float))), np.float32)


def held(
    error: float, seed: int = 0, informative: int = 60, selection: SelectionSettings = ADAPTIVE, each: float = 0.0
) -> HeldSlide:
    """8,000 tiles, a quarter of them not far from informative; the scout errs by up to `error` logits.

    `each` is what a kept tile adds to the slide's probability.
    """
    rng = np.random.default_rng(seed)
    logits = rng.normal(-9, 1, 8000).astype(np.float32)
    logits[:2000] = rng.uniform(-7, -0.1, 2000)
    logits[:informative] = rng.uniform(0.1, 8, informative)
    scouted = (logits + rng.uniform(-error, error, 8000)).astype(np.float32)
    kept = select(sigmoid(logits), CONFIDENT, selection)
    return HeldSlide(scouted, logits, kept, lambda chosen: 0.5 + each * float(chosen.sum()))


def test_a_perfect_scout_gets_the_smallest_margin() -> None:
    trust = decide([held(0.0, seed) for seed in range(4)], CONFIDENT, ADAPTIVE)
    assert trust.admitted and trust.margin == 0.25 and trust.slides == 4
    assert (trust.overlap, trust.overlap_worst, trust.delta_probability) == (1.0, 1.0, 0.0)
    assert trust.share < 0.05


def mean_overlap(slides: list[HeldSlide], margin: float, checked: bool) -> float:
    cascade = Cascade(margin, CONFIDENT, ADAPTIVE)
    seen = [cascade.see(slide.scouted, slide.logits.__getitem__, checked=checked) for slide in slides]
    return float(np.mean([overlap(each.kept, slide.kept) for each, slide in zip(seen, slides, strict=True)]))


def test_the_margin_is_the_first_at_which_enough_is_found_without_the_check() -> None:
    slides = [held(3.0, seed) for seed in range(4)]
    trust = decide(slides, CONFIDENT, ADAPTIVE)
    assert trust.admitted and trust.overlap_worst >= 0.975
    assert trust.overlap_unchecked == mean_overlap(slides, trust.margin, checked=False) >= 0.99
    assert trust.overlap == mean_overlap(slides, trust.margin, checked=True) >= trust.overlap_unchecked
    assert mean_overlap(slides, trust.margin - 0.25, checked=False) < 0.99, "a quarter of a logit less"


def test_one_tile_that_the_check_finds_on_one_small_slide_does_not_widen_the_margin() -> None:
    """A dozen kept tiles, of which the scout takes one for much less: it is among the next tiles that are looked at."""
    good = [held(0.2, seed, informative=12) for seed in range(9)]
    odd = held(0.2, 10, informative=12)
    odd.scouted[5] = -0.28  # just beyond a margin of a quarter
    trust = decide([*good, odd], CONFIDENT, ADAPTIVE)
    assert trust.admitted and trust.margin == decide(good, CONFIDENT, ADAPTIVE).margin == 0.25
    assert trust.overlap == trust.overlap_worst == 1.0
    assert trust.overlap_unchecked == pytest.approx(1 - 1 / 12 / 10)


def test_one_slide_that_goes_wrong_widens_the_margin_for_all() -> None:
    good = [held(0.2, seed) for seed in range(4)]
    assert decide([*good, held(4.0, 9)], CONFIDENT, ADAPTIVE).margin > decide(good, CONFIDENT, ADAPTIVE).margin


def test_a_scout_that_knows_nothing_is_not_used() -> None:
    slides = [held(60.0, seed) for seed in range(3)]
    trust = decide(slides, CONFIDENT, ADAPTIVE)
    assert not trust.admitted
    assert "not used, so every tile is looked at closely" in trust.sentence


def test_a_probability_that_moves_is_not_accepted() -> None:
    """Of four hundred kept tiles a few are missed: nearly the same tiles, but here each of them moves the result."""
    slides = [held(2.0, seed, informative=400, each=0.01) for seed in range(3)]
    calm = [held(2.0, seed, informative=400) for seed in range(3)]
    trust, other = decide(slides, CONFIDENT, ADAPTIVE), decide(calm, CONFIDENT, ADAPTIVE)
    assert other.admitted and trust.margin > other.margin
    assert trust.delta_probability is not None and trust.delta_probability <= 0.005


def test_a_fixed_number_of_tiles_is_agreed_on_as_well() -> None:
    fixed = SelectionSettings(mode="fixed", tiles=200)
    slides = [held(1.0, seed, selection=fixed) for seed in range(3)]
    trust = decide(slides, CONFIDENT, fixed)
    assert trust.admitted and trust.overlap >= 0.99
    assert 0.06 < trust.share < 0.5, "more than the tiles kept, though only 60 are informative"


@pytest.mark.parametrize("mode", ["adaptive", "fixed"])
def test_with_every_tile_looked_at_the_cascade_is_the_exact_way(mode: str) -> None:
    selection = SelectionSettings.of({"mode": mode, "tiles": 40})
    slide = held(3.0, selection=selection)
    seen = Cascade(np.inf, CONFIDENT, selection).see(slide.scouted, lambda tiles: slide.logits[tiles])
    whole = seen_whole(sigmoid(slide.logits), CONFIDENT, selection)
    for name in ("informativeness", "exact", "kept"):
        np.testing.assert_array_equal(getattr(seen, name), getattr(whole, name))


def test_tiles_not_looked_at_are_the_scouts_never_confident_and_never_kept() -> None:
    rng = np.random.default_rng(0)
    logits = rng.normal(-8, 1, 4000).astype(np.float32)
    scouted = logits.copy()
    logits[:60], scouted[:60] = 3.0, 3.0
    scouted[60:160] = -0.9  # nearly confident, and nothing there
    for confident in (0.3, 0.5, 0.738449205):
        seen = Cascade(0.5, confident, ADAPTIVE).see(scouted, lambda tiles: logits[tiles])
        guessed = ~seen.exact
        assert guessed.sum() > 3000 and not (seen.kept & guessed).any()
        assert (seen.informativeness[guessed] < confident).all()
        expected = np.minimum(sigmoid(scouted), np.float32(confident))
        np.testing.assert_allclose(seen.informativeness[guessed], expected[guessed], atol=1e-6)
        np.testing.assert_array_equal(seen.informativeness[seen.exact], sigmoid(logits)[seen.exact])
