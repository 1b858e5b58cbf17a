import pytest
import torch
from torch import nn

from aspirate.nn.tile_net import ENCODERS, TileNet, parameters_of, seeded
from aspirate.nn.vgg import Vgg


def hand_count_of_the_paper() -> int:
    """Weights, biases, and two numbers per normalised channel."""
    convolutions = [(3, 64), (64, 128), (128, 256), (256, 256), (256, 512), (512, 512)]
    linears = [(512 * 8 * 8, 4096), (4096, 4096)]
    count = sum(9 * a * b + b + 2 * b for a, b in convolutions)
    count += sum(a * b + b + 2 * b for a, b in linears)
    return count + 4096 + 1


def test_the_papers_net_has_155_5_million_weights() -> None:
    with torch.device("meta"):
        net = TileNet("vgg11", side_px=128)
    assert parameters_of(net) == hand_count_of_the_paper()
    assert round(parameters_of(net) / 1e6, 1) == 155.5


def test_layers_come_in_the_papers_order() -> None:
    with torch.device("meta"):
        net = Vgg(128)
    kinds = [type(layer) for layer in net.convolutions]
    conv = [nn.Conv2d, nn.BatchNorm2d, nn.ReLU]
    pooled = [nn.Conv2d, nn.BatchNorm2d, nn.MaxPool2d, nn.ReLU]
    assert kinds == pooled + pooled + conv + pooled + conv + pooled
    head = [type(layer) for layer in net.head.children()]
    assert head == [nn.Flatten, *([nn.Linear, nn.BatchNorm1d, nn.ReLU] * 2)]


def test_relu_after_pooling_is_the_papers_relu_before_it() -> None:
    """Scores and gradients, exactly."""
    torch.manual_seed(0)
    ours = Vgg(32, width=0.25, head="average")
    layers = list(ours.convolutions)
    for i, layer in enumerate(layers[:-1]):
        if isinstance(layer, nn.MaxPool2d):
            layers[i], layers[i + 1] = layers[i + 1], layer
    papers = nn.Sequential(*layers, ours.head)
    tiles = torch.rand(4, 3, 32, 32)
    found = []
    for net in (ours, papers):
        ours.zero_grad()
        out = net(tiles)
        out.square().sum().backward()
        found.append([out.detach(), *(p.grad.clone() for p in ours.parameters() if p.grad is not None)])
    assert len(found[0]) == 25
    for a, b in zip(*found, strict=True):
        assert torch.equal(a, b)


def test_compact_is_a_quarter_wide_with_average_pooling() -> None:
    net = ENCODERS["vgg11-quarter"](128)
    convolutions = [(3, 16), (16, 32), (32, 64), (64, 64), (64, 128), (128, 128)]
    assert parameters_of(net) == sum(9 * a * b + 3 * b for a, b in convolutions)
    assert net(torch.zeros(2, 3, 128, 128)).shape == (2, 128)


def test_score_does_not_depend_on_the_rest_of_the_batch_once_trained() -> None:
    net = seeded(0, lambda: TileNet("vgg11-quarter", 32)).eval()
    tiles = torch.randint(0, 256, (5, 3, 32, 32), dtype=torch.uint8)
    whole = net(tiles)
    assert whole.shape == (5, 1)
    torch.testing.assert_close(whole[2:3], net(tiles[2:3]))


def test_a_side_the_net_cannot_halve_is_refused() -> None:
    with pytest.raises(ValueError, match=r"side_px=100.*multiple of 16"):
        Vgg(100)
    with pytest.raises(ValueError, match="vgg11-quarter"):
        TileNet("resnet", 128)


def test_seeded_weights_depend_on_the_seed_alone() -> None:
    def build() -> TileNet:
        return TileNet("vgg11-quarter", 32)

    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    a, b, c = seeded(1, build), seeded(1, build), seeded(2, build)
    assert torch.equal(torch.random.get_rng_state(), before)
    same = [torch.equal(p, q) for p, q in zip(a.parameters(), b.parameters(), strict=True)]
    assert all(same)
    assert not torch.equal(a.last.weight, c.last.weight)
