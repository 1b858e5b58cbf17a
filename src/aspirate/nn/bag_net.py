"""A net over bags of tiles: an encoder, one of the poolings, and the same ordinal loss, on bags instead of tiles."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from aspirate.nn.ordinal import UNKNOWN, MalignancyLoss, ordinal_losses
from aspirate.nn.pooling import POOLS
from aspirate.nn.tile_net import TileEncoder


class BagNet(nn.Module):
    """Tiles (N, 3, side, side) and whose they are (N,) → logits per label (B, K) that a bag's rank exceeds each cut."""

    def __init__(
        self,
        encoder: str,
        side_px: int,
        pool: str,
        labels: str,
        ordered: bool = True,
        weights: dict[str, float] | None = None,
    ) -> None:
        super().__init__()
        if pool not in POOLS:
            raise ValueError(f"pool={pool!r}: choose one of {', '.join(sorted(POOLS))}")
        self.objective = MalignancyLoss(labels, ordered, weights)
        self.tiles = TileEncoder(encoder, side_px)
        self.pool = POOLS[pool](self.tiles.features)

    def exceeds(self, features: Tensor, bag: Tensor) -> dict[str, Tensor]:
        """All cuts of all labels pooled at once."""
        cuts = {label: self.objective.cuts_of(label).to(features) for label in self.objective.labels}
        logits = self.pool(features, bag, torch.cat([*cuts.values()]))
        return dict(zip(cuts, logits.split([len(c) for c in cuts.values()], dim=1), strict=True))

    def forward(self, tiles: Tensor, bag: Tensor, ranks: Mapping[str, Tensor]) -> Tensor:
        """The loss of bags with these ranks (B,), each label a mean over the bags that carry it."""
        exceeds = self.exceeds(self.tiles(tiles).float(), bag)
        total = tiles.new_zeros((), dtype=torch.float32)
        for label, logits in exceeds.items():
            known = (ranks[label] != UNKNOWN).sum().clamp_min(1)
            total = total + self.objective.weights[label] * ordinal_losses(logits, ranks[label]).sum() / known
        return total
