"""Stage 2: how malignant a kept tile looks, one number that serves every label.

Every kept tile carries the labels of its slide (the lower bound of the likelihood, by Jensen); marked tiles carry their
own grade besides. Batches draw a slide first and then one of its tiles, so that each slide has weight 1 as in the
likelihood, however many tiles it kept. Where tiles have weights u, they are drawn in proportion to them, so that the
expected loss of a slide is Σ u·L / Σ u.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from aspirate.core.errors import AspirateError
from aspirate.core.records import SlideEntry
from aspirate.engines.torch_engine import TorchEngine
from aspirate.learning.augment import Tinted, augment, shifted
from aspirate.learning.slide_labels import judged_order, ranks_of, useful_slides
from aspirate.learning.tile_bank import TileBank
from aspirate.nn.mixture import MixtureLink, MixtureLoss
from aspirate.nn.ordinal import UNKNOWN, MalignancyLoss
from aspirate.nn.tile_net import TileNet, seeded
from aspirate.stages.settings import MalignancySettings

KEPT = "kept"


@dataclass(frozen=True, slots=True)
class MarkedTile:
    """A tile whose grade someone gave: where its pixels are in the bank, and its slide."""

    stack: str
    row: int
    grade: int
    slide: int
    """Index of its slide among the training slides."""


class MalignancyModel(nn.Module):
    """g_θ and the cuts; returns scores, or the loss where ranks are given (so that DDP sees one forward)."""

    def __init__(self, settings: MalignancySettings, side_px: int, prior: float = 0.0) -> None:
        """`prior` is the logit of a malignant slide among those learned from, which the mixture link needs."""
        super().__init__()
        self.objective: MalignancyLoss | MixtureLoss
        common = (settings.labels, settings.ordered_cuts, settings.weights)
        if settings.link == "mixture":
            self.objective = MixtureLoss(*common, prior)
        else:
            self.objective = MalignancyLoss(*common, settings.two_heads)
        self.net = TileNet(settings.encoder, side_px, self.objective.outputs)

    def forward(self, tiles: Tensor, ranks: Mapping[str, Tensor] | None = None) -> Tensor:
        scores: Tensor = self.net(tiles).float()
        if ranks is None:
            return scores
        loss: Tensor = self.objective(scores, ranks)
        return loss


class MalignancyLearner:
    """Trains on kept tiles of slides that have at least one of the labels in use."""

    def __init__(
        self,
        bank: TileBank,
        train: Sequence[SlideEntry],
        validation: Sequence[SlideEntry],
        marked: Sequence[MarkedTile],
        side_px: int,
        settings: MalignancySettings,
        seed: int,
        weights: Mapping[str, NDArray[np.float64]] | None = None,
        start: TileNet | None = None,
    ) -> None:
        """`weights` are the u of each slide's kept tiles, by slide; without them all count alike. `start` is a net
        whose encoder is where learning starts."""
        self.bank, self.settings, self.seed, self.weights = bank, settings, seed, weights
        self.train, self.validation, self.marked = list(train), list(validation), list(marked)
        if "V" in settings.labels and not self.marked:
            raise AspirateError("V: no tile of a training slide has a grade; grade some annotations, or leave V out")
        self.ranks = ranks_of(self.train)
        self.useful = useful_slides(self.ranks, settings.labels)
        self.module = seeded(seed, lambda: MalignancyModel(settings, side_px, _prior(self.ranks["Y"])))
        if start is not None:
            self.module.net.encoder.load_state_dict(start.encoder.state_dict())

    @property
    def steps_per_epoch(self) -> int:
        return ceil(len(self.useful) * self.settings.tiles_per_slide / self.settings.batch)

    def batch(self, step: int) -> tuple[Tensor | Tinted, dict[str, Tensor]]:
        rng = np.random.default_rng([self.seed, step])
        share = self.settings.marked_share if "V" in self.settings.labels else 0.0
        graded = [self.marked[i] for i in rng.integers(0, len(self.marked), round(share * self.settings.batch))]
        slides = rng.choice(self.useful, self.settings.batch - len(graded))
        stacks = [f"{self.train[i].slide_id}.{KEPT}" for i in slides]
        tiles = self.bank.gather(stacks, [self._draw(self.train[i].slide_id, rng) for i in slides])
        grades = np.full(len(slides), UNKNOWN, np.int64)
        if graded:
            patches = self.bank.gather([tile.stack for tile in graded], [tile.row for tile in graded])
            tiles = np.concatenate([tiles, shifted(patches, tiles.shape[1], rng)])
            slides = np.concatenate([slides, [tile.slide for tile in graded]])
            grades = np.concatenate([grades, [tile.grade for tile in graded]])
        ranks = {"Y": self.ranks["Y"][slides], "S": self.ranks["S"][slides], "V": grades}
        pixels = augment(tiles, self.settings.augment, rng)
        return pixels, {label: torch.from_numpy(ranks[label]) for label in self.settings.labels}

    def _draw(self, slide_id: str, rng: np.random.Generator) -> int:
        """A row among a slide's kept tiles."""
        if self.weights is None:
            return int(rng.integers(0, self.bank.count(f"{slide_id}.{KEPT}")))
        reached = np.cumsum(self.weights[slide_id])
        return int(np.searchsorted(reached, rng.random() * reached[-1], side="right"))

    def loss(self, module: nn.Module, batch: tuple[Tensor, dict[str, Tensor]]) -> Tensor:
        loss: Tensor = module(*batch)
        return loss

    def validate(self, module: nn.Module) -> Mapping[str, float]:
        return judged_order([self._slide_score(module, entry) for entry in self.validation], self.validation)

    def _slide_score(self, module: nn.Module, entry: SlideEntry) -> float:
        scores = self.seen(TorchEngine(module).score(self.bank.stack(f"{entry.slide_id}.{KEPT}")))
        return float(np.average(scores, weights=None if self.weights is None else self.weights[entry.slide_id]))

    @property
    def link(self) -> MixtureLink:
        """Through which labels of slides are seen, where they are seen through one."""
        objective = self.module.objective
        if isinstance(objective, MixtureLoss):
            return objective.link
        raise ValueError(f"link={self.settings.link!r}: tiles carry the labels of their slide as they are")

    def seen(self, scores: NDArray[np.float32]) -> NDArray[np.float32]:
        """Scores of tiles on the axis on which the cuts of Y and S lie."""
        if self.settings.link == "plain":
            return scores
        with torch.inference_mode():
            through: NDArray[np.float32] = self.link(torch.from_numpy(scores)).numpy()
        return through


def _prior(malignant: NDArray[np.int64]) -> float:
    """Log odds of malignant slides, 0 where a kind is absent."""
    counts = (malignant == 1).sum(), (malignant == 0).sum()
    return float(np.log(counts[0] / counts[1])) if min(counts) else 0.0
