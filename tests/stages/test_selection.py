import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from aspirate.stages.selection import SelectionSettings, confident_from, select, tile_weights

P = np.array([0.1, 0.9, 0.5, 0.9, 0.7, 0.2])


def chosen(mode: str, tiles: int, least: int = 1, threshold: float = 0.6) -> list[int]:
    settings = SelectionSettings.of({"mode": mode, "tiles": tiles, "least": least})
    return np.flatnonzero(select(P, threshold, settings)).tolist()


def test_fixed_takes_the_best_whatever_they_are() -> None:
    assert chosen("fixed", 4) == [1, 2, 3, 4]
    assert chosen("fixed", 100) == [0, 1, 2, 3, 4, 5], "fewer tiles than wanted is fine"


def test_adaptive_takes_only_confident_ones() -> None:
    assert chosen("adaptive", 100) == [1, 3, 4]
    assert chosen("adaptive", 2) == [1, 3]
    assert chosen("adaptive", 100, least=5) == [1, 2, 3, 4, 5]
    assert chosen("adaptive", 100, threshold=0.95) == [1], "the best one, though not confident"


def test_of_equal_tiles_the_first() -> None:
    assert chosen("fixed", 1) == [1]


@given(st.lists(st.integers(0, 3), min_size=1, max_size=40), st.integers(1, 45))
def test_against_sorting_by_hand(levels: list[int], tiles: int) -> None:
    p = np.array(levels) / 3
    by_hand = sorted(range(len(p)), key=lambda i: (-p[i], i))[:tiles]
    kept = select(p, 0.5, SelectionSettings(mode="fixed", tiles=tiles))
    assert np.flatnonzero(kept).tolist() == sorted(by_hand)


def test_kept_tiles_count_alike_or_by_their_informativeness() -> None:
    p = np.array([0.2, 1.0, 0.7], np.float32)
    np.testing.assert_array_equal(tile_weights(p, SelectionSettings(weights="binary")), [1, 1, 1])
    weighted = SelectionSettings()
    np.testing.assert_allclose(
        tile_weights(p, weighted), [0.01 * 0.2 / (0.01 * 0.2 + 0.99 * 0.8), 1, 7 / 304], rtol=1e-6
    )
    half = weighted.model_copy(update={"prevalence": 0.5})
    np.testing.assert_allclose(tile_weights(p, half), [0.2, 1.0, 0.7], rtol=1e-6, err_msg="as stage 1 learned")
    assert tile_weights(np.zeros(2), weighted).sum() > 0


def test_weights_are_the_share_of_informative_tiles_among_their_equals() -> None:
    """Tiles of a slide, 2 % informative, whose scores are those of a perfectly calibrated net on balanced batches."""
    rng = np.random.default_rng(0)
    informative = rng.random(400_000) < 0.02
    x = rng.normal(np.where(informative, 1.0, -1.0), 1)  # logit of a balanced classifier: 2x
    p, settings = 1 / (1 + np.exp(-2 * x)), SelectionSettings(weights="informativeness", prevalence=0.02)
    u = tile_weights(p, settings)
    for low, high in ((0.05, 0.15), (0.4, 0.6), (0.8, 0.95)):
        among = (u > low) & (u < high)
        assert abs(informative[among].mean() - u[among].mean()) < 0.02


def test_the_threshold_by_hand() -> None:
    held = np.array([0.99, 0.7, 0.95, 0.9, 0.6, 0.98, 0.97, 0.96, 0.2, 0.8])
    assert confident_from(held, recall=0.9) == 0.6
    assert confident_from(held, recall=0.8) == 0.7
    assert confident_from(held, recall=1.0) == 0.5, "never below one half"
    for recall in (0.5, 0.7, 0.8, 0.9):
        threshold = confident_from(held, recall)
        assert (held >= threshold).mean() >= recall
        above = held[held > threshold].min()
        assert (held >= above).mean() < recall, "the next higher one would lose too many"
