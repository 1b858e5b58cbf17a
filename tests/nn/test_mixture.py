"""The mixture link and the score of a bag: closed forms, limits of the derivation, and a fit against scikit-learn."""

import math

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from aspirate.core.ranking import auc
from aspirate.nn.mixture import MixtureLink, MixtureLoss, candidates, even_score, logistic_curves, pooled, refit
from aspirate.nn.ordinal import MalignancyLoss
from aspirate.nn.tile_pooling import Pooling

H = torch.tensor([-30.0, -3.0, -0.2, 0.0, 1.7, 40.0], dtype=torch.float64)
ALMOST_ONE = 1 - 1e-15


def test_the_link_is_its_closed_form_and_stays_finite() -> None:
    link = MixtureLink(share=0.3, prior=-0.4).double()
    assert link.share == pytest.approx(0.3)
    for h, t in zip(H.tolist(), link(H).tolist(), strict=True):
        assert t == pytest.approx(math.log(0.7 + 0.3 * math.exp(h)) - 0.4, abs=1e-7)
    far = link(torch.tensor([-1e4, 1e4], dtype=torch.float64))
    assert far.tolist() == pytest.approx([math.log(0.7) - 0.4, 1e4 + math.log(0.3) - 0.4])
    assert torch.autograd.gradcheck(link, (H[1:5].clone().requires_grad_(),))


def test_a_share_of_one_is_the_proposed_method() -> None:
    link = MixtureLink(share=ALMOST_ONE).double()
    torch.testing.assert_close(link(H[1:]), H[1:], atol=1e-9, rtol=1e-9)
    bag = torch.tensor([0, 0, 0, 1, 1, 1])
    sizes = torch.tensor([3.0, 3.0], dtype=torch.float64)
    mean = torch.stack([H[:3].mean(), H[3:].mean()])
    torch.testing.assert_close(pooled(Pooling(), H, bag), sizes * mean)
    torch.testing.assert_close(pooled(Pooling(ALMOST_ONE), H[1:], bag[1:]), pooled(Pooling(), H[1:], bag[1:]))

    proposed, mixture = MalignancyLoss("YSV"), MixtureLoss("YSV").double()
    mixture.link = link
    ranks = {
        "Y": torch.tensor([0, 1, 1, 0, 1]),
        "S": torch.tensor([0, 4, -1, 2, 3]),
        "V": torch.tensor([0, -1, 2, 1, 2]),
    }
    torch.testing.assert_close(mixture(H[1:, None], ranks), proposed(H[1:, None], ranks))


def test_bags_of_one_tile_give_plain_cross_entropy() -> None:
    y = torch.tensor([0, 1, 0, 1, 1, 0])
    own_bag = torch.arange(6)
    for share in (0.1, 0.6):
        loss = MixtureLoss("Y").double()
        loss.link = MixtureLink(share).double()
        said_of_bags = pooled(Pooling(loss.link.share), H, own_bag)
        plain = binary_cross_entropy_with_logits(said_of_bags, y.double())
        torch.testing.assert_close(loss(H[:, None], {"Y": y}), plain)
    # A positive bag of one tile has a share of one, and then the logit is h itself.
    torch.testing.assert_close(pooled(Pooling(1.0), H, own_bag), H)


def test_the_score_of_a_bag_is_the_log_likelihood_ratio_of_a_mixture() -> None:
    """Two kinds of tiles with known probabilities; the ratio by adding up every way a bag can have come about."""
    positive, negative, share = {"a": 0.8, "b": 0.2}, {"a": 0.3, "b": 0.7}, 0.25
    seen = "abbab"
    above = below = 0.0
    for hidden in range(2 ** len(seen)):
        bits = [(hidden >> i) & 1 for i in range(len(seen))]
        prior = math.prod(share if bit else 1 - share for bit in bits)
        above += prior * math.prod((positive if bit else negative)[tile] for bit, tile in zip(bits, seen, strict=True))
    below = math.prod(negative[tile] for tile in seen)
    h = torch.tensor([math.log(positive[tile] / negative[tile]) for tile in seen], dtype=torch.float64)
    score = pooled(Pooling(share), h, torch.zeros(len(seen), dtype=torch.long))
    assert float(score) == pytest.approx(math.log(above / below))
    # the same from scores that are no ratios, with s and c that make them so
    assert float(pooled(Pooling(share, 2.0, -3.0), (h + 3) / 2, torch.zeros(len(seen), dtype=torch.long))) == (
        pytest.approx(math.log(above / below))
    )


def test_weights_of_tiles_count_in_the_score() -> None:
    bag, u = torch.tensor([0, 0, 1]), torch.tensor([0.25, 0.75, 2.0], dtype=torch.float64)
    h = torch.tensor([1.0, -1.0, 0.5], dtype=torch.float64)
    by_hand = [math.log(0.9 + 0.1 * math.exp(x)) for x in h.tolist()]
    found = pooled(Pooling(0.1), h, bag, u).tolist()
    assert found == pytest.approx([0.25 * by_hand[0] + 0.75 * by_hand[1], 2 * by_hand[2]])


def test_labels_of_a_slide_pass_the_link_and_those_of_a_tile_do_not() -> None:
    h = torch.tensor([[0.4], [-1.2]])
    loss = MixtureLoss("YV", prior=0.3)
    y, v, none = torch.tensor([1, 0]), torch.tensor([2, 0]), torch.tensor([-1, -1])
    t = torch.logaddexp(torch.tensor(math.log(0.9)), math.log(0.1) + h[:, 0]) + 0.3
    torch.testing.assert_close(loss(h, {"Y": y, "V": none}), binary_cross_entropy_with_logits(t, y.float()))
    torch.testing.assert_close(loss(h, {"Y": none, "V": v}), MalignancyLoss("V")(h, {"V": v}))
    assert loss.cuts_of("Y").tolist() == [0.0] and loss.cuts_of("V").tolist() == [-0.5, 0.5]
    with pytest.raises(ValueError, match="learns from YV"):
        loss.cuts_of("S")


def drawn_bags(share: float, bags: int = 400, tiles: int = 40, apart: float = 2.5) -> tuple[Tensor, Tensor, Tensor]:
    """Scores that are log likelihood ratios of two normal distributions `apart` apart."""
    rng = np.random.default_rng(0)
    positive = np.arange(bags) % 2 == 1
    hidden = (rng.random((bags, tiles)) < share) & positive[:, None]
    h = apart * (rng.normal(0, 1, (bags, tiles)) + apart * hidden) - apart**2 / 2
    bag = torch.arange(bags).repeat_interleave(tiles)
    return torch.from_numpy(h.ravel()), bag, torch.from_numpy(positive)


@pytest.mark.parametrize("share", [0.04, 0.3])
@pytest.mark.parametrize("slope", [0.2, 5.0])
def test_refit_comes_close_to_the_best_score_there_is(share: float, slope: float) -> None:
    """On scores stretched and moved, it does nearly what one does who knows the ratios and the share."""
    h, bag, positive = drawn_bags(share)
    best = auc(pooled(Pooling(share), h, bag), positive)
    found = refit(slope * h + 1.0, bag, positive)
    assert auc(pooled(found, slope * h + 1.0, bag), positive) > best - 0.01
    assert found.share < 1
    if share < 0.1:
        assert auc(pooled(Pooling(), h, bag), positive) < best - 0.05, "here the mean is much worse"


def test_a_tile_cut_in_two_halves_changes_nothing() -> None:
    """Bags of different sizes with weights, as slides are."""
    h, bag, positive = drawn_bags(0.1, bags=40, tiles=12)
    kept = torch.arange(len(h)) % 5 != bag % 4
    h, bag = h[kept], bag[kept]
    u = 1 / torch.bincount(bag).double()[bag]
    twice, halves = torch.cat([h, h]), torch.cat([u, u]) / 2
    one, other = refit(h, bag, positive, u), refit(twice, torch.cat([bag, bag]), positive, halves)
    assert one.share == other.share and one.slope == pytest.approx(other.slope, rel=2e-3)
    said, again = pooled(one, h, bag, u), pooled(one, twice, torch.cat([bag, bag]), halves)
    torch.testing.assert_close(said, again)
    by_hand = torch.stack([torch.from_numpy(one.evidence(h[bag == number].numpy())).mean() for number in range(40)])
    torch.testing.assert_close(said, by_hand)


def test_the_gradient_is_weighed_by_the_responsibility_of_em() -> None:
    """∂t/∂h = q, the posterior that a tile of a positive bag is positive."""
    h = H[1:5].clone().requires_grad_()
    MixtureLink(share=0.2).double()(h).sum().backward()
    ratio = H[1:5].exp()
    torch.testing.assert_close(h.grad, 0.2 * ratio / (0.2 * ratio + 0.8))


def test_refit_on_scores_that_say_nothing() -> None:
    bag, positive = torch.arange(4).repeat_interleave(3), torch.tensor([True, False, True, False])
    assert refit(torch.zeros(12), bag, positive) == Pooling()


def test_candidates_are_likelihood_ratios_on_negative_tiles() -> None:
    h, bag, positive = drawn_bags(0.2)
    negative = ~positive[bag]
    grid = candidates(h, negative)
    assert grid[0] == Pooling() and len(grid) == 50
    for pooling in grid[1:]:
        ratio = torch.exp(pooling.slope * h[negative] + pooling.offset)
        assert float(ratio.mean()) == pytest.approx(1.0)


def test_logistic_curves_against_scikit_learn() -> None:
    rng = np.random.default_rng(1)
    positive = torch.from_numpy(rng.random(60) < 0.4)
    scores = torch.from_numpy(np.stack([3 + 5 * positive.numpy() + 4 * rng.normal(0, 1, 60), rng.normal(0, 9, 60)]))
    found = logistic_curves(scores, positive)
    n1, n0 = int(positive.sum()), int((~positive).sum())
    target = np.where(positive, (n1 + 1) / (n1 + 2), 1 / (n0 + 2))
    for row, score in enumerate(scores.numpy()):
        # a target between 0 and 1 is a case of either kind with that weight
        twice = np.concatenate([score, score])[:, None]
        kinds, weights = np.repeat([1, 0], 60), np.concatenate([target, 1 - target])
        other = LogisticRegression(C=1e10, tol=1e-10, max_iter=1000).fit(twice, kinds, sample_weight=weights)
        assert float(found.slope[row]) == pytest.approx(float(other.coef_[0, 0]), rel=1e-3, abs=1e-5)
        assert float(found.offset[row]) == pytest.approx(float(other.intercept_[0]), rel=1e-3, abs=1e-5)
        p = other.predict_proba(score[:, None])[:, 1]
        loss = -(target * np.log(p) + (1 - target) * np.log(1 - p)).mean()
        assert float(found.loss[row]) == pytest.approx(loss, rel=1e-6)


def test_even_score() -> None:
    positive = torch.tensor([False, False, True, True])
    assert even_score(torch.tensor([1.0, 2.0, 4.0, 5.0]), positive) == pytest.approx(3.0)
    assert even_score(torch.tensor([5.0, 4.0, 2.0, 1.5]), positive) == pytest.approx(2.0), "no rise: the median"
