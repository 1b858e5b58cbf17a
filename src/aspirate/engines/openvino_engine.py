"""Scores by OpenVINO on the CPU: bytes in, normalisation in the graph, compiled once and kept on disk.

The graph is made by OpenVINO's PyTorch front end itself; its converter would report its use to its makers.
"""

import os
import warnings
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from aspirate.engines.cache import cpu, fingerprint, keep_bytes, kept_bytes
from aspirate.engines.machine import ISA_VARIABLE, this_machine
from aspirate.engines.turns import Turns
from aspirate.nn.fingerprint import tensors_sha256
from aspirate.nn.folding import folded
from aspirate.nn.quantised import Range, quantised

BATCH = 16
"""Tiles at once; a smaller batch is filled up, since a graph of a fixed size is compiled best."""
GRAPH = 2
"""To be raised when `graph_of` makes another graph of the same net."""
HINTS = {"fp32": "f32", "bf16": "bf16", "int8": "f32"}
"""In int8 the graph says which layers are integers; the others stay in fp32."""


class OpenVinoEngine:
    """`score`: (N, side, side, 3) bytes → (N,) scores in fp32."""

    def __init__(
        self,
        net: nn.Module,
        precision: str = "fp32",
        ranges: Sequence[Range] | None = None,
        batch: int | None = None,
        fingerprint: str | None = None,
        turns: Turns | None = None,
    ) -> None:
        """`ranges` for int8; `fingerprint` of the weights, where they need not be read if the net is compiled; `turns`
        to take with other nets, its own where there are none."""
        if precision == "int8" and ranges is None:
            raise ValueError("int8 needs the ranges of what comes into each layer")
        self.name = f"openvino-{precision}"
        self.net, self.precision, self.ranges = net, precision, ranges
        self.batch, self.fingerprint = batch or BATCH, fingerprint or tensors_sha256(net.state_dict())
        self.turns = turns or Turns()
        self.weight_bytes = sum(each.numel() for each in net.parameters()) * (1 if precision == "int8" else 4)
        self._requests: dict[tuple[int, ...], Any] = {}

    def put_away(self) -> None:
        """Frees the memory of the compiled net, which comes from disk again when there are tiles to score."""
        self._requests.clear()

    def score(self, tiles: NDArray[np.uint8]) -> NDArray[np.float32]:
        """The first output of each tile."""
        return self.outputs(tiles)[:, 0]

    def outputs(self, tiles: NDArray[np.uint8]) -> NDArray[np.float32]:
        """(N, outputs)."""
        if not len(tiles):
            return np.empty((0, 1), np.float32)
        shape = (self.batch, *tiles.shape[1:])
        if shape not in self._requests:
            self.turns.take(self)
            self._requests[shape] = self._compiled(shape).create_infer_request()
        request, found = self._requests[shape], []
        filled = np.zeros(shape, np.uint8)
        for start in range(0, len(tiles), self.batch):
            part = tiles[start : start + self.batch]
            filled[: len(part)] = part
            found.append(request.infer([filled], share_inputs=True)[0][: len(part)].astype(np.float32))
        return np.concatenate(found)

    def _compiled(self, shape: tuple[int, ...]) -> Any:
        """From disk if it was compiled before, by the same library for the same processor."""
        openvino, core = library()
        settings = {
            "INFERENCE_PRECISION_HINT": HINTS[self.precision],
            "PERFORMANCE_HINT": "LATENCY",  # one batch at a time, on all threads
            "INFERENCE_NUM_THREADS": torch.get_num_threads(),
            "ENABLE_CPU_PINNING": False,  # several processes would sit on the same core
        }
        isa = os.environ.get(ISA_VARIABLE)
        state = [GRAPH, self.fingerprint, self.ranges, shape, settings, openvino.__version__, cpu(), isa]
        name = f"net-{fingerprint(*state)}.blob"
        tensors: list[Any] = []

        def room(size: int) -> NDArray[np.uint8]:
            """Memory of the library's own: a compiled net goes on using it."""
            tensors.append(openvino.Tensor(openvino.Type.u8, openvino.Shape([size])))
            found: NDArray[np.uint8] = tensors[-1].data
            return found

        if kept_bytes(name, room) is not None:
            try:
                return core.import_model(tensors[-1], "CPU", settings)
            except RuntimeError:
                pass  # whole, but not as this library writes it; compiled anew
        net = self.net if self.ranges is None else quantised(self.net, self.ranges)
        compiled = core.compile_model(graph_of(net, shape), "CPU", settings)
        keep_bytes(name, compiled.export_model().getbuffer())
        return compiled


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


@cache
def library() -> tuple[Any, Any]:
    """OpenVINO and its core; before it is loaded, it is held to instructions that this machine really has."""
    isa = this_machine().highest_isa
    if isa is not None:
        os.environ.setdefault(ISA_VARIABLE, isa)
    import openvino

    return openvino, openvino.Core()
