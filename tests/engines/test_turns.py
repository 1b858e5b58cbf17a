"""Large nets take turns in memory, small ones stay; scores do not change."""

from dataclasses import dataclass, field

import numpy as np

from aspirate.engines.openvino_engine import OpenVinoEngine
from aspirate.engines.turns import Turns
from aspirate.nn.tile_net import TileNet, seeded


@dataclass
class Noted:
    weight_bytes: int
    put: list[str] = field(default_factory=list)
    name: str = ""

    def put_away(self) -> None:
        self.put.append(self.name)


def test_those_taken_up_first_are_put_away_first_and_no_more_than_need_be() -> None:
    put: list[str] = []
    a, b, c, d = (Noted(size, put, name) for size, name in ((40, "a"), (40, "b"), (30, "c"), (200, "d")))
    turns = Turns(limit_bytes=100)
    turns.take(a)
    turns.take(b)
    assert put == []  # 80 of 100
    turns.take(c)
    assert put == ["a"]  # 110, so the first must go
    turns.take(b)
    assert put == ["a"]  # is there already
    turns.take(d)
    assert put == ["a", "c", "b"]  # larger than the limit: alone
    turns.take(a)
    assert put == ["a", "c", "b", "d"]


def test_engines_that_take_turns_score_as_if_they_were_alone() -> None:
    nets = [seeded(seed, lambda: TileNet("vgg11-quarter", 32)) for seed in (1, 2)]
    tiles = np.random.default_rng(0).integers(0, 256, (5, 32, 32, 3), np.uint8)
    alone = [OpenVinoEngine(net).score(tiles) for net in nets]
    turns = Turns(limit_bytes=1)
    first, second = (OpenVinoEngine(net, turns=turns) for net in nets)
    assert first.weight_bytes == 4 * sum(p.numel() for p in nets[0].parameters())
    for _ in range(2):
        np.testing.assert_array_equal(first.score(tiles), alone[0])
        np.testing.assert_array_equal(second.score(tiles), alone[1])
        assert first._requests == {} and len(second._requests) == 1
