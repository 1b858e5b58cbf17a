import pytest
import torch
from torch import nn

from aspirate.core.errors import ConfigError
from aspirate.learning.pace import Pace


def test_rates() -> None:
    cosine = Pace(learning_rate=0.02)
    assert cosine.rate(0, 100) == pytest.approx(0.002)
    assert cosine.rate(9, 100) == pytest.approx(0.02)
    assert cosine.rate(54, 100) == pytest.approx(0.01, rel=0.01)
    assert cosine.rate(99, 100) == pytest.approx(0, abs=1e-9)
    constant = Pace(learning_rate=0.02, schedule="constant")
    assert constant.rate(0, 40) == constant.rate(39, 40) == 0.02


def test_the_first_step_of_each_rule_by_hand() -> None:
    """On w = 2 with gradient 3: SGD moves by rate · (3 + decay · 2), AdamW by rate · sign, after shrinking w."""

    def after_one(**settings: object) -> float:
        weight = nn.Parameter(torch.tensor([2.0]))
        moves = Pace.of({"learning_rate": 0.1, "weight_decay": 0.5, **settings}).moves([weight], fused=False)
        (3 * weight).sum().backward()  # type: ignore[no-untyped-call]
        moves.step()
        return float(weight.detach())

    assert after_one(optimiser="sgd") == pytest.approx(2 - 0.1 * (3 + 0.5 * 2))
    assert after_one(optimiser="adamw") == pytest.approx(2 * (1 - 0.1 * 0.5) - 0.1)


def test_settings_are_handed_on_and_checked() -> None:
    pace = Pace(optimiser="sgd", learning_rate=0.3, momentum=0.5, weight_decay=0.0, schedule="constant")
    assert Pace.of(pace.pace()) == pace
    with pytest.raises(ConfigError, match="momentum"):
        Pace.of({"momentum": 1.0})
