"""Every other precision than fp32 on the reference tiles of a model that is being made; see `admission.py`."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from aspirate.engines.choice import engine_for
from aspirate.engines.machine import this_machine
from aspirate.nn.fingerprint import tensors_sha256
from aspirate.nn.quantised import ranges_of
from aspirate.nn.tile_net import TileNet
from aspirate.stages.calibration import Calibration
from aspirate.workflow.admission import AS_THEY_ARE, Admission, Scores, judged
from aspirate.workflow.opinion import Reading

EXAMINED = ("bf16", "int8")
"""fp32 is what the others are measured against."""


def examine(
    nets: Mapping[str, TileNet],
    tiles: NDArray[np.uint8],
    exact: Scores,
    calibration: Calibration,
    reading: Reading = AS_THEY_ARE,
) -> tuple[Admission, ...]:
    """Every precision but fp32; `exact` are the scores in fp32."""
    return tuple(_examined(precision, nets, tiles, exact, calibration, reading) for precision in EXAMINED)


def _examined(
    precision: str,
    nets: Mapping[str, TileNet],
    tiles: NDArray[np.uint8],
    exact: Scores,
    calibration: Calibration,
    reading: Reading,
) -> Admission:
    if precision not in this_machine().speeds:
        return Admission(precision, False, "not tried: the machine that made this bundle does not have it")
    seen = tiles[: max(1, len(tiles) // 2)]  # the other half shows whether these ranges hold for tiles not seen
    ranges = {name: ranges_of(net, seen) for name, net in nets.items()} if precision == "int8" else {}
    found = {
        name: engine_for(
            net, f"openvino-{precision}", ranges=ranges.get(name), fingerprint=tensors_sha256(net.state_dict())
        ).score(tiles)
        for name, net in nets.items()
    }
    return judged(precision, exact, found, calibration, ranges, reading)
