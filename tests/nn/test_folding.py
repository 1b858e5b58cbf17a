"""Folding changes how scores are computed, not what they are."""

from typing import cast

import torch
from torch import nn

from aspirate.nn.folding import folded
from aspirate.nn.tile_net import TileNet, seeded


def used(net: nn.Module) -> nn.Module:
    """With normalisation that has seen something and scales by more than 1."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for layer in net.modules():
            if isinstance(layer, nn.BatchNorm2d | nn.BatchNorm1d):
                for tensor in (layer.weight, layer.bias, layer.running_mean):
                    tensor.copy_(torch.randn(tensor.shape, generator=generator))  # type: ignore[union-attr]
                layer.running_var.copy_(torch.rand(layer.running_var.shape, generator=generator) + 0.5)  # type: ignore[union-attr]
    return net


def test_a_folded_net_scores_alike_and_normalises_no_more() -> None:
    for name in ("vgg11", "vgg11-quarter"):
        net = used(seeded(0, lambda name=name: TileNet(name, 16, outputs=2))).double()  # type: ignore[misc]
        before = {key: tensor.clone() for key, tensor in net.state_dict().items()}
        tiles = torch.randint(0, 256, (5, 3, 16, 16), generator=torch.Generator().manual_seed(1)).double()
        cast(nn.Module, net.encoder).register_forward_pre_hook(lambda _, given: tuple(x.double() for x in given))
        quick = folded(net)
        with torch.no_grad():
            torch.testing.assert_close(quick(tiles), net.eval()(tiles), rtol=1e-9, atol=1e-9)
        assert not any(isinstance(layer, nn.BatchNorm2d) for layer in quick.modules())
        assert all(torch.equal(before[key], tensor) for key, tensor in net.state_dict().items())


def test_the_net_may_go_on_being_trained() -> None:
    net = used(seeded(0, lambda: TileNet("vgg11-quarter", 16))).train()
    folded(net)
    assert net.training and all(layer.training for layer in net.modules())


def test_normalisation_that_follows_no_convolution_stays() -> None:
    net = used(nn.Sequential(nn.Conv2d(3, 4, 1), nn.ReLU(), nn.BatchNorm2d(4)))
    x = torch.rand(2, 3, 4, 4)
    torch.testing.assert_close(folded(net)(x), net.eval()(x))
    assert isinstance(folded(net)[-1], nn.BatchNorm2d)  # type: ignore[index]
