import itertools

import pytest
import torch
from torch.nn.functional import binary_cross_entropy_with_logits as bce

from aspirate.core.labels import RANKS
from aspirate.nn.ordinal import UNKNOWN, Cuts, MalignancyLoss, ordinal_losses, rank_of, rank_probabilities

BINARY_LABELS_OF_S = {2: (0, 0, 0, 0), 3: (1, 0, 0, 0), 4: (1, 1, 0, 0), 5: (1, 1, 1, 0), 6: (1, 1, 1, 1)}
"""Printed in the paper's appendix."""


def scores(n: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(n, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * 2


def test_for_malignancy_it_is_cross_entropy() -> None:
    g, y = scores(50), torch.arange(50) % 2
    torch.testing.assert_close(ordinal_losses(g[:, None], y), bce(g, y.double(), reduction="none"))


def test_for_bethesda_it_is_the_papers_four_cross_entropies() -> None:
    g, beta = scores(5), torch.tensor([-1.3, -0.2, 0.4, 2.0], dtype=torch.float64)
    for i, (category, labels) in enumerate(BINARY_LABELS_OF_S.items()):
        expected = sum(bce(g[i] - beta[n], torch.tensor(float(labels[n])).double()) for n in range(4))
        found = ordinal_losses(g[i : i + 1, None] - beta, torch.tensor([category - 2]))[0]
        torch.testing.assert_close(found, torch.as_tensor(expected))


@pytest.mark.parametrize("ordered", [True, False])
def test_gradient_against_finite_differences(ordered: bool) -> None:
    loss = MalignancyLoss("YSV", ordered=ordered).double()
    g = scores(12)[:, None].requires_grad_()
    ranks = {label: torch.arange(12) % count for label, count in RANKS.items()}
    assert torch.autograd.gradcheck(lambda s: loss(s, ranks), (g,))
    loss(g, ranks).backward()
    for parameter in loss.parameters():
        found = parameter.grad
        assert found is not None
        for i, step in itertools.product(range(parameter.numel()), [1e-6]):
            with torch.no_grad():
                parameter[i] += step
                up = loss(g, ranks)
                parameter[i] -= 2 * step
                down = loss(g, ranks)
                parameter[i] += step
            torch.testing.assert_close(found[i], (up - down) / (2 * step), rtol=1e-5, atol=1e-8)


def test_rank_probabilities_sum_to_one_and_are_positive() -> None:
    torch.manual_seed(1)
    cuts = Cuts(4).double()
    with torch.no_grad():
        cuts.gaps.normal_(0, 3)
        cuts.first.normal_(0, 3)
        p = rank_probabilities(scores(100), cuts())
    assert (p >= 0).all()
    torch.testing.assert_close(p.sum(1), torch.ones(100, dtype=torch.float64))


def test_probabilities_and_loss_tell_the_same_story() -> None:
    """The loss is −log Π over cuts; here P(rank > n) is summed from the category probabilities."""
    g, beta = scores(20), torch.tensor([-1.0, 0.0, 0.5, 2.0], dtype=torch.float64)
    p = rank_probabilities(g, beta)
    exceed = torch.stack([p[:, n + 1 :].sum(1) for n in range(4)], 1)
    rank = torch.arange(20) % 5
    above = rank[:, None] > torch.arange(4)
    expected = -torch.where(above, exceed, 1 - exceed).log().sum(1)
    torch.testing.assert_close(ordinal_losses(g[:, None] - beta, rank), expected)


def test_cuts_stay_ordered_whatever_happens_to_them() -> None:
    cuts = Cuts(4)
    torch.testing.assert_close(cuts().detach(), torch.tensor([-1.5, -0.5, 0.5, 1.5]))
    with torch.no_grad():
        cuts.gaps.fill_(-30.0)
    assert (cuts().diff() >= 0).all()
    free = Cuts(4, ordered=False)
    with torch.no_grad():
        free.free.copy_(torch.tensor([3.0, 1.0, 2.0, 0.0]))
    assert free().tolist() == [3, 1, 2, 0], "the paper's free form may lose its order"


def test_rank_of_counts_the_cuts_below() -> None:
    beta = torch.tensor([-1.0, 0.0, 1.0, 2.0])
    assert rank_of(torch.tensor([-5.0, -0.5, 0.5, 1.5, 9.0]), beta).tolist() == [0, 1, 2, 3, 4]


def test_a_tile_contributes_exactly_the_terms_it_has_labels_for() -> None:
    g = scores(8)
    full = {label: torch.arange(8) % count for label, count in RANKS.items()}
    loss = MalignancyLoss("YSV").double()
    for present in itertools.product([True, False], repeat=3):
        ranks = {k: v.clone() for k, v in full.items()}
        for has, label in zip(present, "YSV", strict=True):
            if not has:
                ranks[label][3:] = UNKNOWN
        expected = torch.zeros((), dtype=torch.float64)
        for has, label in zip(present, "YSV", strict=True):
            n = 8 if has else 3
            cuts = loss.cuts_of(label).double()
            expected = expected + ordinal_losses(g[:n, None] - cuts, full[label][:n]).mean()
        torch.testing.assert_close(loss(g[:, None], ranks), expected)


def test_no_label_at_all_is_zero_with_zero_gradient() -> None:
    loss = MalignancyLoss("YS")
    g = torch.randn(4, 1, requires_grad=True)
    nothing = torch.full((4,), UNKNOWN)
    value = loss(g, {"Y": nothing, "S": nothing})
    value.backward()
    assert value == 0 and g.grad is not None and (g.grad == 0).all()


def test_weights_of_labels_and_of_tiles() -> None:
    g, y, s = scores(6), torch.arange(6) % 2, torch.arange(6) % 5
    u = torch.tensor([1.0, 0.5, 0.0, 2.0, 1.0, 0.25], dtype=torch.float64)
    loss = MalignancyLoss("YS", weights={"S": 0.3}).double()
    by_hand = (u * ordinal_losses(g[:, None], y)).sum() / u.sum()
    by_hand = by_hand + 0.3 * (u * ordinal_losses(g[:, None] - loss.cuts_of("S"), s)).sum() / u.sum()
    torch.testing.assert_close(loss(g[:, None], {"Y": y, "S": s}, u), by_hand)


def test_two_heads_read_two_scores() -> None:
    loss = MalignancyLoss("YS", two_heads=True).double()
    assert loss.outputs == 2
    g = torch.stack([scores(6), scores(6, seed=1)], 1)
    y, s = torch.arange(6) % 2, torch.arange(6) % 5
    expected = ordinal_losses(g[:, :1], y).mean() + ordinal_losses(g[:, 1:] - loss.cuts_of("S"), s).mean()
    torch.testing.assert_close(loss(g, {"Y": y, "S": s}), expected)


def test_cuts_are_recovered_from_data_the_model_itself_simulates() -> None:
    generator = torch.Generator().manual_seed(3)
    true = torch.tensor([-1.2, -0.1, 0.9, 2.3])
    g = torch.randn(40_000, generator=generator) * 2
    rank = torch.multinomial(rank_probabilities(g, true), 1, generator=generator)[:, 0]
    loss = MalignancyLoss("S")
    optimiser = torch.optim.LBFGS(loss.parameters(), max_iter=60)

    def closure() -> torch.Tensor:
        optimiser.zero_grad()
        value: torch.Tensor = loss(g[:, None], {"S": rank})
        value.backward()  # type: ignore[no-untyped-call]
        return value

    optimiser.step(closure)  # type: ignore[no-untyped-call]
    torch.testing.assert_close(loss.cuts_of("S").detach(), true, atol=0.06, rtol=0)


def test_wrong_label_letters_are_refused() -> None:
    with pytest.raises(ValueError, match="letters of YSV"):
        MalignancyLoss("YQ")
