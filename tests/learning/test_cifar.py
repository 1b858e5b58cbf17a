"""Reading CIFAR-10 in both official forms, and refusing what is none."""

import pickle
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from aspirate.core.errors import AspirateError
from aspirate.learning import cifar
from aspirate.learning.cifar import TEST_BATCH, TRAINING_BATCHES, read_cifar10

RECORDS = 20
BATCHES = (*TRAINING_BATCHES, TEST_BATCH)


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cifar, "RECORDS", RECORDS)


def batch(number: int) -> tuple[NDArray[np.uint8], list[int]]:
    """Planes (N, 3072) that differ everywhere, and classes."""
    rng = np.random.default_rng(number)
    return rng.integers(0, 256, (RECORDS, 3072), np.uint8), rng.permutation(np.arange(RECORDS) % 10).tolist()


def write_binary(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number, name in enumerate(BATCHES):
        planes, classes = batch(number)
        records = np.concatenate([np.array(classes, np.uint8)[:, None], planes], 1)
        (folder / f"{name}.bin").write_bytes(records.tobytes())


PurePickler: Any = pickle._Pickler


class Python2Pickler(PurePickler):  # type: ignore[misc]
    """Writes bytes as Python 2 wrote its strings, as the official batches are."""

    def save_bytes(self, text: bytes) -> None:
        short = len(text) < 256
        self.write(pickle.SHORT_BINSTRING + bytes([len(text)]) if short else b"T" + struct.pack("<i", len(text)))
        self.write(text)
        self.memoize(text)

    dispatch = PurePickler.dispatch | {bytes: save_bytes}


def write_pickled(folder: Path, official: bool) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number, name in enumerate(BATCHES):
        planes, classes = batch(number)
        values = {b"batch_label": b"a batch", b"labels": classes, b"data": planes, b"filenames": [b"x.png"] * RECORDS}
        with (folder / name).open("wb") as file:
            if official:
                Python2Pickler(file, 2).dump(values)
            else:
                pickle.dump({key.decode(): value for key, value in values.items()}, file, protocol=4)


def test_binary_batches(tmp_path: Path) -> None:
    write_binary(tmp_path)
    found = read_cifar10(tmp_path)
    assert found.training.pixels.shape == (5 * RECORDS, 32, 32, 3) and found.test.pixels.shape == (RECORDS, 32, 32, 3)
    planes, classes = batch(3)
    assert found.training.classes[3 * RECORDS : 4 * RECORDS].tolist() == classes
    # row 2, column 5 of the green plane
    assert found.training.pixels[3 * RECORDS + 7, 2, 5, 1] == planes[7, 1024 + 2 * 32 + 5]


@pytest.mark.parametrize("official", [True, False])
def test_python_batches_are_the_same_images(tmp_path: Path, official: bool) -> None:
    write_binary(tmp_path / "a" / "cifar-10-batches-bin")
    write_pickled(tmp_path / "b" / "cifar-10-batches-py", official)
    one, other = read_cifar10(tmp_path / "a"), read_cifar10(tmp_path / "b")
    assert one.fingerprint == other.fingerprint
    assert np.array_equal(one.training.pixels, other.training.pixels)
    assert np.array_equal(one.test.classes, other.test.classes)


class Trap:
    def __init__(self, *what: Any) -> None:
        self.what = what

    def __reduce__(self) -> Any:
        return self.what


def test_a_pickle_is_never_run(tmp_path: Path) -> None:
    write_pickled(tmp_path, official=True)
    stolen = tmp_path / "stolen"
    planes, classes = batch(0)
    for trap in (Trap(Path.touch, (stolen,)), Trap(eval, (f"open({str(stolen)!r}, 'w')",)), Trap(np.fromfile, ("x",))):
        (tmp_path / TEST_BATCH).write_bytes(pickle.dumps({b"data": planes, b"labels": classes, b"more": trap}))
        with pytest.raises(AspirateError, match=r"test_batch: is no batch of CIFAR-10 \(it asks for "):
            read_cifar10(tmp_path)
    assert not stolen.exists()


@pytest.mark.parametrize(
    "content",
    [b"", b"not a pickle", pickle.dumps([1, 2]), pickle.dumps({b"data": b"abc", b"labels": [1]}), b"\x80\x02}q\x00."],
)
def test_damaged_python_batches(tmp_path: Path, content: bytes) -> None:
    write_pickled(tmp_path, official=True)
    (tmp_path / "data_batch_2").write_bytes(content)
    with pytest.raises(AspirateError, match="data_batch_2: is no batch of CIFAR-10"):
        read_cifar10(tmp_path)


def test_floats_and_wrong_shapes_are_refused(tmp_path: Path) -> None:
    write_pickled(tmp_path, official=True)
    planes, classes = batch(0)
    path = tmp_path / "data_batch_1"
    path.write_bytes(pickle.dumps({b"data": planes.astype(np.float32), b"labels": classes}, protocol=4))
    with pytest.raises(AspirateError, match="its images are not bytes"):
        read_cifar10(tmp_path)
    path.write_bytes(pickle.dumps({b"data": planes[:-1], b"labels": classes}, protocol=4))
    with pytest.raises(AspirateError, match=r"images \(19, 3072\) and labels \(20,\)"):
        read_cifar10(tmp_path)


def test_incomplete_or_wrong_binary_batches(tmp_path: Path) -> None:
    with pytest.raises(AspirateError, match=r"holds neither test_batch\.bin nor test_batch"):
        read_cifar10(tmp_path)
    write_binary(tmp_path)
    last = tmp_path / "data_batch_5.bin"
    whole = last.read_bytes()
    last.write_bytes(whole[:-1])
    with pytest.raises(AspirateError, match=r"data_batch_5\.bin: has 61,459 bytes instead of 61,460"):
        read_cifar10(tmp_path)
    last.write_bytes(bytes([11]) + whole[1:])
    with pytest.raises(AspirateError, match="images by class, where CIFAR-10 has equally many"):
        read_cifar10(tmp_path)
    last.unlink()
    with pytest.raises(AspirateError, match=r"data_batch_5\.bin is missing"):
        read_cifar10(tmp_path)
