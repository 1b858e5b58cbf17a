"""What every training on the labels of slides has in common, ours and the rivals': the same fields, the same budget."""

from pathlib import Path
from typing import Any, Literal, Protocol

from pydantic import Field

from aspirate.learning.augment import AugmentSettings
from aspirate.learning.device import Compute
from aspirate.learning.loop import FitPlan, Learner, Watch, fit
from aspirate.learning.pace import Pace


class SlideTraining(Pace):
    """Encoder, length and augmentation."""

    encoder: str = "vgg11-quarter"
    epochs: int = Field(10, ge=1)
    tiles_per_slide: int = Field(80, ge=1)
    """An epoch shows on average so many tiles of each slide."""
    smooth: int = Field(3, ge=1)
    """The best epoch is the one that ends the best run of so many: a few dozen slides judge a single one by chance."""
    average: float = Field(1.0, ge=0)
    """Weights are judged and kept as their running mean over about so many epochs; 0 takes them as they are."""
    categories: Literal["refitted", "learned"] = "refitted"
    """What divides slide scores into categories: cuts fitted to held-out slides, or those learned in training, as in
    the paper."""
    augment: AugmentSettings = AugmentSettings()

    def shared(self) -> dict[str, Any]:
        """These settings alone, for another training to be compared with."""
        return {name: getattr(self, name) for name in SlideTraining.model_fields}

    def plan(self, steps_per_epoch: int) -> FitPlan:
        own = {"epochs": self.epochs, "smooth": self.smooth, "average": self.average}
        return FitPlan(steps_per_epoch=steps_per_epoch, **own, **self.pace())


class SlideLearner(Learner, Protocol):
    @property
    def settings(self) -> SlideTraining: ...

    @property
    def steps_per_epoch(self) -> int: ...


def train_slides(learner: SlideLearner, folder: Path, compute: Compute, watch: Watch) -> list[dict[str, float]]:
    """Leaves the best epoch's weights in the learner's module; returns the history."""
    return fit(learner, learner.settings.plan(learner.steps_per_epoch), folder, compute, watch)
