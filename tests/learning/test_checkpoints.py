"""A file's fingerprint without its tensors in memory: the same as theirs."""

from pathlib import Path

import pytest
import torch

from aspirate.core.errors import AspirateError
from aspirate.learning import checkpoints
from aspirate.learning.checkpoints import save_tensors, stored_sha256
from aspirate.nn.fingerprint import tensors_sha256

TENSORS = {
    "b.weight": torch.arange(12, dtype=torch.float32).reshape(3, 4),
    "a.weight": torch.tensor([[0.5, -0.25]], dtype=torch.bfloat16),
    "a.count": torch.tensor(7),
    "z": torch.empty(0, 3),
    "half": torch.tensor([1.5], dtype=torch.float16),
}


@pytest.mark.parametrize("part", [3, 1 << 22])
def test_it_is_that_of_the_tensors(tmp_path: Path, part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "PART_BYTES", part)
    save_tensors(tmp_path / "x.safetensors", TENSORS, {"any": "note"})
    assert stored_sha256(tmp_path / "x.safetensors") == tensors_sha256(TENSORS)


def test_one_bit_changes_it(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    save_tensors(path, TENSORS, {})
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    assert stored_sha256(path) != tensors_sha256(TENSORS)


@pytest.mark.parametrize("content", [b"", b"\x08\0\0\0\0\0\0\0not json", b"\xff" * 20])
def test_what_is_no_such_file_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.safetensors").write_bytes(content)
    with pytest.raises(AspirateError, match=r"x\.safetensors: not a readable safetensors file"):
        stored_sha256(tmp_path / "x.safetensors")
