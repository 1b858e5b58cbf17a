"""Tiles as bytes in, scores out; encoders are chosen by name."""

from collections.abc import Callable
from typing import Protocol, TypeVar, cast

import torch
from torch import Tensor, nn

from aspirate.nn.scout import ScoutEncoder
from aspirate.nn.vgg import Vgg


class Encoder(Protocol):
    """A module that turns (N, 3, side, side) into (N, features)."""

    features: int

    def __call__(self, tiles: Tensor) -> Tensor: ...


ENCODERS: dict[str, Callable[[int], nn.Module]] = {
    "vgg11": lambda side_px: Vgg(side_px),
    "vgg11-quarter": lambda side_px: Vgg(side_px, width=0.25, head="average"),
    "scout": lambda side_px: ScoutEncoder(side_px),
}
"""Name → a function of the tile's side in pixels. A new encoder is a file of its own and a line here."""

MEAN, SPREAD = 0.5, 0.25
"""Fixed, so that no statistic of any slide can leak from one fold to another."""


def normalised(pixels: Tensor) -> Tensor:
    """Bytes or floats in 0 … 255 → floats about 0."""
    return (pixels.float() / 255 - MEAN) / SPREAD


class TileEncoder(nn.Module):
    """(N, 3, side, side) bytes or floats in 0 … 255 → (N, features)."""

    def __init__(self, encoder: str, side_px: int) -> None:
        super().__init__()
        if encoder not in ENCODERS:
            raise ValueError(f"encoder={encoder!r}: choose one of {', '.join(sorted(ENCODERS))}")
        self.encoder = ENCODERS[encoder](side_px)
        self.features = cast(Encoder, self.encoder).features

    def forward(self, tiles: Tensor) -> Tensor:
        features: Tensor = self.encoder(normalised(tiles))
        return features


class TileNet(TileEncoder):
    """The same, → (N, outputs) scores."""

    def __init__(self, encoder: str, side_px: int, outputs: int = 1) -> None:
        super().__init__(encoder, side_px)
        self.last = nn.Linear(self.features, outputs)

    def forward(self, tiles: Tensor) -> Tensor:
        scores: Tensor = self.last(super().forward(tiles))
        return scores


def parameters_of(module: nn.Module) -> int:
    """How many numbers are learned."""
    return sum(parameter.numel() for parameter in module.parameters() if parameter.requires_grad)


M = TypeVar("M", bound=nn.Module)


def seeded(seed: int, build: Callable[[], M]) -> M:
    """A module whose first weights depend on the seed alone; the caller's random state is left as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return build()
