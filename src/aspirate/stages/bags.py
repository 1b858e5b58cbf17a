"""The rivals on kept tiles: the same tiles, encoder, augmentation and number of tiles shown, but labels go to the bag.

A step shows a few tiles of each of a few slides. A slide is scored from all its kept tiles at once.
"""

from collections.abc import Mapping, Sequence
from math import ceil
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from aspirate.core.errors import SlideError
from aspirate.core.records import SlideEntry
from aspirate.engines.torch_engine import TorchEngine
from aspirate.learning.augment import Tinted, augment
from aspirate.learning.settings import SlideTraining
from aspirate.learning.slide_labels import LabelLogits, judged_order, ranks_of, score_of, useful_slides
from aspirate.learning.tile_bank import TileBank
from aspirate.nn.bag_net import BagNet
from aspirate.nn.tile_net import TileEncoder, seeded
from aspirate.stages.settings import BagShape


class BagSettings(SlideTraining, BagShape):
    """Training of a rival."""

    pool: str = "attention"
    labels: Literal["Y", "S", "YS"] = "YS"


class BagLearner:
    """Trains on slides that have at least one of the labels in use; `stack` names a slide's tiles in the bank."""

    def __init__(
        self,
        bank: TileBank,
        train: Sequence[SlideEntry],
        validation: Sequence[SlideEntry],
        stack: str,
        side_px: int,
        settings: BagSettings,
        seed: int,
        start: TileEncoder | None = None,
    ) -> None:
        self.bank, self.settings, self.seed, self.stack = bank, settings, seed, stack
        self.train, self.validation = list(train), list(validation)
        for entry in (*self.train, *self.validation):
            self._bag(entry)
        self.ranks = ranks_of(self.train)
        self.useful = useful_slides(self.ranks, settings.labels)
        self.module = seeded(seed, lambda: BagNet(settings.encoder, side_px, settings.pool, settings.labels))
        if start is not None:
            self.module.tiles.encoder.load_state_dict(start.encoder.state_dict())

    @property
    def steps_per_epoch(self) -> int:
        shown = len(self.useful) * self.settings.tiles_per_slide
        return ceil(shown / (self.settings.bags * self.settings.tiles))

    def batch(self, step: int) -> tuple[Tensor | Tinted, Tensor, dict[str, Tensor]]:
        rng = np.random.default_rng([self.seed, step])
        slides = rng.choice(self.useful, self.settings.bags)
        names, rows, bag = [], [], []
        for number, slide in enumerate(slides):
            name = f"{self.train[slide].slide_id}.{self.stack}"
            count = self.bank.count(name)
            chosen = rng.choice(count, min(count, self.settings.tiles), replace=False)
            names += [name] * len(chosen)
            rows += chosen.tolist()
            bag += [number] * len(chosen)
        pixels = augment(self.bank.gather(names, rows), self.settings.augment, rng)
        ranks = {label: torch.from_numpy(self.ranks[label][slides]) for label in self.settings.labels}
        return pixels, torch.tensor(bag), ranks

    def loss(self, module: nn.Module, batch: tuple[Tensor, Tensor, dict[str, Tensor]]) -> Tensor:
        loss: Tensor = module(*batch)
        return loss

    def validate(self, module: nn.Module) -> Mapping[str, float]:
        return judged_order([self.slide_score(entry) for entry in self.validation], self.validation)

    def slide_score(self, entry: SlideEntry) -> float:
        """Of the module as it is now."""
        return score_of(self.exceeds(entry))

    @torch.inference_mode()
    def exceeds(self, entry: SlideEntry) -> LabelLogits:
        self.module.eval()
        features = torch.from_numpy(TorchEngine(self.module.tiles).outputs(self._bag(entry)))
        found = self.module.head(features, torch.zeros(len(features), dtype=torch.long))
        return {label: logits[0].numpy() for label, logits in found.items()}

    def _bag(self, entry: SlideEntry) -> NDArray[np.uint8]:
        tiles = self.bank.stack(f"{entry.slide_id}.{self.stack}")
        if len(tiles) == 0:
            raise SlideError(f"{entry.slide_id}: has no tile in its bag; leave the slide out")
        return tiles
