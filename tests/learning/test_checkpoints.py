"""Tensors on disk: they come back as they were, and whatever else is in a file is refused by name."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from aspirate.core.errors import AspirateError
from aspirate.learning.checkpoints import load_tensors, save_tensors


def test_tensors_and_note_come_back(tmp_path: Path) -> None:
    tensors = {"a.weight": torch.arange(6.0).reshape(2, 3).T, "b": torch.tensor([1, -2])}
    save_tensors(tmp_path / "x.safetensors", tensors, {"step": 3, "best": [0.5]})
    found, note = load_tensors(tmp_path / "x.safetensors")
    assert note == {"step": 3, "best": [0.5]}
    assert {name: tensor.tolist() for name, tensor in found.items()} == {
        name: tensor.tolist() for name, tensor in tensors.items()
    }


@pytest.mark.parametrize("note", ["[" * 100_000, "{", "1", "[]"])
def test_a_note_that_is_none_is_refused(tmp_path: Path, note: str) -> None:
    save_file({"a": torch.zeros(2)}, tmp_path / "x.safetensors", metadata={"aspirate": note})
    with pytest.raises(AspirateError, match=r"x\.safetensors: not a readable safetensors file"):
        load_tensors(tmp_path / "x.safetensors")


def test_a_file_without_a_note_has_an_empty_one(tmp_path: Path) -> None:
    save_file({"a": torch.zeros(2)}, tmp_path / "x.safetensors")
    assert load_tensors(tmp_path / "x.safetensors")[1] == {}
