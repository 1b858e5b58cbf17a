"""Nets over bags: an encoder, one of the poolings, and the same ordinal loss, on bags instead of tiles.

A bag is the tiles of a slide (`BagNet`), or the places of one crop's feature map (`CropNet`), which is how the methods
that see whole slides look at them.
"""

from collections.abc import Mapping
from typing import cast

import torch
from torch import Tensor, nn

from aspirate.nn.ordinal import UNKNOWN, MalignancyLoss, ordinal_losses
from aspirate.nn.pooling import POOLS
from aspirate.nn.tile_net import ENCODERS, TileEncoder, normalised
from aspirate.nn.vgg import SMALLEST_SIDE, Vgg

Exceeds = dict[str, Tensor]
"""Per label, logits (B, K) that a bag's rank exceeds each cut."""


class BagHead(nn.Module):
    """Features (N, D) and whose they are (N,) → what is said of each bag."""

    def __init__(
        self,
        features: int,
        pool: str,
        labels: str,
        ordered: bool = True,
        weights: dict[str, float] | None = None,
    ) -> None:
        super().__init__()
        if pool not in POOLS:
            raise ValueError(f"pool={pool!r}: choose one of {', '.join(sorted(POOLS))}")
        self.objective = MalignancyLoss(labels, ordered, weights)
        self.pool = POOLS[pool](features)

    def forward(self, features: Tensor, bag: Tensor) -> Exceeds:
        """All cuts of all labels pooled at once."""
        cuts = {label: self.objective.cuts_of(label).to(features) for label in self.objective.labels}
        logits = self.pool(features, bag, torch.cat([*cuts.values()]))
        return dict(zip(cuts, logits.split([len(c) for c in cuts.values()], dim=1), strict=True))

    def loss(self, exceeds: Exceeds, ranks: Mapping[str, Tensor]) -> Tensor:
        """Of bags with these ranks (B,), each label a mean over the bags that carry it."""
        total = next(iter(exceeds.values())).new_zeros(())
        for label, logits in exceeds.items():
            known = (ranks[label] != UNKNOWN).sum().clamp_min(1)
            total = total + self.objective.weights[label] * ordinal_losses(logits, ranks[label]).sum() / known
        return total


class BagNet(nn.Module):
    """Tiles (N, 3, side, side) and whose they are (N,) → the loss of bags with these ranks."""

    def __init__(self, encoder: str, side_px: int, pool: str, labels: str) -> None:
        super().__init__()
        self.tiles = TileEncoder(encoder, side_px)
        self.head = BagHead(self.tiles.features, pool, labels)

    def forward(self, tiles: Tensor, bag: Tensor, ranks: Mapping[str, Tensor]) -> Tensor:
        return self.head.loss(self.head(self.tiles(tiles).float(), bag), ranks)


class CropNet(nn.Module):
    """Crops (N, 3, side, side) → logits (N, ΣK), or the loss where ranks are given; each crop is a bag of its places.

    With pool `cnn` a crop is judged as one thing, from the mean of its feature map.
    """

    def __init__(self, encoder: str, pool: str, labels: str) -> None:
        super().__init__()
        net = cast(Vgg, ENCODERS[encoder](SMALLEST_SIDE))
        self.convolutions = net.convolutions
        self.whole = pool == "cnn"
        # A bag of one has its own logit as its mean.
        self.head = BagHead(net.channels, "mean" if self.whole else pool, labels)

    def forward(self, crops: Tensor, ranks: Mapping[str, Tensor] | None = None) -> Tensor:
        maps = self.convolutions(normalised(crops)).float()  # (N, D, h, w)
        places = maps.flatten(2).transpose(1, 2)  # (N, h·w, D)
        if self.whole:
            places = places.mean(1, keepdim=True)
        bag = torch.arange(len(crops), device=crops.device).repeat_interleave(places.shape[1])
        exceeds = cast(Exceeds, self.head(places.flatten(0, 1), bag))
        return torch.cat([*exceeds.values()], 1) if ranks is None else self.head.loss(exceeds, ranks)

    def by_label(self, logits: Tensor) -> Exceeds:
        """Columns of what `forward` gave, by label."""
        objective = self.head.objective
        sizes = [len(objective.cuts_of(label)) for label in objective.labels]
        return dict(zip(objective.labels, torch.split(logits, sizes, dim=-1), strict=True))
