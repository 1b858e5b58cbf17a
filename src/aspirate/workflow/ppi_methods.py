"""The methods of the PPI study: nine trainings of one encoder, and how each of them makes a score of a bag.

A training gives a number to each bag, or one to each tile of it. A method reads a training: it makes its bag score and
its threshold from validation bags alone. So methods that share a training share its cost, and a new idea is an entry of
`TRAININGS`, of `READINGS`, or of both. An epoch shows every tile of every bag once, whatever the training: whole bags
where labels go to the bag, tiles of all bags shuffled where they go to the tile.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from math import ceil, log, log1p
from typing import Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field, model_validator
from torch import Tensor, nn

from aspirate.core.errors import ConfigError
from aspirate.core.ranking import auc
from aspirate.engines.torch_engine import TorchEngine
from aspirate.learning.cifar import SIDE_PX, Cifar10
from aspirate.learning.loop import FitPlan
from aspirate.learning.pace import Pace
from aspirate.nn.bag_net import BagHead, Exceeds
from aspirate.nn.mixture import MixtureLoss, pooled, refit
from aspirate.nn.ordinal import MalignancyLoss
from aspirate.nn.tile_net import normalised, seeded
from aspirate.nn.tile_pooling import Pooling
from aspirate.nn.vgg import Vgg
from aspirate.workflow.ppi_bags import BagProtocol, Bags, Parts

AT_ONCE = 256
"""Images scored together."""


class StudyProtocol(BagProtocol, Pace):
    """Everything that a run depends on beside its method and its bags; the defaults are the reduced protocol."""

    width: float = Field(0.125, gt=0)
    """Filters of VGG11, as a share of the paper's."""
    head: Literal["linear", "average"] = "average"
    epochs: int = Field(8, ge=1)
    tiles_per_step: int = Field(200, ge=1)
    """Whole bags, or as many tiles of any bags."""
    mirror: bool = True
    """Half of the images are shown mirrored."""
    keep: Literal["best", "last"] = "best"
    """Which epoch's weights: those that order validation bags best, the mean AUC of `smooth` epochs, or the last."""
    smooth: int = Field(3, ge=1)
    average: float = Field(1.0, ge=0)
    """Weights are judged and kept as their running mean over about so many epochs; 0 takes them as they are."""
    rates: dict[str, float] = Field(default_factory=dict)
    """Learning rate by training, where it is not `learning_rate`."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if unknown := sorted(set(self.rates) - set(TRAININGS)):
            raise ValueError(f"rates: {unknown[0]} is no training; use {', '.join(TRAININGS)}")
        if self.tiles_per_step % self.tiles:
            raise ValueError(f"tiles_per_step: whole bags of {self.tiles} tiles must fill a step")
        return self

    @property
    def steps_per_epoch(self) -> int:
        return ceil(self.bags * self.tiles / self.tiles_per_step)

    def plan(self, training: str) -> FitPlan:
        rate = self.rates.get(training, self.learning_rate)
        pace = self.pace() | {"learning_rate": rate}
        own = {"epochs": self.epochs, "smooth": self.smooth, "average": self.average}
        return FitPlan(steps_per_epoch=self.steps_per_epoch, **own, **pace)


class Encoder(nn.Module):
    """(N, 3, 32, 32) bytes → (N, features)."""

    def __init__(self, protocol: StudyProtocol) -> None:
        super().__init__()
        self.vgg = Vgg(SIDE_PX, protocol.width, protocol.head)

    def forward(self, tiles: Tensor) -> Tensor:
        features: Tensor = self.vgg(normalised(tiles))
        return features.float()


class StudyNet(nn.Module, ABC):
    """What is learned from bags: (N, 3, 32, 32) and labels → loss."""

    whole_bags = False
    """Labels go to bags, whose tiles come together; otherwise to tiles."""
    known = False
    """Labels are the tiles' own."""

    def __init__(self, protocol: StudyProtocol, bags: Bags) -> None:
        super().__init__()
        self.encoder = Encoder(protocol)
        self.features = self.encoder.vgg.features

    @abstractmethod
    def scores(self, features: Tensor) -> Tensor:
        """Of bags (B, M, D): (B,), or (B, M) where tiles are scored one by one."""

    def pooling(self) -> Pooling:
        """How scores of tiles are meant to be put together."""
        return Pooling()


class PooledNet(StudyNet):
    """A rival."""

    whole_bags = True

    def __init__(self, protocol: StudyProtocol, bags: Bags, pool: str) -> None:
        super().__init__(protocol, bags)
        self.head = BagHead(self.features, pool, "Y")

    def exceeds(self, features: Tensor) -> Exceeds:
        bag = torch.arange(len(features), device=features.device).repeat_interleave(features.shape[1])
        found: Exceeds = self.head(features.flatten(0, 1), bag)
        return found

    def scores(self, features: Tensor) -> Tensor:
        return self.exceeds(features)["Y"][:, 0]

    def forward(self, tiles: Tensor, labels: Tensor) -> Tensor:
        features = self.encoder(tiles).unflatten(0, (len(labels), -1))
        return self.head.loss(self.exceeds(features), {"Y": labels})


class TileScoreNet(StudyNet):
    """Every tile carries the label of its bag: as it is, the proposed method, or seen through the mixture link."""

    def __init__(self, protocol: StudyProtocol, bags: Bags, mixture: bool = False) -> None:
        super().__init__(protocol, bags)
        self.last = nn.Linear(self.features, 1)
        self.objective = MixtureLoss("Y") if mixture else MalignancyLoss("Y")

    def scores(self, features: Tensor) -> Tensor:
        h: Tensor = self.last(features)[..., 0]
        return h

    def pooling(self) -> Pooling:
        return Pooling(self.objective.link.share) if isinstance(self.objective, MixtureLoss) else Pooling()

    def forward(self, tiles: Tensor, labels: Tensor) -> Tensor:
        loss: Tensor = self.objective(self.last(self.encoder(tiles)), {"Y": labels})
        return loss


class CeilingNet(TileScoreNet):
    """What no method may know: which tiles are positive."""

    known = True

    def __init__(self, protocol: StudyProtocol, bags: Bags) -> None:
        super().__init__(protocol, bags)
        self.share, self.of_positive = (
            float(b.mean()) for b in (bags.tile_positive, bags.tile_positive[bags.positive])
        )

    def pooling(self) -> Pooling:
        """Bayes' rule: the logit less its prior is a log likelihood ratio."""
        return Pooling(self.of_positive, 1.0, log1p(-self.share) - log(self.share))


Build = Callable[[StudyProtocol, Bags], StudyNet]
BAG_POOLS = ("max", "noisy-or", "noisy-and", "attention", "gated-attention", "mean")
TRAININGS: dict[str, Build] = {
    **{pool: partial(PooledNet, pool=pool) for pool in BAG_POOLS},
    "propagated": TileScoreNet,
    "mixture": partial(TileScoreNet, mixture=True),
    "ceiling": CeilingNet,
}
"""Name → a net for these bags."""


class StudyLearner:
    """One training on one draw of bags."""

    def __init__(self, training: str, cifar: Cifar10, parts: Parts, protocol: StudyProtocol, seed: int) -> None:
        self.cifar, self.parts, self.protocol, self.seed = cifar, parts, protocol, seed
        self.module = seeded(seed, lambda: TRAININGS[training](protocol, parts.train))
        self.plan = protocol.plan(training)

    def batch(self, step: int) -> tuple[Tensor, Tensor]:
        epoch, place = divmod(step, self.protocol.steps_per_epoch)
        rng = np.random.default_rng([self.seed, epoch])
        bags, per_step = self.parts.train, self.protocol.tiles_per_step
        if self.module.whole_bags:
            count = per_step // self.protocol.tiles
            chosen = rng.permutation(len(bags.images))[place * count : (place + 1) * count]
            images, labels = bags.images[chosen].ravel(), bags.positive[chosen]
        else:
            chosen = rng.permutation(bags.images.size)[place * per_step : (place + 1) * per_step]
            images = bags.images.ravel()[chosen]
            of_bag = np.repeat(bags.positive, self.protocol.tiles)
            labels = (bags.tile_positive.ravel() if self.module.known else of_bag)[chosen]
        pixels = self.cifar.training.pixels[images]
        if self.protocol.mirror:
            turned = np.random.default_rng([self.seed, step, 1]).random(len(pixels)) < 0.5
            pixels[turned] = pixels[turned, :, ::-1]
        return torch.from_numpy(pixels).permute(0, 3, 1, 2), torch.from_numpy(labels.astype(np.int64))

    def loss(self, module: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        loss: Tensor = module(*batch)
        return loss

    def validate(self, module: nn.Module) -> Mapping[str, float]:
        if self.protocol.keep == "last":
            return {"judged": 0.0}
        bags = self.parts.validation
        scores = as_learned(self.scores(bags, self.cifar.training.pixels), self.module.pooling())
        return {"judged": auc(scores, bags.positive)}

    @torch.inference_mode()
    def scores(self, bags: Bags, pixels: NDArray[np.uint8]) -> Tensor:
        """Of the module as it is now; an image that is in several bags is looked at once."""
        self.module.eval()
        images, place = np.unique(bags.images, return_inverse=True)
        engine = TorchEngine(self.module.encoder, batch=AT_ONCE)
        features = torch.from_numpy(engine.outputs(pixels[images])).to(engine.device)
        return self.module.scores(features[torch.from_numpy(place.reshape(bags.images.shape))]).cpu()


BagScore = Callable[[Tensor], Tensor]
"""Scores as a training gives them, (B,) or (B, M) → (B,)."""


def bag_score(pooling: Pooling, scores: Tensor) -> Tensor:
    bag = torch.arange(len(scores)).repeat_interleave(scores.shape[1])
    return pooled(pooling, scores.double().flatten(), bag)


def as_learned(scores: Tensor, pooling: Pooling) -> Tensor:
    return scores if scores.ndim == 1 else bag_score(pooling, scores)


def refitted(validation: Tensor, positive: Tensor) -> Pooling:
    bag = torch.arange(len(validation)).repeat_interleave(validation.shape[1])
    return refit(validation.flatten(), bag, positive)


READINGS: dict[str, Callable[[Tensor, Tensor, Pooling], BagScore]] = {
    "as-learned": lambda validation, positive, pooling: partial(as_learned, pooling=pooling),
    "refitted": lambda validation, positive, pooling: partial(bag_score, refitted(validation, positive)),
}
"""Name → a function of the scores and labels of validation bags, and of how scores were meant to be put together."""


@dataclass(frozen=True, slots=True)
class PpiMethod:
    name: str
    training: str
    reading: str = "as-learned"
    role: Literal["rival", "step", "ours", "ceiling"] = "rival"
    """A rival is published; a step is ours in part."""

    @property
    def slug(self) -> str:
        return self.name.lower().replace(", ", "-").replace(" ", "-")


METHODS = (
    PpiMethod("NoisyOr", "max"),
    PpiMethod("TextbookNoisyOr", "noisy-or"),
    PpiMethod("NoisyAnd", "noisy-and"),
    PpiMethod("AttentionMIL", "attention"),
    PpiMethod("GatedAttentionMIL", "gated-attention"),
    PpiMethod("AveragePooling", "mean"),
    PpiMethod("Proposed", "propagated"),
    PpiMethod("Proposed, refitted", "propagated", "refitted", "step"),
    PpiMethod("Mixture, as learned", "mixture", "as-learned", "step"),
    PpiMethod("Mixture", "mixture", "refitted", "ours"),
    PpiMethod("Tile labels known", "ceiling", "refitted", "ceiling"),
)


def choose_trainings(names: tuple[str, ...]) -> tuple[str, ...]:
    """Those that the named methods read, all where none is named; each may be several with commas between."""
    known = {said: method for method in METHODS for said in (method.slug, method.name.lower())}
    said = [part for text in names for part in ([text] if text.lower() in known else text.split(","))]
    wanted = [name.strip().lower() for name in said]
    if unknown := [name for name in wanted if name not in known]:
        raise ConfigError(f"--methods {unknown[0]}: no such method; use {', '.join(method.slug for method in METHODS)}")
    chosen = [known[name] for name in wanted] or METHODS
    return tuple(dict.fromkeys(method.training for method in chosen))
