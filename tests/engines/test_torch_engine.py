"""Scores by torch: the net's own, whatever the batching, as it is used and not as it is trained."""

import numpy as np
import pytest
import torch

from aspirate.engines import torch_engine
from aspirate.engines.torch_engine import TorchEngine
from aspirate.nn.tile_net import TileNet, seeded


@pytest.fixture(scope="module")
def net() -> TileNet:
    """With normalisation that has seen something, so that training and evaluation differ."""
    made = seeded(1, lambda: TileNet("vgg11-quarter", 32, outputs=2))
    made.train()
    with torch.no_grad():
        made(torch.randint(0, 256, (16, 3, 32, 32), generator=torch.Generator().manual_seed(0)))
    return made


def tiles(n: int) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    return np.random.default_rng(n).integers(0, 256, (n, 32, 32, 3), np.uint8)


@pytest.mark.parametrize("n", [0, 1, 7, 8, 20])
def test_scores_are_the_nets_first_output_tile_by_tile(net: TileNet, n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_engine, "BATCH", 8)
    x = tiles(n)
    found = TorchEngine(net).score(x)
    assert found.dtype == np.float32 and found.shape == (n,)
    net.eval()
    with torch.no_grad():
        one_by_one = [float(net(torch.from_numpy(t.transpose(2, 0, 1)[None].copy()).double())[0, 0]) for t in x]
    np.testing.assert_allclose(found, one_by_one, rtol=1e-4, atol=1e-5)


def test_it_leaves_no_trace_in_the_net(net: TileNet) -> None:
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    TorchEngine(net.train()).score(tiles(20))
    assert all(torch.equal(before[name], tensor) for name, tensor in net.state_dict().items())
    assert not net.training


def test_tiles_may_come_straight_from_disk(net: TileNet, tmp_path: object, recwarn: pytest.WarningsRecorder) -> None:
    path = f"{tmp_path}/x.npy"
    np.save(path, tiles(20))
    mapped = np.load(path, mmap_mode="r")
    np.testing.assert_array_equal(TorchEngine(net).score(mapped), TorchEngine(net).score(tiles(20)))
    np.testing.assert_array_equal(
        TorchEngine(net).score(np.pad(tiles(20), ((0, 0), (2, 2), (2, 2), (0, 0)))[:, 2:-2, 2:-2]),
        TorchEngine(net).score(tiles(20)),
    )
    assert not [w for w in recwarn if "writable" in str(w.message)]
