"""Nets as files for other programs, and what those programs say of tiles: ONNX, OpenVINO, and TorchScript for WSInfer.

ONNX and OpenVINO take bytes (N, side, side, 3) and give scores (N, 1). WSInfer and QuPath take floats in 0 … 1,
(N, 3, side, side), and apply a softmax: they get two logits, 0 and the score, so the second probability is σ(score).
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from aspirate.core.errors import ConfigError
from aspirate.engines.graph import graph_of
from aspirate.engines.openvino_engine import library
from aspirate.nn.folding import folded

AT_ONCE = 16
Tiles = NDArray[np.uint8]
Scores = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Format:
    file: str
    write: Callable[[nn.Module, int, Path], None]
    """Of a net for tiles of so many pixels a side, to a file."""
    score: Callable[[Path, Tiles], Scores]
    """(N,) by the program that the file is for."""


class _Score(nn.Module):
    """The first output alone."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = folded(net.eval())

    def forward(self, tiles: Tensor) -> Tensor:
        found: Tensor = self.net(tiles)[:, :1]
        return found


class _FromBytes(_Score):
    def forward(self, tiles: Tensor) -> Tensor:
        return super().forward(tiles.permute(0, 3, 1, 2))


class _ForSoftmax(_Score):
    def forward(self, tiles: Tensor) -> Tensor:
        score = super().forward(tiles * 255)
        return torch.cat([torch.zeros_like(score), score], 1)


def _traced(module: nn.Module, example: Tensor) -> Any:
    with torch.inference_mode(), warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # TorchScript is what others read
        return torch.jit.trace(module.eval(), (example,), check_trace=False)  # type: ignore[no-untyped-call]


def write_torchscript(net: nn.Module, side_px: int, path: Path) -> None:
    traced = _traced(_ForSoftmax(net), torch.zeros(1, 3, side_px, side_px))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.jit.save(traced, str(path))


@torch.inference_mode()
def torchscript_scores(path: Path, tiles: Tiles) -> Scores:
    """As WSInfer does: bytes to floats in 0 … 1, then the probability of the second class."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        module = torch.jit.load(str(path))  # type: ignore[no-untyped-call]
    logits = [
        module(torch.from_numpy(np.array(tiles[i : i + AT_ONCE])).permute(0, 3, 1, 2).float() / 255)
        for i in range(0, len(tiles), AT_ONCE)
    ]
    p: NDArray[np.float64] = torch.cat(logits).double().softmax(1).numpy()
    return np.asarray(np.log(p[:, 1] / p[:, 0]), np.float32)


def write_onnx(net: nn.Module, side_px: int, path: Path) -> None:
    _onnxruntime()
    example = torch.zeros(1, side_px, side_px, 3, dtype=torch.uint8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of TorchScript's end
        torch.onnx.export(
            _FromBytes(net).eval(),
            (example,),
            str(path),
            dynamo=False,
            opset_version=18,
            input_names=["tiles"],
            output_names=["scores"],
            dynamic_axes={"tiles": {0: "n"}, "scores": {0: "n"}},
        )


def onnx_scores(path: Path, tiles: Tiles) -> Scores:
    session = _onnxruntime().InferenceSession(str(path), providers=["CPUExecutionProvider"])
    parts = [session.run(None, {"tiles": tiles[i : i + AT_ONCE]})[0][:, 0] for i in range(0, len(tiles), AT_ONCE)]
    return np.concatenate(parts)


def _onnxruntime() -> Any:
    try:
        import onnx  # noqa: F401 - what torch writes with
        import onnxruntime
    except ImportError as error:
        raise ConfigError(f"ONNX needs {error.name}, which is not installed: pip install 'aspirate[onnx]'") from error
    return onnxruntime


def write_openvino(net: nn.Module, side_px: int, path: Path) -> None:
    _openvino()[0].save_model(graph_of(_Score(net), (-1, side_px, side_px, 3)), str(path), compress_to_fp16=False)


def openvino_scores(path: Path, tiles: Tiles) -> Scores:
    compiled = _openvino()[1].compile_model(str(path), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    return np.concatenate([compiled(tiles[i : i + AT_ONCE])[0][:, 0] for i in range(0, len(tiles), AT_ONCE)])


def _openvino() -> tuple[Any, Any]:
    try:
        return library()
    except ImportError as error:
        raise ConfigError("OpenVINO is not installed: pip install openvino") from error


FORMATS = {
    "onnx": Format("model.onnx", write_onnx, onnx_scores),
    "torchscript": Format("torchscript_model.pt", write_torchscript, torchscript_scores),
    "openvino": Format("model.xml", write_openvino, openvino_scores),
}
