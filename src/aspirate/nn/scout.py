"""The scout's encoder: a tile shrunk to a cell of a few pixels in, what little can be known of it from there out.

    conv 16 · pool · 32 · pool · 64 · pool · 64 · [average | maximum]

A cell is a tile of its own: what lies outside it is not seen, as the net that the scout stands in for does not see it
either. So a score never depends on how a slide is cut into parts.
"""

import torch
from torch import Tensor, nn

from aspirate.nn.shapes import SCOUT_FILTERS, SMALLEST_CELL


class ScoutEncoder(nn.Module):
    """(N, 3, cell, cell) → (N, features)."""

    def __init__(self, cell_px: int) -> None:
        super().__init__()
        if cell_px < SMALLEST_CELL or cell_px % SMALLEST_CELL:
            halved = len(SCOUT_FILTERS) - 1
            raise ValueError(
                f"cell_px={cell_px}: the scout halves a cell {halved} times; use a multiple of {SMALLEST_CELL}"
            )
        layers: list[nn.Module] = []
        channels = 3
        for filters in SCOUT_FILTERS:
            layers += [
                nn.Conv2d(channels, filters, 3, padding=1),
                nn.BatchNorm2d(filters),
                nn.MaxPool2d(2, 2),
                nn.ReLU(inplace=True),
            ]
            channels = filters
        del layers[-2]  # the last pooling is that over the whole cell
        self.convolutions = nn.Sequential(*layers)  # (N, channels, cell/8, cell/8)
        self.features = 2 * channels

    def forward(self, cells: Tensor) -> Tensor:
        seen = self.convolutions(cells)
        return torch.cat([seen.mean((2, 3)), seen.amax((2, 3))], 1)
