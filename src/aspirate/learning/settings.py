"""What can be set of trainings; without torch, so that whoever only predicts need not load it."""

from typing import Any, Literal

from pydantic import Field

from aspirate.core.config import Settings
from aspirate.learning.pace import Pace


class AugmentSettings(Settings):
    """How far a tile may be changed; 0 everywhere changes nothing."""

    turn: bool = True
    """One of the eight ways to turn and mirror a square, each equally likely."""
    strength: float = 0.25
    """Spread of log a."""
    hue: float = 0.08
    """Spread of each entry of M − 1."""
    light: float = 0.03
    """Spread of b, in optical density."""
    focus: float = 0.4
    """Spread of k, which is kept within −1 … 1."""


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
