"""Poolings of many bags at once, against each bag by itself in plain numbers."""

import math

import pytest
import torch
from torch import Tensor, nn

from aspirate.nn.pooling import POOLS, AttentionPool, NoisyAndPool, TileScorePool, bags_in

SIZES = (1, 5, 2, 9)
BAG = torch.tensor([number for number, size in enumerate(SIZES) for _ in range(size)])
CUTS = torch.tensor([0.0, -0.7, 1.3])


def features() -> Tensor:
    return torch.randn(sum(SIZES), 6, generator=torch.Generator().manual_seed(3)).double()


def pool(name: str) -> nn.Module:
    torch.manual_seed(1)
    return POOLS[name](6).double()


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def by_hand(name: str, p: list[float], b: float) -> float:
    mean = sum(p) / len(p)
    if name == "noisy-and":
        a = 10.0
        return (sigmoid(a * (mean - b)) - sigmoid(-a * b)) / (sigmoid(a * (1 - b)) - sigmoid(-a * b))
    return {"max": max(p), "noisy-or": 1 - math.prod(1 - x for x in p), "mean": mean}[name]


@pytest.mark.parametrize("name", ["max", "noisy-or", "mean", "noisy-and"])
def test_pools_of_tile_scores_bag_by_bag(name: str) -> None:
    made, x = pool(name), features()
    assert isinstance(made, TileScorePool)
    if isinstance(made, NoisyAndPool):
        made.place.data.fill_(0.3)
    found = torch.sigmoid(made(x, BAG, CUTS.double()))
    scores = made.score(x)[:, 0].tolist()
    for number in range(len(SIZES)):
        for k, cut in enumerate(CUTS.tolist()):
            p = [sigmoid(scores[i] - cut) for i in range(len(BAG)) if BAG[i] == number]
            assert float(found[number, k].detach()) == pytest.approx(by_hand(name, p, 0.3), rel=1e-5)


@pytest.mark.parametrize("gated", [False, True])
def test_attention_bag_by_bag(gated: bool) -> None:
    made, x = pool("gated-attention" if gated else "attention"), features()
    assert isinstance(made, AttentionPool) and (made.gate is not None) == gated
    found = made(x, BAG, CUTS.double())
    weights = made.weights(x, BAG)
    for number in range(len(SIZES)):
        h = x[number == BAG]
        hidden = torch.tanh(h @ made.hidden.weight.T + made.hidden.bias)
        if made.gate is not None:
            hidden = hidden * torch.sigmoid(h @ made.gate.weight.T + made.gate.bias)
        alpha = torch.softmax(hidden @ made.attend.weight[0] + made.attend.bias, 0)
        torch.testing.assert_close(weights[number == BAG], alpha)
        score = (alpha[:, None] * h).sum(0) @ made.score.weight[0] + made.score.bias
        torch.testing.assert_close(found[number], score - CUTS.double())


@pytest.mark.parametrize("name", POOLS)
def test_a_bag_does_not_depend_on_its_neighbours_or_the_order_of_its_tiles(name: str) -> None:
    made, x = pool(name), features()
    whole = made(x, BAG, CUTS.double())
    for number in range(len(SIZES)):
        alone = x[number == BAG].flip(0)
        torch.testing.assert_close(
            made(alone, torch.zeros(len(alone), dtype=torch.long), CUTS.double())[0], whole[number]
        )


@pytest.mark.parametrize("name", POOLS)
def test_gradients_against_finite_differences(name: str) -> None:
    made = pool(name)
    x = features().requires_grad_()
    assert torch.autograd.gradcheck(lambda x: made(x, BAG, CUTS.double()), (x,), atol=1e-5)


@pytest.mark.parametrize("name", POOLS)
def test_extreme_scores_stay_finite(name: str) -> None:
    made = pool(name).float()
    for size in (1e-3, 1e3):
        x = (features().float() * size).requires_grad_()
        logits = made(x, BAG, CUTS)
        logits.sum().backward()
        assert torch.isfinite(logits).all() and x.grad is not None and torch.isfinite(x.grad).all()


def test_a_bag_without_tiles_is_refused() -> None:
    with pytest.raises(ValueError, match="without tiles"):
        bags_in(torch.tensor([0, 2]))
    with pytest.raises(ValueError, match="without tiles"):
        bags_in(torch.tensor([], dtype=torch.long))
