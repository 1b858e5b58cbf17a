"""The rivals on kept tiles: the same tiles, encoder, augmentation and number of tiles shown, but labels go to the bag.

A step shows a few tiles of each of a few slides. A slide is scored from all its kept tiles at once; its score is the
logit of malignancy, or the mean of the four logits of S where Y is not learned from.
"""

from collections.abc import Mapping, Sequence
from math import ceil
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor, nn

from aspirate.core.records import SlideEntry
from aspirate.engines.torch_engine import TorchEngine
from aspirate.learning.augment import AugmentSettings, augment
from aspirate.learning.device import Compute
from aspirate.learning.loop import FitPlan, Watch, fit
from aspirate.learning.pace import Pace
from aspirate.learning.slide_labels import judged_order, ranks_of, useful_slides
from aspirate.learning.tile_bank import TileBank
from aspirate.nn.bag_net import BagNet
from aspirate.nn.tile_net import TileEncoder, seeded


class BagSettings(Pace):
    """Training of a rival."""

    encoder: str = "vgg11-quarter"
    pool: str = "attention"
    labels: Literal["Y", "S", "YS"] = "YS"
    bags: int = Field(4, ge=1)
    """Slides in a step."""
    tiles: int = Field(16, ge=1)
    """Of each of them, at most."""
    epochs: int = Field(10, ge=1)
    tiles_per_slide: int = Field(80, ge=1)
    """An epoch shows on average so many tiles of each slide."""
    smooth: int = Field(3, ge=1)
    """The best epoch is the one that ends the best run of so many: a few dozen slides judge a single one by chance."""
    augment: AugmentSettings = AugmentSettings()


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
        self.ranks = ranks_of(self.train)
        self.useful = useful_slides(self.ranks, settings.labels)
        self.module = seeded(seed, lambda: BagNet(settings.encoder, side_px, settings.pool, settings.labels))
        if start is not None:
            self.module.tiles.encoder.load_state_dict(start.encoder.state_dict())

    @property
    def steps_per_epoch(self) -> int:
        shown = len(self.useful) * self.settings.tiles_per_slide
        return ceil(shown / (self.settings.bags * self.settings.tiles))

    def batch(self, step: int) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
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
        exceeds = self.exceeds(entry)
        logits = exceeds["Y"] if "Y" in exceeds else exceeds["S"]
        return float(logits.mean())  # one logit for Y; of the four for S the mean

    @torch.inference_mode()
    def exceeds(self, entry: SlideEntry) -> dict[str, NDArray[np.float32]]:
        """Logits (K,) per label that the slide's rank exceeds each cut."""
        self.module.eval()
        name = f"{entry.slide_id}.{self.stack}"
        features = torch.from_numpy(TorchEngine(self.module.tiles).outputs(self.bank.stack(name)))
        found = self.module.exceeds(features, torch.zeros(len(features), dtype=torch.long))
        return {label: logits[0].numpy() for label, logits in found.items()}


def train_bags(learner: BagLearner, folder: Path, compute: Compute, watch: Watch) -> list[dict[str, float]]:
    """Leaves the best epoch's weights in the learner's module; returns the history."""
    settings = learner.settings
    plan = FitPlan(
        epochs=settings.epochs,
        steps_per_epoch=learner.steps_per_epoch,
        smooth=settings.smooth,
        **settings.pace(),
    )
    return fit(learner, plan, folder, compute, watch)
