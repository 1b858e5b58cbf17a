"""HDF5, safetensors and NumPy files that claim what they do not hold, or hold what must not be opened."""

import io
import json
import pickle
import struct
from pathlib import Path
from random import Random
from typing import Any

import h5py
import numpy as np
from benchmarks.hostile.damage import Mutate


class Trap:
    """Unpickled, it leaves a file where it was opened."""

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return (Path.touch, (Path("trap-was-sprung"),))


def pickled(data: bytes, rng: Random) -> bytes:
    return pickle.dumps(Trap())


def pickle_in_array(data: bytes, rng: Random) -> bytes:
    """An array of objects, as NumPy would unpickle it if it were let."""
    file = io.BytesIO()
    np.save(file, np.array([Trap()], object), allow_pickle=True)
    return file.getvalue()


def zipped(data: bytes, rng: Random) -> bytes:
    """An archive of arrays where one is expected."""
    file = io.BytesIO()
    np.savez(file, reference=np.zeros(3))
    return file.getvalue()


def npy_claims(data: bytes, rng: Random) -> bytes:
    """A sound head that claims another shape, kind or order."""
    head = data[10 : 10 + int.from_bytes(data[8:10], "little")].decode()
    shape, kind = head[head.index("(") : head.index(")") + 1], "'|u1'"
    swap = rng.choice(
        ((shape, "(1000000, 1000000, 16, 3)"), (shape, "(-1, 16, 16, 3)"), (shape, "()"), (shape, "(2**40,)"),
         (kind, "'|O'"), (kind, "'<f8'"), (kind, "'|V9999'"), ("False", "True"), (shape, "(" * 300 + ")" * 300))
    )  # fmt: skip
    head = head.replace(*swap).rstrip() + " " * 8 + "\n"
    return data[:8] + struct.pack("<H", len(head)) + head.encode() + data[10 + int.from_bytes(data[8:10], "little") :]


def safetensors_header(data: bytes, rng: Random) -> bytes:
    """One of the claims about one tensor is not true."""
    length = int.from_bytes(data[:8], "little")
    head = json.loads(data[8 : 8 + length])
    name = rng.choice([name for name in head if name != "__metadata__"])
    claim: dict[str, Any] = rng.choice(
        ({"shape": [2**40, 2**40]}, {"shape": [-1]}, {"shape": []}, {"dtype": "F64"}, {"dtype": "pickle"},
         {"data_offsets": [0, 2**62]}, {"data_offsets": [5, 1]}, {"data_offsets": [0, 4]}, {"x" * 70_000: 1})
    )  # fmt: skip
    if rng.random() < 0.3:
        odd_name = rng.choice(("../../x", "\0", "a" * 100_000, "__reduce__", "cposix\nsystem\n(S'true'\ntR."))
        head[odd_name] = head.pop(name)
    else:
        head[name] |= claim
    text = json.dumps(head).encode()
    return struct.pack("<Q", len(text)) + text + data[8 + length :]


def safetensors_length(data: bytes, rng: Random) -> bytes:
    return struct.pack("<Q", rng.choice((0, 1, 2**31, 2**62, 2**64 - 1, len(data)))) + data[8:]


def safetensors_note(data: bytes, rng: Random) -> bytes:
    length = int.from_bytes(data[:8], "little")
    head = json.loads(data[8 : 8 + length])
    head["__metadata__"] = rng.choice(({"aspirate": "[" * 100_000}, {"aspirate": "{"}, {"aspirate": "1"}, {}))
    text = json.dumps(head).encode()
    return struct.pack("<Q", len(text)) + text + data[8 + length :]


def _h5(data: bytes, change: Any) -> bytes:
    file = io.BytesIO(data)
    with h5py.File(file, "r+") as tiles:
        change(tiles)
    return file.getvalue()


def h5_bomb(data: bytes, rng: Random) -> bytes:
    """Coordinates by the billion, of which nothing is written, so that the file stays small."""

    def change(tiles: Any) -> None:
        attributes = dict(tiles["coords"].attrs)
        del tiles["coords"]
        rows = rng.choice((10**9, 10**12))
        tiles.create_dataset("coords", (rows, 2), np.int64, chunks=(2**16, 2)).attrs.update(attributes)

    return _h5(data, change)


def h5_values_bomb(data: bytes, rng: Random) -> bytes:
    """A value for each tile, each of millions of numbers."""

    def change(tiles: Any) -> None:
        tiles.create_dataset("features", (len(tiles["coords"]), 10**7), np.float64, chunks=(1, 2**16))

    return _h5(data, change)


def h5_link(data: bytes, rng: Random) -> bytes:
    """Coordinates or values that lie in another file, or in themselves."""

    def change(tiles: Any) -> None:
        name = rng.choice(("coords", "informativeness"))
        del tiles[name]
        tiles[name] = rng.choice(
            (h5py.ExternalLink("/etc/passwd", "/x"), h5py.SoftLink(f"/{name}"), h5py.SoftLink("/nowhere"))
        )

    return _h5(data, change)


def h5_external(data: bytes, rng: Random) -> bytes:
    """Values that are the bytes of another file."""

    def change(tiles: Any) -> None:
        count = len(tiles["coords"])
        tiles.create_dataset("secret", (count,), np.uint8, external=[("/etc/passwd", 0, count)])

    return _h5(data, change)


def h5_odd_coords(data: bytes, rng: Random) -> bytes:
    def change(tiles: Any) -> None:
        attributes = dict(tiles["coords"].attrs)
        del tiles["coords"]
        odd = rng.choice(
            (np.zeros(7), np.zeros((3, 5)), np.array(["a", "b"], "S4"), np.float64(1), np.full((2, 2), np.nan))
        )
        tiles.create_dataset("coords", data=odd).attrs.update(attributes)

    return _h5(data, change)


def h5_odd_attribute(data: bytes, rng: Random) -> bytes:
    def change(tiles: Any) -> None:
        name = rng.choice(("patch_size", "patch_size_level0", "level0_width", "level0_mpp", "name", "model_sha256"))
        tiles["coords"].attrs[name] = rng.choice(
            (-1, 0, np.nan, "x", np.zeros(3), b"\xff\xfe", 2**62, np.zeros((0, 2)))
        )

    return _h5(data, change)


def h5_object(data: bytes, rng: Random) -> bytes:
    """Values of kinds that are no numbers: text of any length, references, groups."""

    def change(tiles: Any) -> None:
        count = len(tiles["coords"])
        kind = rng.choice((h5py.string_dtype(), h5py.ref_dtype, h5py.vlen_dtype(np.int32)))
        tiles.create_dataset("odd", (count,), kind)
        if rng.random() < 0.5:
            del tiles["coords"]
            tiles.create_group("coords")

    return _h5(data, change)


HDF5_LIES: dict[str, Mutate] = {
    "bomb": h5_bomb, "values_bomb": h5_values_bomb, "link": h5_link, "external": h5_external,
    "odd_coords": h5_odd_coords, "odd_attribute": h5_odd_attribute, "object": h5_object, "pickled": pickled,
}  # fmt: skip
NPY_LIES: dict[str, Mutate] = {
    "claims": npy_claims,
    "zipped": zipped,
    "pickled": pickled,
    "pickle_in_array": pickle_in_array,
}
SAFETENSORS_LIES: dict[str, Mutate] = {
    "header": safetensors_header, "length": safetensors_length, "note": safetensors_note, "pickled": pickled,
}  # fmt: skip
