import numpy as np
import torch
from numpy.typing import NDArray
from scipy.ndimage import convolve

from aspirate.learning.augment import as_batch, augment, coloured, refocused, tinted, turned
from aspirate.learning.loop import own_rows
from aspirate.learning.settings import AugmentSettings

NOTHING = AugmentSettings(turn=False, strength=0, hue=0, light=0, focus=0)


def tiles(n: int = 8, side: int = 16) -> NDArray[np.uint8]:
    return np.random.default_rng(0).integers(0, 256, (n, side, side, 3), dtype=np.uint8)


def changed(
    x: NDArray[np.uint8],
    mixing: NDArray[np.float64] | None = None,
    shift: NDArray[np.float64] | None = None,
    focus: NDArray[np.float64] | None = None,
) -> NDArray[np.uint8]:
    """Tiles of three colours with given changes, none where nothing is given."""
    n = len(x)
    words = turned(x, np.zeros(n, np.int64))
    mixing = np.broadcast_to(np.eye(3), (n, 3, 3)) if mixing is None else mixing
    shift = np.zeros((n, 1, 3)) if shift is None else shift
    focus = np.zeros(n) if focus is None else focus
    found = tinted(words, mixing, shift, focus.reshape(n, 1, 1)).coloured()
    assert found.is_contiguous(memory_format=torch.channels_last)
    return found.permute(0, 2, 3, 1).numpy()


def test_the_eight_ways_are_the_symmetries_of_a_square() -> None:
    tile = tiles(1)
    ways = turned(np.repeat(tile, 8, axis=0), np.arange(8))
    r = tile[0]
    by_hand = [r, np.rot90(r), np.rot90(r, 2), np.rot90(r, 3)]
    by_hand += [np.fliplr(t) for t in by_hand]
    for found, expected in zip(ways[..., :3], by_hand, strict=True):
        np.testing.assert_array_equal(found, expected)
    assert len({w.tobytes() for w in ways[..., :3]}) == 8


def test_turned_tiles_are_opaque_and_keep_their_colours_whatever_their_side() -> None:
    for side in (7, 16):
        x, ways = tiles(5, side), np.array([0, 3, 5, 6, 7])
        words = turned(x, ways)
        assert words.shape == (5, side, side, 4) and (words[..., 3] == 255).all()
        np.testing.assert_array_equal(changed(words[..., :3]), words[..., :3])
    only_turned = augment(x, NOTHING.model_copy(update={"turn": True}), np.random.default_rng(1))
    assert isinstance(only_turned, torch.Tensor) and only_turned.shape == (5, 3, 16, 16)


def test_no_change_asked_for_is_no_change() -> None:
    x = tiles()
    out = coloured(augment(x, NOTHING, np.random.default_rng(1)))
    torch.testing.assert_close(out, as_batch(x))
    assert out.is_contiguous(memory_format=torch.channels_last)


def test_identity_in_density_returns_every_byte() -> None:
    x = np.repeat(np.arange(256, dtype=np.uint8), 3).reshape(1, 16, 16, 3)
    np.testing.assert_array_equal(changed(x), x)


def test_recolouring_against_the_formula() -> None:
    rng = np.random.default_rng(2)
    x = tiles(3)
    mixing = np.eye(3) + rng.normal(0, 0.1, (3, 3, 3))
    shift = rng.normal(0, 0.05, (3, 1, 3))
    density = -np.log10((x.astype(float) + 1) / 256)
    wanted = np.einsum("nhwc,ncd->nhwd", density, mixing) + shift[:, None]
    expected = np.clip(np.floor(256 * 10.0**-wanted - 1 + 0.5), 0, 255)
    found = changed(x, mixing, shift).astype(int)
    assert np.abs(found - expected).max() <= 1, "rounding at most"
    assert (found == expected).mean() > 0.99


def test_focus_against_the_formula() -> None:
    """I + k·(mean of the four neighbours − I), mirrored at the edges, each colour by itself."""
    x = np.random.default_rng(3).uniform(0, 255, (3, 16, 16, 3))
    k = np.array([-0.7, 0.0, 0.9])
    cross = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]]) / 4
    around = np.stack([[convolve(tile[..., c], cross, mode="mirror") for c in range(3)] for tile in x])
    expected = x + k[:, None, None, None] * (around.transpose(0, 2, 3, 1) - x)
    factor = (1 - 0.75 * k)[:, None, None, None]
    rows = torch.from_numpy(factor * x).float().reshape(3, 16, 48)
    found = refocused(rows, torch.from_numpy(k).float().view(3, 1, 1))
    np.testing.assert_allclose(found.reshape(3, 16, 16, 3).numpy(), expected, rtol=1e-4, atol=1e-3)


def test_each_tile_has_its_own_focus() -> None:
    k = np.concatenate([[0.0, 1.0, -1.0], np.random.default_rng(4).uniform(-1, 1, 37)])  # more than are changed at once
    x = tiles(40)
    cross = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])[:, :, None] / 4
    around = np.stack([convolve(tile, cross, mode="mirror") for tile in x.astype(float)])
    expected = np.clip(x + k[:, None, None, None] * (around - x), 0, 255)
    assert np.abs(changed(x, focus=k) - expected).max() <= 0.51, "rounding at most"


def test_same_generator_same_tiles_and_each_tile_its_own_change() -> None:
    x = np.repeat(tiles(1), 6, axis=0)
    first = coloured(augment(x, AugmentSettings(), np.random.default_rng(3)))
    again = coloured(augment(x, AugmentSettings(), np.random.default_rng(3)))
    assert torch.equal(first, again)
    assert len({t.numpy().tobytes() for t in first}) == 6


def test_colours_are_changed_where_the_net_is_and_rows_may_be_shared_before() -> None:
    """A batch that is shared by processes has its colours changed after the rows were dealt: the same tiles."""
    batch = (augment(tiles(), AugmentSettings(), np.random.default_rng(5)), torch.arange(len(tiles())))
    whole, _ = coloured(batch)
    assert whole.dtype == torch.uint8 and whole.is_contiguous(memory_format=torch.channels_last)
    parts = [coloured(own_rows(batch, rank, 2))[0] for rank in range(2)]
    rows = torch.cat([own_rows(batch, rank, 2)[1] for rank in range(2)])
    assert torch.equal(torch.cat(parts), whole[rows])
