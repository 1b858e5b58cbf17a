"""A small net in each precision of OpenVINO, in a process that may die of it: `python -m aspirate.engines.trial`.

Prints how many times faster than fp32 each is, as JSON; a precision that the processor does not have is left out. On
one core, since the verdict is kept: threads of one net wait for each other beside other work, and then all look alike.
"""

import json
import sys
import time
from typing import Any

import numpy as np

ROUNDS = 25


def main() -> None:
    import openvino

    core = openvino.Core()
    pixels = np.random.default_rng(0).random((4, 64, 48, 48), np.float32)
    threads = {"INFERENCE_NUM_THREADS": 1}
    requests = {"fp32": _request(core, small_net(integers=False), "f32", threads)}
    able = core.get_property("CPU", "OPTIMIZATION_CAPABILITIES")
    if "BF16" in able:
        requests["bf16"] = _request(core, small_net(integers=False), "bf16", threads)
    if "INT8" in able:
        requests["int8"] = _request(core, small_net(integers=True), "f32", threads)
    seconds: dict[str, float] = dict.fromkeys(requests, float("inf"))
    for _ in range(ROUNDS):  # in turns, so that a busy machine strikes all alike
        for name, request in requests.items():
            start = time.perf_counter()
            request.infer([pixels])
            seconds[name] = min(seconds[name], time.perf_counter() - start)
    json.dump({name: round(seconds["fp32"] / each, 2) for name, each in seconds.items()}, sys.stdout)


def _request(core: Any, net: Any, precision: str, threads: dict[str, int]) -> Any:
    return core.compile_model(net, "CPU", {"INFERENCE_PRECISION_HINT": precision, **threads}).create_infer_request()


def small_net(integers: bool) -> Any:
    """Two convolutions and a linear layer: what our nets are made of."""
    import openvino
    from openvino import opset13 as ops

    rng = np.random.default_rng(1)

    def in_bytes(x: Any, low: float, high: float, levels: int) -> Any:
        limits = [np.float32(low), np.float32(high)] * 2
        return ops.fake_quantize(x, *limits, levels) if integers else x

    def weights(*shape: int) -> Any:
        return in_bytes(ops.constant(rng.standard_normal(shape, np.float32) * 0.05), -0.2, 0.2, 255)

    first = x = ops.parameter([4, 64, 48, 48], np.float32)
    for _ in range(2):
        x = ops.convolution(in_bytes(x, 0, 4, 256), weights(64, 64, 3, 3), [1, 1], [1, 1], [1, 1], [1, 1])
        x = ops.relu(x)
    x = ops.reduce_mean(x, np.array([2, 3]), keep_dims=False)
    return openvino.Model([ops.matmul(in_bytes(x, 0, 4, 256), weights(64, 64), False, True)], [first], "trial")


if __name__ == "__main__":
    main()
