"""The rivals that see whole slides: random crops carry their slide's labels, since no slide fits into a step at once.

Crops are read from the slides as they are needed. A step shows a few crops of different slides, an epoch as many pixels
as an epoch of stage 2. What is said of a slide is the mean of the logits of crops that cover it.
"""

from collections.abc import Mapping, Sequence
from math import ceil
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from aspirate.core.geometry import TileGrid, checked_mpp
from aspirate.core.records import SlideEntry
from aspirate.engines.torch_engine import TorchEngine
from aspirate.learning.augment import Tinted, augment
from aspirate.learning.settings import SlideTraining
from aspirate.learning.slide_labels import LabelLogits, judged_order, ranks_of, score_of, useful_slides
from aspirate.nn.bag_net import CropNet
from aspirate.nn.tile_net import seeded
from aspirate.slides.shelf import Shelf
from aspirate.slides.slide import Slide
from aspirate.stages.settings import CropShape

AT_ONCE = 2
"""Crops scored together; more leave the cache."""
READ_AT_ONCE = 16


class CropSettings(SlideTraining, CropShape):
    """Training of a rival on whole slides."""

    pool: str = "cnn"
    """cnn, or one of the poolings over the places of a crop."""
    labels: Literal["Y", "S", "YS"] = "YS"


class CropLearner:
    """Trains on slides that have at least one of the labels in use; `tile_px` is the side of stage 2's tiles."""

    def __init__(
        self,
        shelf: Shelf,
        train: Sequence[SlideEntry],
        validation: Sequence[SlideEntry],
        mpp: float,
        tile_px: int,
        settings: CropSettings,
        seed: int,
    ) -> None:
        self.shelf, self.mpp, self.tile_px, self.settings, self.seed = shelf, mpp, tile_px, settings, seed
        self.train, self.validation = list(train), list(validation)
        self.ranks = ranks_of(self.train)
        self.useful = useful_slides(self.ranks, settings.labels)
        self.module = seeded(seed, lambda: CropNet(settings.encoder, settings.pool, settings.labels))

    @property
    def steps_per_epoch(self) -> int:
        shown_px = len(self.useful) * self.settings.tiles_per_slide * self.tile_px**2
        return ceil(shown_px / (self.settings.crops * self.settings.side_px**2))

    def grid(self, slide: Slide) -> TileGrid:
        mpp = checked_mpp(slide.mpp, slide.name)
        return TileGrid.cover(slide.size_px0, mpp, self.settings.side_px, self.mpp)

    def batch(self, step: int) -> tuple[Tensor | Tinted, dict[str, Tensor]]:
        rng = np.random.default_rng([self.seed, step])
        slides = rng.choice(self.useful, self.settings.crops)
        crops = np.concatenate([self._crop(self.train[i], rng.random(2)) for i in slides])
        pixels = augment(crops, self.settings.augment, rng)
        return pixels, {label: torch.from_numpy(self.ranks[label][slides]) for label in self.settings.labels}

    def _crop(self, entry: SlideEntry, place: NDArray[np.float64]) -> NDArray[np.uint8]:
        """(1, side, side, 3); places 0 … 1 cover the slide, up to where a crop still lies within it."""
        with self.shelf.slide(entry) as slide:
            grid = self.grid(slide)
            room = np.maximum([slide.size_px0.width - grid.side_px0, slide.size_px0.height - grid.side_px0], 0)
            corner = np.floor(place * (room + 1)).astype(np.int64)
            return slide.read_squares(corner[None], grid.side_px0, grid.side_px)

    def loss(self, module: nn.Module, batch: tuple[Tensor, dict[str, Tensor]]) -> Tensor:
        loss: Tensor = module(*batch)
        return loss

    def validate(self, module: nn.Module) -> Mapping[str, float]:
        scores = [score_of(self.exceeds(entry, self.settings.judged)) for entry in self.validation]
        return judged_order(scores, self.validation)

    def exceeds(self, entry: SlideEntry, most: int | None = None) -> LabelLogits:
        """Of the module as it is now, over all crops of a slide, or `most` of them."""
        engine = TorchEngine(self.module, batch=AT_ONCE)
        logits = []
        with self.shelf.slide(entry) as slide:
            grid = self.grid(slide)
            corners = grid.corners_px0()
            if most is not None and most < len(corners):
                corners = corners[np.linspace(0, len(corners) - 1, most).round().astype(np.int64)]
            for start in range(0, len(corners), READ_AT_ONCE):
                part = corners[start : start + READ_AT_ONCE]
                logits.append(engine.outputs(slide.read_squares(part, grid.side_px0, grid.side_px)))
        mean = torch.from_numpy(np.concatenate(logits).mean(0))
        return {label: part.numpy() for label, part in self.module.by_label(mean).items()}
