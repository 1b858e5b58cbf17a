"""What can be told of tensors on disk without reading them in; without torch."""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from aspirate.core.errors import AspirateError

PART_BYTES = 1 << 22
DTYPES = {name: f"torch.{said}" for name, said in (("F32", "float32"), ("F16", "float16"), ("BF16", "bfloat16"))}
DTYPES |= {"F64": "torch.float64", "I64": "torch.int64"}
"""What safetensors calls them, and torch: those that weights have."""


def stored_sha256(path: Path) -> str:
    """The fingerprint of `nn/fingerprint.py` of what is in a file, which is read in parts and never held in memory."""
    digest = hashlib.sha256()
    with _opened(path) as (file, listed, start_of_data):
        for name in sorted(listed):
            begin, end = listed[name]["data_offsets"]
            if not 0 <= begin <= end <= path.stat().st_size - start_of_data:
                raise ValueError(f"{name} lies beyond its end")
            digest.update(f"{name} {DTYPES[listed[name]['dtype']]} {tuple(listed[name]['shape'])}\n".encode())
            file.seek(start_of_data + begin)
            for start in range(begin, end, PART_BYTES):
                digest.update(file.read(min(PART_BYTES, end - start)))
    return digest.hexdigest()


def stored_shapes(path: Path) -> list[tuple[int, ...]]:
    """Of its tensors."""
    with _opened(path) as (_, listed, _):
        return [tuple(map(int, entry["shape"])) for entry in listed.values()]


@contextmanager
def _opened(path: Path) -> Iterator[tuple[BinaryIO, dict[str, Any], int]]:
    """The file, what its header lists, and where the data begin."""
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if length > path.stat().st_size:
                raise ValueError("its header is longer than the file")
            listed = {name: entry for name, entry in json.loads(file.read(length)).items() if name != "__metadata__"}
            yield file, listed, 8 + length
    except (OSError, ValueError, OverflowError, MemoryError, KeyError, TypeError, AttributeError) as error:
        raise AspirateError(f"{path}: not a readable safetensors file ({error}); copy or train it again") from error
