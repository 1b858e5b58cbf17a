"""A net of torch as a graph of OpenVINO's own.

The graph is made by OpenVINO's PyTorch front end itself; its converter would report its use to its makers.
"""

import warnings
from typing import Any

import torch
from torch import Tensor, nn

from aspirate.engines.openvino_engine import library
from aspirate.nn.folding import folded


class _FromBytes(nn.Module):
    """(N, height, width, 3) → what the net gives for (N, 3, height, width)."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, tiles: Tensor) -> Tensor:
        found: Tensor = self.net(tiles.permute(0, 3, 1, 2))
        return found


def graph_of(net: nn.Module, shape: tuple[int, ...]) -> Any:
    """OpenVINO's own form of a net, for bytes of one shape (N, height, width, 3)."""
    library()
    from openvino.frontend import FrontEndManager
    from openvino.frontend.pytorch.ts_decoder import TorchScriptPythonDecoder
    from openvino.passes import ConstantFolding, Manager

    module = _FromBytes(folded(net.eval())).eval()
    one = torch.zeros((1, *shape[1:]), dtype=torch.uint8)
    with torch.inference_mode(), warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # it is what the front end takes
        traced = torch.jit.trace(module, (one,), check_trace=False)  # type: ignore[no-untyped-call]
    decoder = TorchScriptPythonDecoder(traced)
    front_end = FrontEndManager().load_by_framework("pytorch")
    graph = front_end.convert(front_end.load(decoder))
    graph.reshape(list(shape))
    passes = Manager()
    passes.register_pass(ConstantFolding())  # without it, ranges of int8 are not seen as constants, and nothing is int8
    passes.run_passes(graph)
    return graph
