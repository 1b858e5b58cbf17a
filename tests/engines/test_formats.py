"""Nets in the form of other programs: scored by those programs, they say what torch says."""

import builtins
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from aspirate.core.errors import ConfigError
from aspirate.engines.formats import FORMATS
from aspirate.engines.torch_engine import TorchEngine
from aspirate.nn.tile_net import TileNet, seeded

TILES = np.random.default_rng(0).integers(0, 256, (21, 32, 32, 3), np.uint8)


@pytest.fixture(scope="module")
def net() -> TileNet:
    """Two heads, of which only the first is exported, and normalisation that has seen something."""
    made = seeded(1, lambda: TileNet("vgg11-quarter", 32, outputs=2)).train()
    with torch.no_grad():
        for _ in range(20):
            made(torch.from_numpy(TILES).permute(0, 3, 1, 2))
    return made.eval()


@pytest.mark.parametrize("name", FORMATS)
def test_the_program_it_is_for_says_what_torch_says(name: str, net: TileNet, tmp_path: Path) -> None:
    form = FORMATS[name]
    form.write(net, 32, tmp_path / form.file)
    found = form.score(tmp_path / form.file, TILES)
    assert found.shape == (21,) and found.dtype == np.float32
    np.testing.assert_allclose(found, TorchEngine(net).score(TILES), rtol=1e-4, atol=1e-5)


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
def test_torchscript_gives_two_logits_whose_softmax_is_the_probability(net: TileNet, tmp_path: Path) -> None:
    FORMATS["torchscript"].write(net, 32, tmp_path / "x.pt")
    module = torch.jit.load(str(tmp_path / "x.pt"))  # type: ignore[no-untyped-call]
    as_wsinfer_does = torch.from_numpy(TILES.transpose(0, 3, 1, 2).astype(np.float32) / 255)
    with torch.no_grad():
        p = module(as_wsinfer_does).softmax(1).numpy()
    assert p.shape == (21, 2)
    expected = 1 / (1 + np.exp(-TorchEngine(net).score(TILES).astype(float)))
    np.testing.assert_allclose(p[:, 1], expected, atol=1e-6)


def test_without_onnx_it_says_what_to_install(net: TileNet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name == "onnxruntime":
            raise ModuleNotFoundError("no", name=name)
        return honest(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ConfigError, match=r"ONNX needs onnxruntime.*pip install 'aspirate\[onnx\]'"):
        FORMATS["onnx"].write(net, 32, tmp_path / "x.onnx")
    assert list(tmp_path.iterdir()) == []
