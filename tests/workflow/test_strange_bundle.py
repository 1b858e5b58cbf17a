"""A model bundle from a stranger, opened in a watched child: nothing of it is executed, nothing is written."""

import pickle
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from random import Random

import numpy as np
import pytest
from benchmarks.hostile.binary_lies import NPY_LIES, SAFETENSORS_LIES, Trap, pickled
from benchmarks.hostile.keeper import Keeper
from benchmarks.hostile.sources import Source, bundles

pytestmark = pytest.mark.xdist_group("hostile")
BUNDLES = {source.format: source for source in bundles()}


@pytest.fixture(scope="module")
def keeper() -> Iterator[Keeper]:
    with Keeper() as made:
        yield made


def with_file(source: Source, name: str, data: bytes) -> dict[str, bytes]:
    return source.files | {f"model/{name}": data}


def test_a_sound_bundle_is_read_and_nothing_else_is_done(keeper: Keeper) -> None:
    ending = keeper.open("bundle", BUNDLES["json"].files, "model")
    assert (ending.ended, ending.did) == ("read", ())


def test_the_trap_is_a_trap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pickle.loads(pickle.dumps(Trap()))
    assert (tmp_path / "trap-was-sprung").exists()


@pytest.mark.parametrize(
    "name", ["reference.npy", "malignancy.safetensors", "informativeness.safetensors", "model.json"]
)
def test_a_pickle_under_any_name_is_not_opened(keeper: Keeper, name: str) -> None:
    ending = keeper.open("bundle", with_file(BUNDLES["json"], name, pickled(b"", Random(0))), "model")
    assert (ending.ended, ending.did) == ("refused", ())
    assert "not a model bundle" in ending.said or "not a readable safetensors" in ending.said


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("kind", "way"),
    [("npy", "pickle_in_array"), ("safetensors", "header"), ("safetensors", "length")],
)
def test_what_a_file_claims_is_not_believed(keeper: Keeper, kind: str, way: str, seed: int) -> None:
    source = BUNDLES[kind]
    data = (NPY_LIES | SAFETENSORS_LIES)[way](source.files[source.target], Random(seed))
    ending = keeper.open("bundle", source.files | {source.target: data}, source.entry)
    assert (ending.ended, ending.did) == ("refused", ())
    assert "model" in ending.said


def archive() -> bytes:
    file = BytesIO()
    np.savez(file, tiles=np.zeros((2, 16, 16, 3), np.uint8))
    return file.getvalue()


def absurd(header: bytes) -> bytes:
    """The head of an .npy file that says this, without the numbers it speaks of."""
    padded = header + b" " * (118 - len(header) - 1) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(padded).to_bytes(2, "little") + padded


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("reference.npy", archive()),
        ("reference.npy", absurd(b"{'descr': '|u1', 'fortran_order': False, 'shape': (1000000, 1000000, 16, 3), }")),
        ("reference.npy", absurd(b"{'descr': '|u1', 'fortran_order': False, 'shape': (2, 16, 16, 3")),
        ("model.json", b"[" * 100_000),
    ],
)
def test_damage_of_any_kind_is_named(keeper: Keeper, name: str, data: bytes) -> None:
    ending = keeper.open("bundle", with_file(BUNDLES["json"], name, data), "model")
    assert (ending.ended, ending.did) == ("refused", ())
    assert "not a model bundle" in ending.said
