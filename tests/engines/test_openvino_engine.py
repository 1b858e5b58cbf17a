"""Scores by OpenVINO: those of torch, from a graph that is compiled once."""

from pathlib import Path

import numpy as np
import pytest
import torch

from aspirate.engines import graph
from aspirate.engines.cache import folder, keep_bytes
from aspirate.engines.machine import this_machine
from aspirate.engines.openvino_engine import OpenVinoEngine
from aspirate.engines.torch_engine import TorchEngine
from aspirate.nn.quantised import quantised, ranges_of
from aspirate.nn.tile_net import TileNet, seeded


def tiles(n: int, side: int = 32) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    return np.random.default_rng(n).integers(0, 256, (n, side, side, 3), np.uint8)


@pytest.fixture(scope="module")
def net() -> TileNet:
    """With normalisation that has seen something."""
    made = seeded(1, lambda: TileNet("vgg11-quarter", 32, outputs=2)).train()
    with torch.no_grad():
        for _ in range(20):
            made(torch.from_numpy(tiles(16)).permute(0, 3, 1, 2))
    return made.eval()


@pytest.mark.parametrize("n", [0, 1, 15, 16, 17, 40])
def test_scores_are_those_of_torch_whatever_the_number(net: TileNet, n: int) -> None:
    engine = OpenVinoEngine(net)
    assert engine.name == "openvino-fp32"
    np.testing.assert_allclose(engine.score(tiles(n)), TorchEngine(net).score(tiles(n)), rtol=1e-4, atol=1e-5)
    if n:
        np.testing.assert_allclose(engine.outputs(tiles(n)), TorchEngine(net).outputs(tiles(n)), rtol=1e-4, atol=1e-5)
    assert engine.score(tiles(n)).dtype == np.float32 and engine.score(tiles(n)).shape == (n,)


def test_tiles_may_come_straight_from_disk_or_be_cut_from_larger_ones(net: TileNet, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", tiles(20))
    engine = OpenVinoEngine(net)
    expected = engine.score(tiles(20))
    np.testing.assert_array_equal(engine.score(np.load(tmp_path / "x.npy", mmap_mode="r")), expected)
    padded = np.pad(tiles(20), ((0, 0), (2, 2), (2, 2), (0, 0)))
    np.testing.assert_array_equal(engine.score(padded[:, 2:-2, 2:-2]), expected)


def test_whole_numbers_are_those_of_the_quantised_net(net: TileNet) -> None:
    if "int8" not in this_machine().speeds:
        pytest.skip("this processor has no 8-bit arithmetic")
    ranges = ranges_of(net, tiles(40))
    found = OpenVinoEngine(net, "int8", ranges).score(tiles(33))
    exact = TorchEngine(net).score(tiles(33))
    rounded = TorchEngine(quantised(net, ranges)).score(tiles(33))
    error, of_engine = np.abs(rounded - exact).max(), np.abs(found - rounded).max()
    assert 0 < error < 0.2 * exact.std()
    assert of_engine < 0.5 * error  # a value that lies between two steps may be rounded to either


def test_it_computes_with_whole_numbers(net: TileNet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All convolutions but the first, when compiled and when taken from disk."""
    if "int8" not in this_machine().speeds:
        pytest.skip("this processor has no 8-bit arithmetic")
    monkeypatch.setenv("ASPIRATE_CACHE", str(tmp_path))
    for _ in range(2):
        engine = OpenVinoEngine(net, "int8", ranges_of(net, tiles(40)))
        engine.score(tiles(3))
        (request,) = engine._requests.values()
        notes = [op.get_rt_info() for op in request.get_compiled_model().get_runtime_model().get_ordered_ops()]
        kinds = [(note["layerType"].astype(str), note["runtimePrecision"].astype(str)) for note in notes]
        assert [kind for layer, kind in kinds if layer == "Convolution"] == ["f32", "u8", "u8", "u8", "u8", "u8"]


def test_bf16_is_near(net: TileNet) -> None:
    if "bf16" not in this_machine().speeds:
        pytest.skip("this processor has no bf16")
    found, exact = OpenVinoEngine(net, "bf16").score(tiles(33)), TorchEngine(net).score(tiles(33))
    assert 0 < np.abs(found - exact).max() < 0.1 * exact.std()


def test_whole_numbers_need_ranges(net: TileNet) -> None:
    with pytest.raises(ValueError, match="needs the ranges"):
        OpenVinoEngine(net, "int8")


def test_a_net_is_compiled_once(net: TileNet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    this_machine()  # its verdict stays where it is
    monkeypatch.setenv("ASPIRATE_CACHE", str(tmp_path))
    expected = OpenVinoEngine(net).score(tiles(5))
    (kept,) = tmp_path.glob("net-*.blob")

    def never(*_: object) -> None:
        raise AssertionError("compiled again")

    with monkeypatch.context() as only_here:
        only_here.setattr(graph, "graph_of", never)
        np.testing.assert_array_equal(OpenVinoEngine(net).score(tiles(5)), expected)
        for other in (tiles(5, side=48), tiles(5)):
            changed = seeded(2, lambda: TileNet("vgg11-quarter", 32, outputs=2)) if other.shape[1] == 32 else net
            with pytest.raises(AssertionError, match="compiled again"):
                OpenVinoEngine(changed).score(other)
    for damage in (b"", kept.read_bytes()[:-100], b"x" * 1000):
        kept.write_bytes(damage)
        np.testing.assert_array_equal(OpenVinoEngine(net).score(tiles(5)), expected)


def test_a_file_that_is_whole_but_not_of_this_library_is_made_anew(
    net: TileNet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    this_machine()
    monkeypatch.setenv("ASPIRATE_CACHE", str(tmp_path))
    expected = OpenVinoEngine(net).score(tiles(5))
    (kept,) = tmp_path.glob("net-*.blob")
    keep_bytes(kept.name, b"not a compiled net")
    np.testing.assert_array_equal(OpenVinoEngine(net).score(tiles(5)), expected)
    assert folder() == tmp_path
