"""Which engine scores a net: the fastest that may, or the one asked for."""

import subprocess
import sys

import numpy as np
import pytest
import torch

from aspirate.core.errors import ConfigError
from aspirate.engines import choice
from aspirate.engines.choice import CHOICES, candidates, engine_for
from aspirate.engines.machine import Machine
from aspirate.engines.torch_engine import TorchEngine
from aspirate.nn.tile_net import TileNet, seeded

ABLE = Machine({"fp32": 1.0, "bf16": 2.0, "int8": 3.5})
NO_BF16 = Machine({"fp32": 1.0, "bf16": 0.7, "int8": 1.9}, "AVX512_CORE_FP16", "matrix instructions kept out")
NOTHING = Machine({}, note="openvino is not installed")


@pytest.mark.parametrize(
    ("machine", "asked", "admitted", "expected"),
    [
        (ABLE, "auto", (), ["openvino-fp32", "torch"]),
        (ABLE, "auto", ("bf16",), ["openvino-bf16", "openvino-fp32", "torch"]),
        (ABLE, "auto", ("bf16", "int8"), ["openvino-int8", "openvino-bf16", "openvino-fp32", "torch"]),
        (NO_BF16, "auto", ("bf16", "int8"), ["openvino-int8", "openvino-fp32", "torch"]),
        (NO_BF16, "auto", ("bf16",), ["openvino-fp32", "torch"]),
        (NO_BF16, "openvino", ("bf16",), ["openvino-fp32"]),
        (NO_BF16, "openvino-bf16", (), ["openvino-bf16"]),
        (ABLE, "openvino-int8", (), ["openvino-int8"]),
        (NOTHING, "auto", ("bf16",), ["torch"]),
        (ABLE, "torch", ("bf16",), ["torch"]),
    ],
)
def test_the_fastest_admitted_first(
    machine: Machine, asked: str, admitted: tuple[str, ...], expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choice, "this_machine", lambda: machine)
    assert candidates(asked, admitted) == expected


@pytest.mark.parametrize("place", ["/dev/null", "/nowhere"])
def test_torch_is_asked_for_a_gpu_only_where_there_may_be_one(place: str) -> None:
    code = (
        "import sys; from aspirate.engines import choice\n"
        "choice.GPUS = (sys.argv[1],)\n"
        "print(choice.has_gpu(), 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code, place], capture_output=True, text=True, check=True)
    has, loaded = done.stdout.split()
    asked = place == "/dev/null" or sys.platform not in ("linux", "darwin")
    assert (has, loaded) == (str(asked and torch.cuda.is_available()), str(asked))


def test_a_gpu_is_torchs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(choice, "this_machine", lambda: ABLE)
    assert candidates("auto", ("int8",)) == ["torch"]
    assert candidates("openvino", ("int8",))[0] == "openvino-int8"


@pytest.mark.parametrize("asked", ["openvino", "openvino-fp32", "openvino-int8"])
def test_what_is_asked_for_and_cannot_be_had_is_an_error(asked: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "this_machine", lambda: NOTHING)
    with pytest.raises(
        ConfigError, match=rf"engine={asked}: this machine cannot \(openvino is not installed\); use auto"
    ):
        candidates(asked, ("int8",))


def test_an_unknown_name_is_refused_with_those_there_are() -> None:
    with pytest.raises(ConfigError, match=r"engine=abacus: choose one of auto, torch, openvino, openvino-fp32"):
        engine_for(TileNet("vgg11-quarter", 32), "abacus")


@pytest.mark.parametrize("name", ["auto", "torch", "openvino-fp32"])
def test_whoever_is_chosen_says_the_same(name: str) -> None:
    net = seeded(1, lambda: TileNet("vgg11-quarter", 32))
    tiles = np.random.default_rng(0).integers(0, 256, (3, 32, 32, 3), np.uint8)
    engine = engine_for(net, name, batch=2)
    assert engine.name in CHOICES
    np.testing.assert_allclose(engine.score(tiles), TorchEngine(net).score(tiles), rtol=1e-4, atol=1e-6)
