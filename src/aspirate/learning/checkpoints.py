"""Tensors on disk: safetensors with a JSON note inside; nothing that can execute."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from aspirate.core.errors import AspirateError
from aspirate.core.store import atomic_path
from aspirate.nn.fingerprint import tensors_sha256 as tensors_sha256

NOTE = "aspirate"
PART_BYTES = 1 << 22
DTYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "F64": torch.float64, "I64": torch.int64}
"""What safetensors calls them, of those that weights have."""


def save_tensors(path: Path, tensors: Mapping[str, Tensor], note: Mapping[str, Any]) -> None:
    with atomic_path(path) as part:
        whole = {name: tensor.detach().contiguous().cpu() for name, tensor in tensors.items()}
        part.touch()
        usual = part.stat().st_mode
        save_file(whole, part, metadata={NOTE: json.dumps(note)})
        part.chmod(usual)  # safetensors lets nobody but the owner read it


def load_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    try:
        with safe_open(path, framework="pt") as file:
            note = json.loads((file.metadata() or {}).get(NOTE, "{}"))
            if not isinstance(note, dict):
                raise TypeError(f"its note is {note!r:.40}")
            return {name: file.get_tensor(name) for name in file.keys()}, note  # noqa: SIM118
    except (OSError, SafetensorError, ValueError, TypeError, RecursionError) as error:
        raise AspirateError(f"{path}: not a readable safetensors file ({error}); copy or train it again") from error


def stored_sha256(path: Path) -> str:
    """The same fingerprint of what is in a file, which is read in parts and never held in memory."""
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            listed = {name: entry for name, entry in json.loads(file.read(length)).items() if name != "__metadata__"}
            for name in sorted(listed):
                begin, end = listed[name]["data_offsets"]
                digest.update(f"{name} {DTYPES[listed[name]['dtype']]} {tuple(listed[name]['shape'])}\n".encode())
                file.seek(8 + length + begin)
                for start in range(begin, end, PART_BYTES):
                    digest.update(file.read(min(PART_BYTES, end - start)))
    except (OSError, ValueError, OverflowError, MemoryError, KeyError, TypeError) as error:
        raise AspirateError(f"{path}: not a readable safetensors file ({error}); copy or train it again") from error
    return digest.hexdigest()


def prefixed(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {f"{prefix}.{name}": tensor for name, tensor in tensors.items()}


def without_prefix(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    start = f"{prefix}."
    return {name.removeprefix(start): tensor for name, tensor in tensors.items() if name.startswith(start)}
