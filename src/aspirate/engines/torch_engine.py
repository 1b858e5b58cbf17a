"""Scores by torch, on the device the net is on unless told otherwise."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from aspirate.nn.folding import folded

BATCH = 16
"""Tiles at once on a CPU: what a layer leaves then stays in the cache, and glibc does not map it anew each time. Twice
as fast as 64."""
BATCH_ON_GPU = 256


class TorchEngine:
    """`score`: (N, side, side, 3) bytes → (N,) scores in fp32, of the net as it is now."""

    name = "torch"

    def __init__(self, net: nn.Module, device: str | None = None, bf16: bool = False, batch: int | None = None) -> None:
        """`batch` is how many at once, where they are larger than tiles."""
        of_net = next((parameter.device for parameter in net.parameters()), torch.device("cpu"))
        self.device, self.bf16 = of_net if device is None else torch.device(device), bf16
        self.batch = batch or (BATCH if self.device.type == "cpu" else BATCH_ON_GPU)
        self.net = folded(net.eval()).to(self.device, memory_format=torch.channels_last)  # type: ignore[call-overload]

    def score(self, tiles: NDArray[np.uint8]) -> NDArray[np.float32]:
        """The first output of each tile."""
        return self.outputs(tiles)[:, 0]

    @torch.inference_mode()
    def outputs(self, tiles: NDArray[np.uint8]) -> NDArray[np.float32]:
        """(N, outputs)."""
        found = []
        for start in range(0, len(tiles), self.batch):
            pixels = np.array(tiles[start : start + self.batch])  # a copy, as tiles on disk may not be written to
            batch = torch.from_numpy(pixels).to(self.device).permute(0, 3, 1, 2)
            with torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self.bf16):
                found.append(self.net(batch).float().cpu().numpy())
        return np.concatenate(found) if found else np.empty((0, 1), np.float32)
