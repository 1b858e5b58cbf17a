"""Layers in 8 bits: the same numbers as whole-number arithmetic by hand."""

import numpy as np
import pytest
import torch
from torch import nn

from aspirate.nn.quantised import quantisable, quantised, ranges_of
from aspirate.nn.tile_net import TileNet, seeded


class Small(nn.Module):
    """Pixels → two layers in between → a number, with negative values into the third."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(12, 5)
        self.second = nn.Linear(5, 4)
        self.third = nn.Linear(4, 3)
        self.last = nn.Linear(3, 1)

    def before_second(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.first(x.flatten(1).float() / 255))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.last(self.third(self.second(self.before_second(x))))
        return found


TILES = np.random.default_rng(0).integers(0, 256, (40, 2, 2, 3), np.uint8)


def test_ranges_are_the_extremes_of_what_comes_in() -> None:
    net = seeded(3, Small)
    with torch.no_grad():
        into_second = net.before_second(torch.from_numpy(TILES).permute(0, 3, 1, 2))
        into_third = net.second(into_second)
    (low_2, high_2), (low_3, high_3) = ranges_of(net, TILES)
    assert low_2 == 0 and high_2 == pytest.approx(float(into_second.max()))
    assert low_3 == pytest.approx(float(into_third.min())) and low_3 < 0
    assert high_3 == pytest.approx(float(into_third.max()))


def test_it_computes_what_whole_numbers_would() -> None:
    net = seeded(3, Small)
    ranges = [(0.0, 0.5), (-0.6, 0.3)]  # some values lie beyond, and are clipped
    with torch.no_grad():
        found = quantised(net, ranges)(torch.from_numpy(TILES).permute(0, 3, 1, 2)).numpy()
        x = net.before_second(torch.from_numpy(TILES).permute(0, 3, 1, 2)).double().numpy()

    def layer(x: np.ndarray, of: nn.Linear, step: float, low: int, high: int) -> np.ndarray:
        weight, bias = of.weight.detach().double().numpy(), of.bias.detach().double().numpy()
        steps = np.abs(weight).max(1) / 127
        x_whole = np.clip(np.round(x / step), low, high).astype(np.int64)
        w_whole = np.round(weight / steps[:, None]).astype(np.int64)
        return np.asarray(x_whole @ w_whole.T * step * steps + bias)

    x = layer(x, net.second, 0.5 / 255, 0, 255)
    x = layer(x, net.third, 0.6 / 127, -128, 127)
    weight, bias = net.last.weight.detach().double().numpy(), net.last.bias.detach().double().numpy()
    np.testing.assert_allclose(found, x @ weight.T + bias, atol=1e-5)


def test_the_net_itself_stays_as_it_was() -> None:
    net = seeded(3, Small)
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    quantised(net, ranges_of(net, TILES))
    assert all(torch.equal(before[name], tensor) for name, tensor in net.state_dict().items())
    assert all(parameter.requires_grad for parameter in net.parameters())
    assert not any(layer._forward_pre_hooks for layer in net.modules())


def test_the_first_and_the_last_layer_are_left_out() -> None:
    net = TileNet("vgg11-quarter", 32)
    assert [layer.out_channels for layer in quantisable(net) if isinstance(layer, nn.Conv2d)] == [32, 64, 64, 128, 128]
    assert not any(isinstance(layer, nn.Linear) for layer in quantisable(net))


def test_ranges_of_another_net_are_refused() -> None:
    with pytest.raises(ValueError, match="1 ranges for 2 layers; they are of another net"):
        quantised(Small(), [(0.0, 1.0)])


@pytest.mark.parametrize("encoder", ["vgg11-quarter", "scout"])
def test_rounding_before_a_maximum_gives_the_same_numbers(encoder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Order of convolution, rounding and maximum, and that the numbers are those of rounding right before a layer."""
    net, tiles = (
        seeded(1, lambda: TileNet(encoder, 32)),
        np.random.default_rng(1).integers(0, 256, (6, 32, 32, 3), np.uint8),
    )
    ranges = [(low, 0.7 * high) for low, high in ranges_of(net, tiles)]  # so that some are clipped
    seen = torch.from_numpy(tiles).permute(0, 3, 1, 2)
    early = quantised(net, ranges)
    pooled = [
        m for m in early.modules() if isinstance(m, nn.Sequential) and len(m) == 2 and isinstance(m[1], nn.MaxPool2d)
    ]
    assert len(pooled) == 3, "those that a layer in bytes follows"
    monkeypatch.setattr("aspirate.nn.quantised._round_early", lambda layers: None)
    late = quantised(net, ranges)
    with torch.no_grad():
        np.testing.assert_array_equal(early(seen).numpy(), late(seen).numpy())
