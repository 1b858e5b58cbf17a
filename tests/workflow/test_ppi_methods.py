"""What each training of the PPI study is shown, and how methods read it."""

import numpy as np
import pytest
import torch
from tests.workflow.ppi_images import SMALL, small_cifar

from aspirate.core.errors import ConfigError
from aspirate.nn.pooling import POOLS
from aspirate.nn.tile_pooling import Pooling
from aspirate.workflow.ppi_bags import Draw, draw_parts
from aspirate.workflow.ppi_methods import METHODS, READINGS, TRAININGS, StudyLearner, StudyProtocol, choose_trainings

CIFAR = small_cifar()
PARTS = draw_parts(CIFAR, SMALL, Draw((0, 1, 2, 8, 9), 0.3, 0))
PLAIN = SMALL.model_copy(update={"mirror": False})


def learner(training: str, protocol: StudyProtocol = PLAIN) -> StudyLearner:
    return StudyLearner(training, CIFAR, PARTS, protocol, seed=5)


def shown(made: StudyLearner, epoch: int) -> tuple[list[int], list[int]]:
    """Numbers of the images of an epoch, in order, and the labels beside them."""
    known = {image.tobytes(): number for number, image in enumerate(CIFAR.training.pixels)}
    images, labels = [], []
    for step in range(epoch * SMALL.steps_per_epoch, (epoch + 1) * SMALL.steps_per_epoch):
        pixels, said = made.batch(step)
        images += [known[p.permute(1, 2, 0).contiguous().numpy().tobytes()] for p in pixels]
        labels += said.tolist()
    return images, labels


@pytest.mark.parametrize("training", TRAININGS)
def test_an_epoch_shows_every_tile_once_whatever_the_training(training: str) -> None:
    images, labels = shown(learner(training), epoch=1)
    assert sorted(images) == sorted(PARTS.train.images.ravel().tolist())
    whose = {image: bag for bag, row in enumerate(PARTS.train.images.tolist()) for image in row}
    if training in POOLS:
        bags = [whose[image] for image in images]
        assert [len(set(bags[i : i + 10])) for i in range(0, len(bags), 10)] == [1] * 24, "whole bags"
        assert labels == [int(PARTS.train.positive[bag]) for bag in bags[::10]]
    elif training == "ceiling":
        truth = np.isin(CIFAR.training.classes[images], (0, 1, 2, 8, 9))
        assert labels == truth.astype(int).tolist()
    else:
        assert labels == [int(PARTS.train.positive[whose[image]]) for image in images], "the label of the bag"
    again, _ = shown(learner(training), epoch=0)
    assert again != images, "another order"


def test_half_of_the_images_are_mirrored() -> None:
    plain, mirrored = learner("propagated").batch(3)[0], learner("propagated", SMALL).batch(3)[0]
    same = (plain == mirrored).flatten(1).all(1)
    assert 8 < int(same.sum()) < 32
    assert torch.equal(plain[~same].flip(3), mirrored[~same])


@pytest.mark.parametrize("training", ["attention", "mixture", "ceiling"])
def test_scores_of_bags_are_those_of_the_net_bag_by_bag(training: str) -> None:
    made = learner(training)
    found = made.scores(PARTS.test, CIFAR.test.pixels)
    for bag in (0, 7):
        pixels = torch.from_numpy(CIFAR.test.pixels[PARTS.test.images[bag]]).permute(0, 3, 1, 2)
        with torch.inference_mode():
            alone = made.module.scores(made.module.encoder(pixels)[None])[0]
        torch.testing.assert_close(found[bag], alone, atol=1e-4, rtol=1e-4)


def test_first_weights_of_the_encoder_are_the_same_for_all() -> None:
    first = [next(learner(training).module.encoder.parameters()) for training in TRAININGS]
    assert all(torch.equal(weights, first[0]) for weights in first)


def test_the_ceiling_reads_bags_by_bayes_rule() -> None:
    pooling = learner("ceiling").module.pooling()
    share = PARTS.train.tile_positive.mean()
    assert pooling.share == pytest.approx(PARTS.train.tile_positive[PARTS.train.positive].mean())
    assert pooling.offset == pytest.approx(-np.log(share / (1 - share)))


def test_as_learned_is_the_score_itself_or_the_sum_of_evidence() -> None:
    read = READINGS["as-learned"](torch.zeros(2), torch.tensor([True, False]), Pooling())
    assert read(torch.tensor([0.3, -2.0])).tolist() == pytest.approx([0.3, -2.0])
    tiles = torch.tensor([[1.0, 2.0], [-1.0, 0.0]])
    assert read(tiles).tolist() == pytest.approx([3.0, -1.0])
    mixture = READINGS["as-learned"](tiles, torch.tensor([True, False]), Pooling(0.5))
    assert mixture(tiles).tolist() == pytest.approx(np.log(0.5 + 0.5 * np.exp(tiles.numpy())).sum(1).tolist())


def test_every_method_has_a_training_and_a_reading() -> None:
    assert {m.training for m in METHODS} == set(TRAININGS)
    assert {m.reading for m in METHODS} == set(READINGS)
    assert [m.name for m in METHODS if m.role == "ours"] == ["Mixture"]


def test_choosing_methods() -> None:
    assert choose_trainings(()) == tuple(TRAININGS)
    assert choose_trainings(("noisyor, attentionmil", "Proposed, refitted")) == ("max", "attention", "propagated")
    assert choose_trainings(("Mixture", "proposed-refitted", "mixture-as-learned")) == ("mixture", "propagated")
    with pytest.raises(ConfigError, match=r"--methods best: no such method; use noisyor, .*tile-labels-known"):
        choose_trainings(("best",))


def test_protocols_refuse_contradictions_and_know_rates() -> None:
    with pytest.raises(ConfigError, match="whole bags of 50 tiles must fill a step"):
        StudyProtocol.of({"tiles_per_step": 120})
    with pytest.raises(ConfigError, match="rates: atention is no training"):
        StudyProtocol.of({"rates": {"atention": 0.1}})
    tuned = StudyProtocol.of({"rates": {"attention": 0.005}})
    assert (tuned.plan("attention").learning_rate, tuned.plan("mixture").learning_rate) == (0.005, 0.001)
    assert tuned.plan("mixture").steps == 8 * 75
