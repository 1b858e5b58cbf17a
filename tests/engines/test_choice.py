"""Which engine scores a net."""

import numpy as np
import pytest

from aspirate.core.errors import ConfigError
from aspirate.engines.choice import engine_for
from aspirate.engines.torch_engine import TorchEngine
from aspirate.nn.tile_net import TileNet, seeded


def test_one_may_be_asked_for_by_name() -> None:
    net = seeded(1, lambda: TileNet("vgg11-quarter", 32))
    tiles = np.random.default_rng(0).integers(0, 256, (3, 32, 32, 3), np.uint8)
    engine = engine_for(net, "torch")
    assert engine.name == "torch"
    np.testing.assert_array_equal(engine.score(tiles), TorchEngine(net).score(tiles))


def test_an_unknown_name_is_refused_with_those_there_are() -> None:
    with pytest.raises(ConfigError, match=r"engine=abacus: choose one of auto, torch"):
        engine_for(TileNet("vgg11-quarter", 32), "abacus")
