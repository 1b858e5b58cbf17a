"""Large nets take turns in memory, small ones stay; scores do not change."""

from dataclasses import dataclass, field

import numpy as np

from aspirate.engines.openvino_engine import OpenVinoEngine
from aspirate.engines.room import Room
from aspirate.nn.tile_net import TileNet, seeded


@dataclass
class Noted:
    weight_bytes: int
    put: list[str] = field(default_factory=list)
    name: str = ""

    def put_away(self) -> None:
        self.put.append(self.name)


def test_those_first_in_the_room_are_put_away_first_and_no_more_than_need_be() -> None:
    put: list[str] = []
    a, b, c, d = (Noted(size, put, name) for size, name in ((40, "a"), (40, "b"), (30, "c"), (200, "d")))
    room = Room(limit_bytes=100)
    room.enter(a)
    room.enter(b)
    assert put == []  # 80 of 100
    room.enter(c)
    assert put == ["a"]  # 110, so the first must go
    room.enter(b)
    assert put == ["a"]  # is there already
    room.enter(d)
    assert put == ["a", "c", "b"]  # larger than the room: alone in it
    room.enter(a)
    assert put == ["a", "c", "b", "d"]


def test_engines_that_take_turns_score_as_if_they_were_alone() -> None:
    nets = [seeded(seed, lambda: TileNet("vgg11-quarter", 32)) for seed in (1, 2)]
    tiles = np.random.default_rng(0).integers(0, 256, (5, 32, 32, 3), np.uint8)
    alone = [OpenVinoEngine(net).score(tiles) for net in nets]
    room = Room(limit_bytes=1)
    first, second = (OpenVinoEngine(net, room=room) for net in nets)
    assert first.weight_bytes == 4 * sum(p.numel() for p in nets[0].parameters())
    for _ in range(2):
        np.testing.assert_array_equal(first.score(tiles), alone[0])
        np.testing.assert_array_equal(second.score(tiles), alone[1])
        assert first._requests == {} and len(second._requests) == 1
