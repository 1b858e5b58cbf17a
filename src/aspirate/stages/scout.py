"""The scout: a small net that guesses r_φ's logit of a tile from the tile shrunk to a cell.

It is taught by r_φ, on tiles of slides to learn from. What matters is on which side of the level at which tiles are
kept a tile lies, less so how far from it:

    L = BCE(σ((s − c) / T), σ((r − c) / T)),     r the logit of r_φ, s the scout's guess, c the level, T the softness

so s is on the scale of r near the level, and hardly any capacity goes into telling glass from cleaner glass. Tiles to
keep are one in a hundred or fewer; a batch has a third of them, a third of the next best, and a third drawn at random.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from aspirate.core.geometry import TileGrid
from aspirate.core.ranking import auc
from aspirate.engines.torch_engine import TorchEngine
from aspirate.learning.augment import Tinted, augment
from aspirate.learning.device import Compute
from aspirate.learning.loop import FitPlan, Watch, fit
from aspirate.learning.tile_bank import TileBank
from aspirate.nn.tile_net import TileNet, seeded
from aspirate.slides.slide import Slide
from aspirate.stages.settings import ScoutSettings

CELLS = "cells"
"""The stack of shrunken tiles that a slide gives."""


def tiles_to_learn(informativeness: NDArray[np.floating], settings: ScoutSettings, seed: int) -> NDArray[np.int64]:
    """The most informative tiles of a slide, best first, then some of the others."""
    order = np.argsort(-informativeness, kind="stable")
    best, rest = order[: settings.best_per_slide], order[settings.best_per_slide :]
    drawn = np.random.default_rng(seed).choice(rest, min(settings.drawn_per_slide, len(rest)), replace=False)
    return np.concatenate([best, drawn])


def collect_cells(
    slide: Slide, grid: TileGrid, tiles: NDArray[np.int64], bank: TileBank, settings: ScoutSettings
) -> None:
    name = f"{slide.name}.{CELLS}"
    if not bank.has(name):
        cells = slide.read_squares(grid.corners_px0()[tiles], grid.side_px0, grid.side_px // settings.shrink)
        bank.add(name, cells)


class ScoutLearner:
    """s: bytes of a shrunken tile → r_φ's logit of the tile, as far as can be told."""

    def __init__(
        self,
        bank: TileBank,
        train: Mapping[str, NDArray[np.floating]],
        validation: Mapping[str, NDArray[np.floating]],
        level: float,
        cell_px: int,
        settings: ScoutSettings,
        seed: int,
    ) -> None:
        """`train` and `validation` have, for each slide, r_φ's logits of its cells in the bank."""
        self.bank, self.level, self.settings, self.seed = bank, level, settings, seed
        self.validation = dict(validation)
        self.names = [f"{name}.{CELLS}" for name in train]
        owners = np.repeat(np.arange(len(train)), [len(logits) for logits in train.values()])
        rows = np.concatenate([np.arange(len(logits)) for logits in train.values()])
        self.places = np.stack([owners, rows], axis=1)  # (cells, 2)
        self.logits = np.concatenate(list(train.values()))
        kept = self.logits >= level
        best = rows < settings.best_per_slide
        self.thirds = [np.flatnonzero(part) for part in (kept, best & ~kept, ~best & ~kept)]
        self.module = seeded(seed, lambda: TileNet("scout", cell_px))

    def batch(self, step: int) -> tuple[Tensor | Tinted, Tensor]:
        rng = np.random.default_rng([self.seed, step])
        present = [third for third in self.thirds if len(third)]  # a small slide may have nothing but best tiles
        chosen = np.concatenate([rng.choice(third, self.settings.batch // len(present)) for third in present])
        owners, rows = self.places[chosen].T.tolist()
        cells = self.bank.gather([self.names[owner] for owner in owners], rows)
        return augment(cells, self.settings.augment, rng), torch.from_numpy(self.logits[chosen].astype(np.float32))

    def loss(self, module: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        cells, r = batch
        s, c, T = module(cells)[:, 0].float(), self.level, self.settings.softness
        return binary_cross_entropy_with_logits((s - c) / T, torch.sigmoid((r - c) / T))

    def validate(self, module: nn.Module) -> Mapping[str, float]:
        """Whether tiles to keep are ranked above the others; the last epoch is kept, as the rate falls to 0."""
        engine = TorchEngine(module)
        s = np.concatenate([engine.score(self.bank.stack(f"{name}.{CELLS}")) for name in self.validation])
        r = np.concatenate(list(self.validation.values()))
        return {"judged": 0.0, "auc": auc(s, r >= self.level)}


def train_scout(learner: ScoutLearner, folder: Path, compute: Compute, watch: Watch) -> TileNet:
    settings = learner.settings
    plan = FitPlan(epochs=settings.epochs, steps_per_epoch=settings.steps_per_epoch, **settings.pace())
    fit(learner, plan, folder, compute, watch)
    return learner.module
