"""Stage 1: which tiles show follicular cells.

Batches are half marked tiles, half tiles drawn uniformly from whole slides and *taken* for negatives, of which a few
are not. So the paper stops training by the mean prediction on held-out marked tiles alone, and not by an AUC against
noisy negatives. That rule is at the mercy of a net that at first calls too much informative; where the rate falls to 0,
training to the end is better.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from aspirate.core.errors import AspirateError
from aspirate.core.geometry import TileGrid
from aspirate.core.logits import sigmoid
from aspirate.core.ranking import auc
from aspirate.core.records import Annotation
from aspirate.engines.torch_engine import TorchEngine
from aspirate.learning.augment import Tinted, augment, shifted
from aspirate.learning.device import Compute
from aspirate.learning.loop import FitPlan, Watch, fit
from aspirate.learning.tile_bank import TileBank
from aspirate.nn.tile_net import TileNet, seeded
from aspirate.slides.slide import Slide
from aspirate.slides.tile_labels import tiles_met
from aspirate.stages.settings import InformativenessSettings

MARKED, DRAWN, OWNERS = "marked", "drawn", "owners"
"""What a slide gives: tiles someone marked, tiles drawn at random, and whose annotation marks each of the first."""
NOBODY = -1


@dataclass(frozen=True, slots=True)
class MarkedTiles:
    """Corners of tiles that someone marked, and their grades (−1 unknown)."""

    corners_px0: NDArray[np.int64]
    grades: NDArray[np.int8]
    owners: NDArray[np.int64]
    """Which annotation labels this tile of the grid; −1 for tiles beside the grid, centred on an annotation."""


def marked_tiles(grid: TileGrid, annotations: Sequence[Annotation]) -> MarkedTiles:
    """Tiles of the grid that annotations label, and one tile centred on each annotation."""
    owners, tiles = tiles_met(grid, annotations)
    grades = np.array([-1 if a.abnormality is None else a.abnormality for a in annotations], np.int8)
    centres = np.array([a.geometry_px0.centroid.coords[0] for a in annotations], float).reshape(-1, 2)
    inside = ((centres >= 0) & (centres < [grid.size_px0.width, grid.size_px0.height])).all(axis=1)
    centred = np.round(centres[inside] - grid.side_px0 / 2).astype(np.int64)
    return MarkedTiles(
        np.concatenate([grid.corners_px0()[tiles], centred]),
        np.concatenate([grades[owners], grades[inside]]),
        np.concatenate([owners, np.full(len(centred), NOBODY)]),
    )


def collect(
    slide: Slide,
    grid: TileGrid,
    annotations: Sequence[Annotation],
    bank: TileBank,
    settings: InformativenessSettings,
    seed: int,
) -> None:
    """Put a slide's share of stage 1 into the bank: marked tiles with a margin to shift in, and drawn ones."""
    if not bank.has(f"{slide.name}.{DRAWN}"):
        rng = np.random.default_rng(seed)
        chosen = rng.choice(len(grid), min(settings.drawn_per_slide, len(grid)), replace=False)
        bank.add(
            f"{slide.name}.{DRAWN}",
            slide.read_squares(grid.corners_px0()[chosen], grid.side_px0, grid.side_px),
        )
    if annotations and not bank.has(f"{slide.name}.{MARKED}"):
        marked = marked_tiles(grid, annotations)
        margin_px0 = round(settings.shift_px * grid.side_px0 / grid.side_px)
        patches = slide.read_squares(
            marked.corners_px0 - margin_px0,
            grid.side_px0 + 2 * margin_px0,
            grid.side_px + 2 * settings.shift_px,
        )
        bank.add(f"{slide.name}.{OWNERS}", marked.owners)
        bank.add(f"{slide.name}.{MARKED}", patches)


class InformativenessLearner:
    """r_φ: bytes of a tile → logit that it is informative."""

    def __init__(
        self,
        bank: TileBank,
        train: Sequence[str],
        validation: Sequence[str],
        side_px: int,
        settings: InformativenessSettings,
        seed: int,
    ) -> None:
        self.bank, self.side_px, self.settings, self.seed = bank, side_px, settings, seed
        self.drawn = [f"{name}.{DRAWN}" for name in train]
        self.marked = _rows(bank, [f"{name}.{MARKED}" for name in train])
        self.held = list(validation)
        for use, names in (("learn from", train), ("validate on", validation)):
            if not any(bank.has(f"{name}.{MARKED}") for name in names):
                raise AspirateError(f"stage 1: no slide to {use} has an annotation; annotate more slides")
        self.module = seeded(seed, lambda: TileNet(settings.encoder, side_px))

    def _centre(self, patches: NDArray[np.uint8]) -> NDArray[np.uint8]:
        margin = (patches.shape[1] - self.side_px) // 2
        return patches[:, margin : margin + self.side_px, margin : margin + self.side_px]

    @property
    def steps_per_epoch(self) -> int:
        return max(self.settings.least_steps, ceil(len(self.marked) / (self.settings.batch // 2)))

    def batch(self, step: int) -> tuple[Tensor | Tinted, Tensor]:
        rng = np.random.default_rng([self.seed, step])
        half = self.settings.batch // 2
        chosen = [self.marked[i] for i in rng.integers(0, len(self.marked), half)]
        patches = self.bank.gather([name for name, _ in chosen], [row for _, row in chosen])
        marked = shifted(patches, self.side_px, rng)
        names = [self.drawn[i] for i in rng.integers(0, len(self.drawn), self.settings.batch - half)]
        drawn = self.bank.gather(names, [int(rng.integers(0, self.bank.count(name))) for name in names])
        tiles = augment(np.concatenate([marked, drawn]), self.settings.augment, rng)
        informative = torch.cat([torch.ones(len(marked)), torch.zeros(len(drawn))])
        return tiles, informative

    def loss(self, module: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        tiles, informative = batch
        return binary_cross_entropy_with_logits(module(tiles)[:, 0].float(), informative)

    def held_scores(self, module: nn.Module, kind: str) -> NDArray[np.float32]:
        """Of all marked or drawn tiles of slides not trained on, which stay on disk."""
        engine = TorchEngine(module)
        names = [f"{name}.{kind}" for name in self.held]
        scores = [engine.score(self._centre(self.bank.stack(name))) for name in names if self.bank.has(name)]
        return np.concatenate(scores) if scores else np.empty(0, np.float32)

    def held_annotations(self, module: nn.Module) -> NDArray[np.float32]:
        """Of each annotation on slides not trained on, the score of its best tile of the grid."""
        engine, found = TorchEngine(module), []
        for name in self.held:
            if self.bank.has(f"{name}.{MARKED}"):
                owners = np.asarray(self.bank.stack(f"{name}.{OWNERS}"))
                of_grid = owners != NOBODY
                best = np.full(owners.max(initial=NOBODY) + 1, -np.inf, np.float32)
                scores = engine.score(self._centre(self.bank.stack(f"{name}.{MARKED}")[of_grid]))
                np.maximum.at(best, owners[of_grid], scores)
                found.append(best[np.isfinite(best)])  # an annotation beyond the slide has no tile
        if not sum(map(len, found)):
            raise AspirateError("stage 1: no annotation lies within a slide to validate on; annotate more slides")
        return np.concatenate(found)

    def validate(self, module: nn.Module) -> Mapping[str, float]:
        marked, drawn = self.held_scores(module, MARKED), self.held_scores(module, DRAWN)
        mean = float(sigmoid(marked).mean())
        against = np.concatenate([marked, drawn])
        return {
            "judged": mean if self.settings.stop == "paper" else 0.0,  # of equals the last is kept
            "mean_positive": mean,
            "auc": auc(against, np.arange(len(against)) < len(marked)),
        }


@dataclass(frozen=True, slots=True)
class Informativeness:
    """What stage 1 leaves behind."""

    net: TileNet
    held: NDArray[np.float64]
    """Probabilities of the best tile of each annotation of slides not trained on."""
    history: list[dict[str, float]]

    @property
    def kept(self) -> dict[str, float]:
        """The epoch whose weights were kept; of equals the last."""
        return max(reversed(self.history), key=lambda row: row["judged"])


def train_informativeness(
    learner: InformativenessLearner, folder: Path, compute: Compute, watch: Watch
) -> Informativeness:
    settings = learner.settings
    plan = FitPlan(
        epochs=settings.epochs,
        steps_per_epoch=learner.steps_per_epoch,
        patience=1 if settings.stop == "paper" else None,
        **settings.pace(),
    )
    history = fit(learner, plan, folder, compute, watch)
    held = sigmoid(learner.held_annotations(learner.module))
    return Informativeness(learner.module, held, history)


def _rows(bank: TileBank, names: Sequence[str]) -> list[tuple[str, int]]:
    return [(name, row) for name in names if bank.has(name) for row in range(bank.count(name))]
