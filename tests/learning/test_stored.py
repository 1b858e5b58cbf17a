"""What is told of tensors without reading them in is what reading them would tell; damaged files are refused."""

import json
import struct
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from aspirate.core.errors import AspirateError
from aspirate.learning import stored
from aspirate.learning.stored import stored_sha256, stored_shapes
from aspirate.nn.fingerprint import tensors_sha256

TENSORS = {
    "b.weight": torch.arange(24.0).reshape(2, 3, 4),
    "a": torch.tensor([1, -2, 3]),
    "c": torch.tensor(0.5, dtype=torch.bfloat16),
    "d": torch.linspace(0, 1, 5, dtype=torch.float64),
    "e": torch.zeros(0, 3, dtype=torch.float16),
}


@pytest.mark.parametrize("part", [7, 1 << 22])
def test_fingerprint_and_shapes_are_those_of_the_tensors(
    tmp_path: Path, part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored, "PART_BYTES", part)
    path = tmp_path / "x.safetensors"
    save_file(TENSORS, path, metadata={"note": "of no account"})
    assert stored_sha256(path) == tensors_sha256(load_file(path)) == tensors_sha256(TENSORS)
    assert sorted(stored_shapes(path)) == sorted(tuple(tensor.shape) for tensor in TENSORS.values())


def written(path: Path, header: object, data: bytes = bytes(8)) -> Path:
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


def entry(begin: int, end: int, dtype: str = "F32") -> dict[str, object]:
    return {"a": {"dtype": dtype, "shape": [2], "data_offsets": [begin, end]}}


def test_a_file_by_hand_is_read(tmp_path: Path) -> None:
    assert stored_shapes(written(tmp_path / "x", entry(0, 8))) == [(2,)]
    assert stored_sha256(tmp_path / "x") == tensors_sha256({"a": torch.zeros(2)})


@pytest.mark.parametrize(
    "header",
    [[], {"a": 1}, {"a": {}}, entry(0, 10**18), entry(-20, 8), entry(8, 0), entry(0, 8, dtype="F8"), "a"],
)
def test_a_header_that_makes_no_sense_is_refused_at_once(tmp_path: Path, header: object) -> None:
    with pytest.raises(AspirateError, match="x: not a readable safetensors file"):
        stored_sha256(written(tmp_path / "x", header))


@pytest.mark.parametrize("content", [b"", b"\xff" * 8, struct.pack("<Q", 2**40) + b"{}", b"\x02" + bytes(7) + b"{"])
def test_a_file_that_ends_before_its_header_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x").write_bytes(content)
    for ask in (stored_sha256, stored_shapes):
        with pytest.raises(AspirateError, match="x: not a readable safetensors file"):
            ask(tmp_path / "x")
