import numpy as np
import torch

from aspirate.learning.augment import AugmentSettings, as_batch, augment, coloured, recoloured, turned
from aspirate.learning.loop import own_rows

NOTHING = AugmentSettings(turn=False, strength=0, hue=0, light=0)


def tiles(n: int = 8, side: int = 16) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    return np.random.default_rng(0).integers(0, 256, (n, side, side, 3), dtype=np.uint8)


def test_the_eight_ways_are_the_symmetries_of_a_square() -> None:
    tile = tiles(1)
    ways = turned(np.repeat(tile, 8, axis=0), np.arange(8))
    r = tile[0]
    by_hand = [r, np.rot90(r), np.rot90(r, 2), np.rot90(r, 3)]
    by_hand += [np.fliplr(t) for t in by_hand]
    for found, expected in zip(ways, by_hand, strict=True):
        np.testing.assert_array_equal(found, expected)
    assert len({w.tobytes() for w in ways}) == 8


def test_no_change_asked_for_is_no_change() -> None:
    x = tiles()
    out = coloured(augment(x, NOTHING, np.random.default_rng(1)))
    torch.testing.assert_close(out, as_batch(x))
    assert out.is_contiguous(memory_format=torch.channels_last)


def test_identity_in_density_returns_every_byte() -> None:
    x = torch.arange(256, dtype=torch.uint8).repeat_interleave(3).view(1, 16, 16, 3)
    assert torch.equal(recoloured(x, torch.eye(3)[None], torch.zeros(1, 1, 3)), x)


def test_recolouring_against_the_formula() -> None:
    rng = np.random.default_rng(2)
    x = tiles(3)
    mixing = np.eye(3) + rng.normal(0, 0.1, (3, 3, 3))
    shift = rng.normal(0, 0.05, (3, 1, 3))
    density = -np.log10((x.astype(float) + 1) / 256)
    changed = np.einsum("nhwc,ncd->nhwd", density, mixing) + shift[:, None]
    expected = np.clip(np.floor(256 * 10.0**-changed - 1 + 0.5), 0, 255)
    found = recoloured(torch.from_numpy(x), torch.from_numpy(mixing).float(), torch.from_numpy(shift).float())
    assert np.abs(found.numpy() - expected).max() <= 1, "rounding at most"
    assert (found.numpy() == expected).mean() > 0.99


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
