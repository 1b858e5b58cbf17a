"""What can be set of each stage and of the rivals; without torch, so that whoever only predicts need not load it."""

from typing import Literal, Self

from pydantic import Field, model_validator

from aspirate.core.config import Settings
from aspirate.core.labels import RANKS
from aspirate.learning.pace import Pace
from aspirate.learning.settings import AugmentSettings, SlideTraining

CELLS_AT_ONCE = 128
"""Of the scout, scored together: what a layer leaves of them stays in the cache."""


class InformativenessSettings(Pace):
    """Stage 1."""

    encoder: str = "vgg11-quarter"
    batch: int = Field(32, ge=2)
    """Half marked, half drawn."""
    epochs: int = Field(4, ge=1)
    """At most; the paper's rule usually stops sooner."""
    stop: Literal["end", "paper"] = "end"
    """Train to the end and keep the last epoch; or, as in the paper, stop when the mean prediction on held-out marked
    tiles does not rise, and keep the best one."""
    least_steps: int = Field(300, ge=1)
    """An epoch shows every marked tile once, and has at least so many steps."""
    drawn_per_slide: int = Field(128, ge=1)
    """Tiles drawn from each slide, kept on disk."""
    shift_px: int = Field(16, ge=0)
    """A marked tile is shown up to so many pixels off its place."""
    augment: AugmentSettings = AugmentSettings()


class ScoutSettings(Pace):
    """The scout of the cascade."""

    use: bool = True
    """Train one; without it every tile of a slide is looked at closely."""
    shrink: int = Field(4, ge=1)
    """The side of a tile is divided by it."""
    learning_rate: float = Field(0.003, gt=0)
    batch: int = Field(96, ge=3)
    """A third to keep, a third of the next best, a third drawn."""
    epochs: int = Field(4, ge=1)
    steps_per_epoch: int = Field(250, ge=1)
    best_per_slide: int = Field(256, ge=1)
    """Of each slide so many of the most informative tiles are learned from,"""
    drawn_per_slide: int = Field(256, ge=1)
    """and so many of the others."""
    softness: float = Field(2.0, gt=0)
    """T, in logits."""
    augment: AugmentSettings = AugmentSettings()


class MalignancySettings(SlideTraining):
    """Stage 2."""

    start: Literal["informativeness", "random"] = "informativeness"
    """Where the encoder starts: from stage 1, which knows nuclei from red cells, or from nothing as in the paper."""
    labels: Literal["Y", "S", "V", "YS", "YV", "SV", "YSV"] = "YS"
    """Which labels are learned from: malignancy, Bethesda category, abnormality of marked tiles."""
    link: Literal["plain", "mixture"] = "plain"
    """How a tile sees the labels of its slide: as its own, or through the mixture link (docs/ppi.md)."""
    two_heads: bool = False
    """Y and S from separate outputs, for comparison."""
    ordered_cuts: bool = True
    """Cuts ordered by construction; false leaves them free, as in the paper."""
    weights: dict[str, float] = Field(default_factory=dict)
    """Weight of each label's loss, 1 unless given."""
    batch: int = Field(32, ge=1)
    marked_share: float = Field(0.2, ge=0, lt=1)
    """Share of marked tiles in every batch where V is learned from."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if unknown := set(self.weights) - set(RANKS):
            raise ValueError(f"weights: {', '.join(sorted(unknown))} is no label; use {', '.join(RANKS)}")
        if self.two_heads and self.link == "mixture":
            raise ValueError('two_heads: the mixture link has one output; use link = "plain"')
        if self.two_heads and ("Y" not in self.labels or self.labels == "Y"):
            raise ValueError(
                f"two_heads: the first learns from Y, the second from S or V; labels={self.labels} has one"
            )
        return self


class BagShape(Settings):
    """What a step shows."""

    bags: int = Field(4, ge=1)
    """Slides in a step."""
    tiles: int = Field(16, ge=1)
    """Of each of them, at most."""


class CropShape(Settings):
    """What a step shows, and an epoch is judged by."""

    side_px: int = Field(448, ge=16)
    crops: int = Field(10, ge=1)
    """In a step."""
    judged: int = Field(16, ge=1)
    """Crops of a validation slide that an epoch is judged by, spread evenly."""
    drawn: int = Field(512, ge=1)
    """Tiles drawn from each slide, where tiles and not crops carry its labels; they stand for all of it."""
