"""The scout's encoder: small, and blind to all but its cell."""

import numpy as np
import pytest
import torch

from aspirate.nn.tile_net import TileNet, parameters_of, seeded


def cells(count: int, side: int) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(0).integers(0, 256, (count, 3, side, side), np.uint8))


@pytest.mark.parametrize("side", [8, 16, 32])
def test_a_cell_is_scored_alone_whatever_lies_beside_it(side: int) -> None:
    net = seeded(0, lambda: TileNet("scout", side)).eval()
    many = cells(20, side)
    with torch.inference_mode():
        together = net(many)
        apart = torch.cat([net(many[i : i + 3]) for i in range(0, 20, 3)])
    assert together.shape == (20, 1)
    torch.testing.assert_close(together, apart, atol=1e-5, rtol=0)
    assert together.std() > 0


def test_its_features_are_means_and_maxima_of_what_the_convolutions_leave() -> None:
    encoder = seeded(1, lambda: TileNet("scout", 16)).eval().encoder
    pixels = torch.rand(4, 3, 16, 16)
    seen = encoder.convolutions(pixels)  # type: ignore[operator]
    assert seen.shape == (4, 64, 2, 2) and (seen >= 0).all()
    flat = seen.flatten(2)
    torch.testing.assert_close(encoder(pixels), torch.cat([flat.mean(2), flat.max(2).values], 1))


def test_it_is_small() -> None:
    assert parameters_of(TileNet("scout", 32)) < 70_000


def test_a_cell_that_cannot_be_halved_is_refused() -> None:
    with pytest.raises(ValueError, match=r"cell_px=12.*multiple of 8"):
        TileNet("scout", 12)
