"""Scores by OpenVINO on the CPU: bytes in, normalisation in the graph, compiled once and kept on disk.

A net that has been compiled is scored without torch, which is loaded only to compile another.
"""

import os
import sys
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from aspirate.engines.cache import cpu, fingerprint, keep_bytes, kept_bytes
from aspirate.engines.engine import OnDisk
from aspirate.engines.machine import ISA_VARIABLE, this_machine
from aspirate.engines.turns import Turns
from aspirate.nn.shapes import Range
from aspirate.slides.threads import available_threads

if TYPE_CHECKING:
    from torch import nn

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
        net: "nn.Module | OnDisk",
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
        self.batch, self.fingerprint = batch or BATCH, fingerprint or _fingerprint(self._layers())
        self.turns = turns or Turns()
        numbers = net.numbers if isinstance(net, OnDisk) else sum(each.numel() for each in net.parameters())
        self.weight_bytes = numbers * (1 if precision == "int8" else 4)
        self._requests: dict[tuple[int, ...], Any] = {}

    def _layers(self) -> "nn.Module":
        return self.net.read() if isinstance(self.net, OnDisk) else self.net

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
            "INFERENCE_NUM_THREADS": _threads(),
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
        from aspirate.engines.graph import graph_of
        from aspirate.nn.quantised import quantised

        net = self._layers()
        compiled = core.compile_model(
            graph_of(net if self.ranges is None else quantised(net, self.ranges), shape), "CPU", settings
        )
        keep_bytes(name, compiled.export_model().getbuffer())
        return compiled


def _threads() -> int:
    """As many as torch has where it is loaded, since that is told how many."""
    torch = sys.modules.get("torch")
    return torch.get_num_threads() if torch is not None else available_threads()


def _fingerprint(net: "nn.Module") -> str:
    from aspirate.nn.fingerprint import tensors_sha256

    return tensors_sha256(net.state_dict())


@cache
def library() -> tuple[Any, Any]:
    """OpenVINO and its core; before it is loaded, it is held to instructions that this machine really has."""
    isa = this_machine().highest_isa
    if isa is not None:
        os.environ.setdefault(ISA_VARIABLE, isa)
    import openvino

    return openvino, openvino.Core()
