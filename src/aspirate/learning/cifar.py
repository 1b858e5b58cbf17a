"""CIFAR-10 as its authors give it away: binary batches, or Python's, which are read without running what is in them."""

import hashlib
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aspirate.core.errors import AspirateError

SIDE_PX = 32
VALUES = 3 * SIDE_PX**2
CLASSES = 10
RECORDS = 10_000
"""Images in a batch."""
TRAINING_BATCHES = tuple(f"data_batch_{number}" for number in range(1, 6))
TEST_BATCH = "test_batch"
FOLDERS = (".", "cifar-10-batches-bin", "cifar-10-batches-py")
ADVICE = "unpack cifar-10-binary.tar.gz or cifar-10-python.tar.gz anew"

DAMAGED: tuple[type[Exception], ...] = (
    pickle.UnpicklingError,
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    TypeError,
    ValueError,
)
"""What reading a pickle may raise."""


@dataclass(frozen=True, slots=True)
class Images:
    """Of one half of the data, (N, 32, 32, 3) bytes, and the class 0 … 9 of each, (N,)."""

    pixels: NDArray[np.uint8]
    classes: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Cifar10:
    training: Images
    test: Images
    fingerprint: str
    """The same for the same images, whichever files they came from."""


def read_cifar10(folder: Path) -> Cifar10:
    """From the folder itself, or the one in it that the archive makes."""
    places = [folder / name for name in FOLDERS]
    for suffix, read in ((".bin", _binary), ("", _pickled)):
        for place in places:
            if (place / f"{TEST_BATCH}{suffix}").is_file():
                return _whole(place, suffix, read)
    raise AspirateError(
        f"{folder}: holds neither {TEST_BATCH}.bin nor {TEST_BATCH}, so no CIFAR-10; give the folder of its batches"
    )


Read = Callable[[Path], tuple[NDArray[np.uint8], NDArray[np.int64]]]


def _whole(place: Path, suffix: str, read: Read) -> Cifar10:
    missing = [name for name in (*TRAINING_BATCHES, TEST_BATCH) if not (place / f"{name}{suffix}").is_file()]
    if missing:
        raise AspirateError(f"{place}: {missing[0]}{suffix} is missing; {ADVICE}")
    training = _images(place, [read(place / f"{name}{suffix}") for name in TRAINING_BATCHES])
    test = _images(place, [read(place / f"{TEST_BATCH}{suffix}")])
    digest = hashlib.sha256()
    for half in (training, test):
        digest.update(half.pixels.data)
        digest.update(half.classes.data)
    return Cifar10(training, test, digest.hexdigest()[:16])


def _images(place: Path, batches: list[tuple[NDArray[np.uint8], NDArray[np.int64]]]) -> Images:
    planes = np.concatenate([planes for planes, _ in batches]).reshape(-1, 3, SIDE_PX, SIDE_PX)
    classes = np.concatenate([classes for _, classes in batches])
    counts = np.bincount(classes, minlength=CLASSES)
    if len(counts) != CLASSES or len(set(counts.tolist())) != 1:
        raise AspirateError(
            f"{place}: {counts.tolist()} images by class, where CIFAR-10 has equally many of each of ten; {ADVICE}"
        )
    return Images(np.ascontiguousarray(planes.transpose(0, 2, 3, 1)), classes)


def _binary(path: Path) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Records of one byte for the class and 3072 for red, green and blue."""
    values = np.fromfile(path, np.uint8)
    if len(values) != RECORDS * (1 + VALUES):
        raise AspirateError(f"{path}: has {len(values):,} bytes instead of {RECORDS * (1 + VALUES):,}; {ADVICE}")
    records = values.reshape(RECORDS, 1 + VALUES)
    return records[:, 1:], records[:, 0].astype(np.int64)


def _pickled(path: Path) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """A dict with `data`, an array of bytes, and `labels`, a list of integers."""
    try:
        with path.open("rb") as file:
            found = _Plain(file, encoding="bytes").load()
        batch = {key.decode() if isinstance(key, bytes) else key: value for key, value in found.items()}
        pixels, labels = batch["data"].values(), np.array(batch["labels"], np.int64)
    except DAMAGED as error:
        raise AspirateError(f"{path}: is no batch of CIFAR-10 ({error or type(error).__name__}); {ADVICE}") from error
    if pixels.shape != (RECORDS, VALUES) or labels.shape != (RECORDS,) or labels.min() < 0:
        raise AspirateError(f"{path}: has images {pixels.shape} and labels {labels.shape}; {ADVICE}")
    return pixels, labels


class _Array:
    """Stands in for a NumPy array while a pickle is read: it keeps what it is given."""

    def __init__(self, *_: object) -> None:
        self.state: tuple[Any, ...] = ()

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.state = state

    def values(self) -> NDArray[np.uint8]:
        _, shape, kind, by_column, raw = self.state
        if kind.name not in ("u1", b"u1") or by_column or not isinstance(raw, bytes):
            raise ValueError("its images are not bytes")
        return np.frombuffer(raw, np.uint8).reshape(shape)


class _Kind:
    """Stands in for a NumPy dtype."""

    def __init__(self, name: str | bytes, *_: object) -> None:
        self.name = name

    def __setstate__(self, state: object) -> None:
        pass


def _latin1(text: str, encoding: str = "latin1") -> bytes:
    """How Python 3 writes bytes for Python 2."""
    return text.encode("latin1")


class _Plain(pickle.Unpickler):
    """Knows nothing but arrays, and these by stand-ins: nothing that a file names is ever called."""

    KNOWN: dict[tuple[str, str], Any] = {  # noqa: RUF012
        ("numpy.core.multiarray", "_reconstruct"): _Array,
        ("numpy._core.multiarray", "_reconstruct"): _Array,
        ("numpy", "ndarray"): _Array,
        ("numpy", "dtype"): _Kind,
        ("_codecs", "encode"): _latin1,
    }

    def find_class(self, module: str, name: str) -> Any:
        try:
            return self.KNOWN[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which no batch needs") from None
