"""How every training on the labels of slides runs, ours and the rivals': the same budget, the same way to be judged."""

from pathlib import Path
from typing import Protocol

from aspirate.learning.device import Compute
from aspirate.learning.loop import FitPlan, Learner, Watch, fit
from aspirate.learning.settings import SlideTraining


class SlideLearner(Learner, Protocol):
    @property
    def settings(self) -> SlideTraining: ...

    @property
    def steps_per_epoch(self) -> int: ...


def train_slides(learner: SlideLearner, folder: Path, compute: Compute, watch: Watch) -> list[dict[str, float]]:
    """Leaves the best epoch's weights in the learner's module; returns the history."""
    settings = learner.settings
    own = {"epochs": settings.epochs, "smooth": settings.smooth, "average": settings.average}
    plan = FitPlan(steps_per_epoch=learner.steps_per_epoch, **own, **settings.pace())
    return fit(learner, plan, folder, compute, watch)
