"""Bags have the promised composition, and no image is in bags of two parts."""

import numpy as np
import pytest
from tests.workflow.ppi_images import small_cifar

from aspirate.core.errors import ConfigError
from aspirate.workflow.ppi_bags import BagProtocol, Draw, Pile, draw_parts

CIFAR = small_cifar()
PROTOCOL = BagProtocol(bags=40, validation_bags=20, test_bags=60, tiles=20, validation_images=200)
POSITIVE = (1, 3, 5, 7, 9)


@pytest.mark.parametrize("ppi", [0.02, 0.1, 0.4, 0.8, 1.0])
def test_composition(ppi: float) -> None:
    parts = draw_parts(CIFAR, PROTOCOL, Draw(POSITIVE, ppi, 0))
    seen: list[float] = []
    for bags, images in ((parts.train, CIFAR.training), (parts.validation, CIFAR.training), (parts.test, CIFAR.test)):
        truth = np.isin(images.classes[bags.images], POSITIVE)
        assert np.array_equal(bags.tile_positive, truth)
        numbers = truth.sum(1)
        assert np.array_equal(bags.positive, numbers > 0)
        assert bags.positive.mean() == 0.5, "both kinds equally often"
        low, high = max(1, round(0.8 * ppi * 20)), max(1, min(20, round(1.2 * ppi * 20)))
        assert set(numbers[bags.positive].tolist()) <= set(range(low, high + 1))
        assert all(len(set(bag)) == 20 for bag in bags.images.tolist()), "an image is once in a bag"
        seen += (numbers[bags.positive] / 20).tolist()
    if ppi in (0.4, 0.8):
        assert np.mean(seen) == pytest.approx(ppi, rel=0.05)
        assert len(set(seen)) > 2, "the share differs from bag to bag"


def test_no_image_is_in_bags_of_two_parts() -> None:
    parts = draw_parts(CIFAR, PROTOCOL, Draw(POSITIVE, 0.2, 3))
    train, validation = set(parts.train.images.ravel().tolist()), set(parts.validation.images.ravel().tolist())
    assert not train & validation
    assert max(train | validation) < len(CIFAR.training.classes)
    assert parts.test.images.max() < len(CIFAR.test.classes), "numbers of the other half, which is another file"


def test_positive_tiles_lie_anywhere_in_a_bag() -> None:
    parts = draw_parts(CIFAR, PROTOCOL, Draw(POSITIVE, 0.1, 0))
    places = parts.test.tile_positive[parts.test.positive].sum(0)
    assert (places > 0).sum() > 12


def test_the_same_draw_is_the_same_bags_and_another_is_not() -> None:
    one = draw_parts(CIFAR, PROTOCOL, Draw(POSITIVE, 0.1, 0))
    again = draw_parts(CIFAR, PROTOCOL, Draw(POSITIVE, 0.1, 0))
    assert np.array_equal(one.train.images, again.train.images) and np.array_equal(one.test.images, again.test.images)
    other_seed = PROTOCOL.model_copy(update={"seed": 1})
    for protocol, draw in (
        (PROTOCOL, Draw(POSITIVE, 0.1, 1)),
        (PROTOCOL, Draw(POSITIVE, 0.2, 0)),
        (PROTOCOL, Draw((0, 3, 5, 7, 9), 0.1, 0)),
        (other_seed, Draw(POSITIVE, 0.1, 0)),
    ):
        assert not np.array_equal(one.train.images, draw_parts(CIFAR, protocol, draw).train.images)


def test_a_pile_deals_all_before_any_twice() -> None:
    pile = Pile(np.arange(10), np.random.default_rng(0))
    first = [*pile.deal(4), *pile.deal(4)]
    assert len(set(first)) == 8
    assert len(set(pile.deal(4))) == 4, "two are left: shuffled anew"
    with pytest.raises(ConfigError, match="11 tiles of one kind in a bag, but only 10 images"):
        pile.deal(11)


@pytest.mark.parametrize(
    ("classes", "ppi", "message"),
    [
        ((1, 1), 0.1, "different classes"),
        ((10,), 0.1, "classes of 0 to 9"),
        ((), 0.1, "some classes must be positive"),
        (tuple(range(10)), 0.1, "some not"),
        (POSITIVE, 0.0, "above 0 and at most 1"),
        (POSITIVE, 1.2, "above 0 and at most 1"),
    ],
)
def test_contradictions_are_refused(classes: tuple[int, ...], ppi: float, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        draw_parts(CIFAR, PROTOCOL, Draw(classes, ppi, 0))


def test_too_many_images_set_aside() -> None:
    with pytest.raises(ConfigError, match="leaves none of 1000 to learn from"):
        draw_parts(CIFAR, BagProtocol(validation_images=1000), Draw(POSITIVE, 0.1, 0))
