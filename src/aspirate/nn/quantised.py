"""A net as an integer engine computes it: what goes into a layer, and its weights, in 8 bits.

    x̂ = s · clip(round(x / s), 0, 255),  s = highest x seen / 255;   ŵ alike in −127 … 127, with one s for each output

Ranges are the lowest and highest value that came into each layer on tiles shown before. The first layer, which sees the
pixels, and the last, which gives the score, stay as they are: they cost little, and every score goes through them.

Rounding keeps order, and so may come before a maximum as well as after it. It does here, wherever one follows the
other in a sequence: what a layer leaves is then a quarter as large, and is pooled in bytes. Clipped at 0 it is a ReLU.
"""

import copy
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import conv2d, linear

from aspirate.nn.folding import folded
from aspirate.nn.shapes import Range

AT_ONCE = 16
TINY = 1e-12
"""Of a step, so that a layer that only ever saw zeros has one."""


def quantisable(net: nn.Module) -> list[nn.Conv2d | nn.Linear]:
    """In the order in which they were added to the net, all but the first and the last."""
    return [layer for layer in net.modules() if isinstance(layer, nn.Conv2d | nn.Linear)][1:-1]


@torch.inference_mode()
def ranges_of(net: nn.Module, tiles: NDArray[np.uint8]) -> list[Range]:
    """Of what comes into each layer that `quantised` changes."""
    used = folded(net.eval())
    seen: dict[nn.Module, Range] = {}

    def look(layer: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        low, high = (float(extreme) for extreme in torch.aminmax(inputs[0]))
        before = seen.get(layer, (low, high))
        seen[layer] = min(low, before[0]), max(high, before[1])

    layers = quantisable(used)
    hooks = [layer.register_forward_pre_hook(look) for layer in layers]
    for start in range(0, len(tiles), AT_ONCE):
        used(torch.from_numpy(np.array(tiles[start : start + AT_ONCE])).permute(0, 3, 1, 2))
    for hook in hooks:
        hook.remove()
    return [seen[layer] for layer in layers]


def quantised(net: nn.Module, ranges: Sequence[Range]) -> nn.Module:
    """A copy in fp32 that rounds where integers would; engines find the integers in it."""
    made = copy.deepcopy(folded(net.eval()))
    layers = quantisable(made)
    if len(layers) != len(ranges):
        raise ValueError(f"{len(ranges)} ranges for {len(layers)} layers; they are of another net")
    in_bytes = dict(zip(layers, ranges, strict=True))
    for parent in list(made.modules()):
        for name, child in parent._modules.items():
            if isinstance(child, nn.Conv2d | nn.Linear) and child in in_bytes:
                parent._modules[name] = _InBytes(child, in_bytes[child])
        if isinstance(parent, nn.Sequential):
            _round_early(parent)
    return made.eval()


def _round_early(layers: nn.Sequential) -> None:
    """Where values that are never negative are pooled on their way into a layer, they are rounded before that."""
    for end, layer in enumerate(layers):
        if not isinstance(layer, _InBytes) or layer.rounding is None or layer.rounding.lowest < 0:
            continue
        start = end
        while start and isinstance(layers[start - 1], nn.MaxPool2d | nn.ReLU | nn.Identity):
            start -= 1
        pools = [n for n in range(start, end) if isinstance(layers[n], nn.MaxPool2d)]
        if pools:
            for n in range(start, end):
                if n not in pools:
                    layers[n] = nn.Identity()
            layers[pools[0]] = nn.Sequential(layer.rounding, layers[pools[0]])
            layer.rounding = None


class _Rounding(nn.Module):
    """To one of 256 values."""

    def __init__(self, range_: Range) -> None:
        super().__init__()
        low, high = range_
        self.lowest, self.highest = (0, 255) if low >= 0 else (-128, 127)
        self.step = max(max(-low, high) / self.highest, TINY)

    def forward(self, x: Tensor) -> Tensor:
        return torch.fake_quantize_per_tensor_affine(x, self.step, 0, self.lowest, self.highest)


class _InBytes(nn.Module):
    """One convolution or linear layer."""

    steps: Tensor
    zeros: Tensor
    rounding: _Rounding | None
    """Of what comes in; None where that has been done."""

    def __init__(self, layer: nn.Conv2d | nn.Linear, range_: Range) -> None:
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.rounding = _Rounding(range_)
        steps = layer.weight.flatten(1).abs().amax(1).clamp_min(TINY) / 127
        self.register_buffer("steps", steps)
        self.register_buffer("zeros", torch.zeros(len(steps), dtype=torch.int32))

    def forward(self, x: Tensor) -> Tensor:
        if self.rounding is not None:
            x = self.rounding(x)
        weight = torch.fake_quantize_per_channel_affine(self.layer.weight, self.steps, self.zeros, 0, -127, 127)
        if isinstance(self.layer, nn.Conv2d):
            of = self.layer
            return conv2d(x, weight, of.bias, of.stride, of.padding, of.dilation, of.groups)
        return linear(x, weight, self.layer.bias)
