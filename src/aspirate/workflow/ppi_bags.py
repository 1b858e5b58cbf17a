"""Bags of the PPI study: images as tiles, a known share of them positive.

A bag is positive if it has a positive tile; then round(share · tiles) of its tiles are, at least one, the share drawn
uniformly within PPI · (1 ± spread). Images of each kind are dealt from a shuffled pile, which is shuffled anew when it
runs out: none is twice in a bag, nor in two bags while there are enough. Bags to test on are made of test images, bags
to validate on of training images set aside, so that no image is in bags of two parts.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from aspirate.core.config import Settings
from aspirate.core.errors import ConfigError
from aspirate.learning.cifar import CLASSES, Cifar10


class BagProtocol(Settings):
    """How bags are made; half of every part is positive."""

    bags: int = Field(300, ge=2)
    """Learned from."""
    validation_bags: int = Field(150, ge=2)
    """Epochs, poolings and thresholds are chosen on these."""
    test_bags: int = Field(1000, ge=2)
    tiles: int = Field(50, ge=1)
    """In each bag."""
    validation_images: int = Field(5000, ge=1)
    """Of the 50,000 training images, set aside for bags to validate on."""
    spread: float = Field(0.2, ge=0, lt=1)
    """The share of positive tiles in a bag lies within PPI · (1 ± spread)."""
    seed: int = Field(0, ge=0)
    """Of bags, first weights and batches."""


@dataclass(frozen=True, slots=True)
class Draw:
    """Which bags: one cell of the study and one repeat of it; all methods see the same."""

    positive_classes: tuple[int, ...]
    ppi: float
    repeat: int

    @property
    def classes(self) -> str:
        return "".join(map(str, self.positive_classes))


@dataclass(frozen=True, slots=True)
class Bags:
    images: NDArray[np.int64]
    """(B, M), numbers of images."""
    tile_positive: NDArray[np.bool_]
    """(B, M); known to the ceiling alone."""

    @property
    def positive(self) -> NDArray[np.bool_]:
        """(B,)"""
        return np.asarray(self.tile_positive.any(1))


@dataclass(frozen=True, slots=True)
class Parts:
    train: Bags
    validation: Bags
    """Numbers of training images, as in `train`."""
    test: Bags
    """Numbers of test images."""


class Pile:
    """Deals images in random order; begins anew, shuffled, when too few are left."""

    def __init__(self, images: NDArray[np.int64], rng: np.random.Generator) -> None:
        self.images, self.rng = rng.permutation(images), rng
        self.dealt = 0

    def deal(self, count: int) -> NDArray[np.int64]:
        if count > len(self.images):
            raise ConfigError(
                f"{count} tiles of one kind in a bag, but only {len(self.images)} images; use fewer tiles"
            )
        if self.dealt + count > len(self.images):
            self.images, self.dealt = self.rng.permutation(self.images), 0
        self.dealt += count
        return self.images[self.dealt - count : self.dealt]


def draw_parts(cifar: Cifar10, protocol: BagProtocol, draw: Draw) -> Parts:
    """A pure function of its arguments."""
    check_classes(draw.positive_classes)
    if not 0 < draw.ppi <= 1:
        raise ConfigError(f"--ppi {draw.ppi:g}: a share of positive tiles is above 0 and at most 1")
    key = (protocol.seed, draw.repeat, round(draw.ppi * 1e6), *draw.positive_classes)
    rng = np.random.default_rng(key)
    order = rng.permutation(len(cifar.training.classes))
    if protocol.validation_images >= len(order):
        raise ConfigError(
            f"validation_images {protocol.validation_images}: leaves none of {len(order)} to learn from; use fewer"
        )
    aside, rest = np.split(order, [protocol.validation_images])
    wanted = np.isin(cifar.training.classes, draw.positive_classes)
    wanted_in_test = np.isin(cifar.test.classes, draw.positive_classes)
    everything = np.arange(len(wanted_in_test))
    return Parts(
        draw_bags(rest, wanted, protocol.bags, protocol, draw.ppi, rng),
        draw_bags(aside, wanted, protocol.validation_bags, protocol, draw.ppi, rng),
        draw_bags(everything, wanted_in_test, protocol.test_bags, protocol, draw.ppi, rng),
    )


def draw_bags(
    images: NDArray[np.int64],
    positive: NDArray[np.bool_],
    count: int,
    protocol: BagProtocol,
    ppi: float,
    rng: np.random.Generator,
) -> Bags:
    """`count` bags, every other one positive, of some images; `positive` says which images are."""
    yes, no = Pile(images[positive[images]], rng), Pile(images[~positive[images]], rng)
    shares = ppi * rng.uniform(1 - protocol.spread, 1 + protocol.spread, count)
    numbers = np.clip(np.rint(shares * protocol.tiles), 1, protocol.tiles).astype(int)
    numbers[::2] = 0
    dealt = [np.concatenate([yes.deal(n), no.deal(protocol.tiles - n)]) for n in numbers.tolist()]
    chosen = rng.permuted(np.stack(dealt), axis=1)
    return Bags(chosen, positive[chosen])


def check_classes(classes: Sequence[int]) -> None:
    given = ",".join(map(str, classes))
    if len(set(classes)) != len(classes) or not set(classes) <= set(range(CLASSES)):
        raise ConfigError(f"--positive-classes {given}: give different classes of 0 to {CLASSES - 1}, as 0,1,2,8,9")
    if not 0 < len(classes) < CLASSES:
        raise ConfigError(f"--positive-classes {given}: some classes must be positive and some not, as 0,1,2,8,9")
