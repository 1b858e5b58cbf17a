"""The paper's small VGG11, and the same family by width and head.

    conv 64 · pool · 128 · pool · 256 · 256 · pool · 512 · 512 · pool · [linear 4096 · linear 4096 |  average]

Convolutions are 3 × 3; batch normalisation and ReLU follow every convolution and every linear layer. Where a pooling
follows too, ReLU comes after it: max(relu) = relu(max), on a quarter of the numbers. What comes out are features; the
last linear layer, with its one output, is in `nn/tile_net.py`.
"""

from typing import Literal

from torch import Tensor, nn

BLOCKS = ((64,), (128,), (256, 256), (512, 512))
"""Filters of the paper, one tuple per stretch between poolings."""

HIDDEN = 4096
SMALLEST_SIDE = 2 ** len(BLOCKS)
"""Of a tile, in pixels: the net halves it so often."""


class Vgg(nn.Module):
    """(N, 3, side, side) → (N, features)."""

    def __init__(self, side_px: int, width: float = 1.0, head: Literal["linear", "average"] = "linear") -> None:
        super().__init__()
        if side_px < SMALLEST_SIDE or side_px % SMALLEST_SIDE:
            raise ValueError(
                f"side_px={side_px}: the net halves a tile {len(BLOCKS)} times; use a multiple of {SMALLEST_SIDE}"
            )
        layers: list[nn.Module] = []
        channels = 3
        for block in BLOCKS:
            for filters in block:
                wide = max(1, round(filters * width))
                layers += [
                    nn.Conv2d(channels, wide, 3, padding=1),
                    nn.BatchNorm2d(wide),
                    nn.ReLU(inplace=True),
                ]
                channels = wide
            layers.insert(-1, nn.MaxPool2d(2, 2))
        self.convolutions = nn.Sequential(*layers)  # (N, channels, side/16, side/16)
        self.channels = channels
        if head == "average":
            self.head: nn.Module = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
            self.features = channels
        else:
            hidden = max(1, round(HIDDEN * width))
            flat = channels * (side_px // SMALLEST_SIDE) ** 2
            self.head = nn.Sequential(nn.Flatten(), *_dense(flat, hidden), *_dense(hidden, hidden))
            self.features = hidden

    def forward(self, tiles: Tensor) -> Tensor:
        features: Tensor = self.head(self.convolutions(tiles))
        return features


def _dense(inputs: int, outputs: int) -> tuple[nn.Module, ...]:
    return nn.Linear(inputs, outputs), nn.BatchNorm1d(outputs), nn.ReLU(inplace=True)
