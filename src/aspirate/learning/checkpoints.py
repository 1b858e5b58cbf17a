"""Tensors on disk: safetensors with a JSON note inside; nothing that can execute."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from aspirate.core.errors import AspirateError
from aspirate.core.store import atomic_path
from aspirate.nn.fingerprint import tensors_sha256 as tensors_sha256

NOTE = "aspirate"


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


def prefixed(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {f"{prefix}.{name}": tensor for name, tensor in tensors.items()}


def without_prefix(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    start = f"{prefix}."
    return {name.removeprefix(start): tensor for name, tensor in tensors.items() if name.startswith(start)}
