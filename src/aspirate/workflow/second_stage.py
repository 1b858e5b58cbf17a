"""Stage 2 and its rivals over what the first stage kept, all through one door: fitted, then asked about a slide."""

from abc import ABC, abstractmethod
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from aspirate.core.errors import SlideError
from aspirate.core.labels import TRAINABLE_BETHESDA
from aspirate.core.progress import Stages
from aspirate.core.records import SlideEntry
from aspirate.engines.torch_engine import TorchEngine
from aspirate.evaluation.splits import Split
from aspirate.learning.device import Compute
from aspirate.learning.slide_labels import LabelLogits, score_of
from aspirate.learning.slide_training import SlideLearner, train_slides
from aspirate.nn.mixture import refit
from aspirate.nn.tile_pooling import Pooling
from aspirate.slides.shelf import Shelf
from aspirate.stages.bags import BagLearner, BagSettings
from aspirate.stages.crops import CropLearner, CropSettings
from aspirate.stages.informativeness import Informativeness
from aspirate.stages.malignancy import KEPT, MalignancyLearner
from aspirate.stages.settings import MalignancySettings
from aspirate.workflow.first_stage import FirstStage, Slides, shown_on
from aspirate.workflow.methods import Method
from aspirate.workflow.opinion import Opinion, Reading
from aspirate.workflow.recipe import Recipe


class Fitting(ABC):
    """A method on one split: `fit` learns, `opinion` reads."""

    learner: SlideLearner

    def fit(self, what: str, folder: Path, compute: Compute, stages: Stages) -> list[dict[str, float]]:
        steps = self.learner.settings.epochs * self.learner.steps_per_epoch
        with stages(what, steps, "steps") as bar:
            return train_slides(self.learner, folder, compute, shown_on(bar))

    @abstractmethod
    def opinion(self, entry: SlideEntry) -> Opinion: ...

    @property
    def cuts(self) -> dict[str, list[float]]:
        """Of S on the axis of the slide's score, where that is one and the same."""
        return {}


class Proposed(Fitting):
    """One ordinal output for every label, on tiles that carry the labels of their slide."""

    def __init__(
        self, first: FirstStage, informativeness: Informativeness | None, settings: MalignancySettings
    ) -> None:
        """Without what stage 1 learned, learning starts from nothing."""
        self.first, self.settings = first, settings
        recipe, split = first.recipe, first.split
        train, validation = first.slides.present(split.train), first.slides.present(split.validation)
        for entry in train + validation:
            self._refuse_empty(entry)
        alike = recipe.selection.weights == "binary"
        self.learner: MalignancyLearner = MalignancyLearner(
            first.bank,
            train,
            validation,
            first.marked(train),
            recipe.side_px,
            settings,
            recipe.seed,
            None if alike else {entry.slide_id: first.weights(entry) for entry in train + validation},
            informativeness.net if informativeness and settings.start == "informativeness" else None,
        )

    @property
    def cuts(self) -> dict[str, list[float]]:
        if self.settings.two_heads:
            return {}  # they lie on the axis of the second head, which is not the slide's score
        return {label: own for label, own in self.all_cuts.items() if label == "S"}

    @property
    def all_cuts(self) -> dict[str, list[float]]:
        """Of every label learned from, on the axis of the last head."""
        return {label: self.learner.module.objective.cuts_of(label).tolist() for label in self.settings.labels}

    def tile_scores(self, entry: SlideEntry) -> NDArray[np.float32]:
        """Of the kept tiles, as they lie in the bank."""
        return self._outputs(entry)[:, 0]

    def _outputs(self, entry: SlideEntry) -> NDArray[np.float32]:
        """(tiles, heads)"""
        return TorchEngine(self.learner.module.net).outputs(self.first.kept(entry))

    def _refuse_empty(self, entry: SlideEntry) -> None:
        if len(self.first.kept(entry)) == 0:
            raise SlideError(f"{entry.slide_id}: stage 1 kept none of its tiles; leave the slide out")

    @property
    def reading(self) -> Reading:
        return Reading(cuts=tuple(self.all_cuts.get("S", ())))

    def opinion(self, entry: SlideEntry) -> Opinion:
        """The score is that of the first head, the category that of the last by its cuts; mostly they are one."""
        self._refuse_empty(entry)
        outputs, u = self._outputs(entry), self.first.weights(entry)
        first, last = (self.reading.opinion(outputs[:, head], u) for head in (0, -1))
        return Opinion(first.score, last.bethesda)


class Mixture(Proposed):
    """Tiles see their slide's labels through the mixture link; the score is a pooling refitted on validation slides."""

    def fit(self, what: str, folder: Path, compute: Compute, stages: Stages) -> list[dict[str, float]]:
        history = super().fit(what, folder, compute, stages)
        known = [e for e in self.first.slides.present(self.first.split.validation) if e.malignant is not None]
        h, u = [self.tile_scores(e) for e in known], [self.first.weights(e) for e in known]
        bag = torch.arange(len(known)).repeat_interleave(torch.tensor([len(scores) for scores in h]))
        malignant = torch.tensor([bool(e.malignant) for e in known])
        shares = np.concatenate([weights / weights.sum() for weights in u])
        self.pooling = refit(torch.from_numpy(np.concatenate(h)), bag, malignant, torch.from_numpy(shares))
        return history

    @property
    def cuts(self) -> dict[str, list[float]]:
        return {}  # they lie on the axis of the link, which is not the slide's score

    @property
    def all_cuts(self) -> dict[str, list[float]]:
        """Those of Y and S on the axis of evidence, which is without the prior."""
        prior = float(self.learner.link.prior)
        return {label: [cut - prior * (label != "V") for cut in own] for label, own in super().all_cuts.items()}

    @property
    def reading(self) -> Reading:
        return Reading(self.pooling, Pooling(self.learner.link.share), super().reading.cuts)


class OnBags(Fitting):
    """A rival on the kept tiles; it starts where ours starts."""

    def __init__(self, first: FirstStage, informativeness: Informativeness, settings: BagSettings) -> None:
        split, recipe = first.split, first.recipe
        self.learner: BagLearner = BagLearner(
            first.bank,
            first.slides.present(split.train),
            first.slides.present(split.validation),
            KEPT,
            recipe.side_px,
            settings,
            recipe.seed,
            informativeness.net if recipe.malignancy.start == "informativeness" else None,
        )

    def opinion(self, entry: SlideEntry) -> Opinion:
        return opinion_of(self.learner.exceeds(entry))


class OnCrops(Fitting):
    """A rival on whole slides, which knows nothing of stage 1."""

    def __init__(self, slides: Slides, split: Split, recipe: Recipe, shelf: Shelf, settings: CropSettings) -> None:
        self.learner: CropLearner = CropLearner(
            shelf,
            slides.present(split.train),
            slides.present(split.validation),
            recipe.mpp,
            recipe.side_px,
            settings,
            recipe.seed,
        )

    def opinion(self, entry: SlideEntry) -> Opinion:
        return opinion_of(self.learner.exceeds(entry))


def opinion_of(exceeds: LabelLogits) -> Opinion:
    """TBS is 2 and one more for every cut that is more likely exceeded than not."""
    bethesda = None if "S" not in exceeds else TRAINABLE_BETHESDA[int((exceeds["S"] > 0).sum())]
    return Opinion(score_of(exceeds), bethesda)


def fitting_of(
    method: Method,
    recipe: Recipe,
    first: FirstStage,
    informativeness: Informativeness | None,
    shelf: Shelf,
) -> Fitting:
    """The same encoder, augmentation, length and pace for all."""
    ours, shared = recipe.malignancy, recipe.malignancy.shared()
    if method.kind == "crops":
        crops = CropSettings(pool=method.pool, labels=method.own_labels, **recipe.crops.model_dump(), **shared)
        return OnCrops(first.slides, first.split, recipe, shelf, crops)
    own = ours.model_copy(update={"labels": method.own_labels, "two_heads": method.two_heads, "link": method.link})
    if "U" not in method.labels:
        return on_tiles(first.any_tiles(), None, own)
    if informativeness is None:
        raise ValueError(f"{method.name} looks at kept tiles: stage 1 must come first")
    if method.kind == "bags":
        bags = BagSettings(pool=method.pool, labels=method.own_labels, **recipe.bags.model_dump(), **shared)
        return OnBags(first, informativeness, bags)
    return on_tiles(first, informativeness, own)


def on_tiles(first: FirstStage, informativeness: Informativeness | None, settings: MalignancySettings) -> Proposed:
    """The proposed method, or ours in its place."""
    return (Mixture if settings.link == "mixture" else Proposed)(first, informativeness, settings)
