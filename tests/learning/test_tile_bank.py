"""Tiles on disk: what goes in comes out, few files are open at once, damage is told."""

import gc
from pathlib import Path

import numpy as np
import psutil
import pytest
from numpy.typing import NDArray

from aspirate.core.errors import AspirateError
from aspirate.learning import tile_bank
from aspirate.learning.tile_bank import TileBank


def stack(n: int, seed: int, side: int = 8) -> NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, (n, side, side, 3), np.uint8)


def test_round_trip_and_gather_in_any_order(tmp_path: Path) -> None:
    stacks = {name: stack(n, n) for name, n in (("a.kept", 3), ("b.kept", 7), ("ü b.marked", 1))}
    bank = TileBank(tmp_path)
    for name, tiles in stacks.items():
        assert not bank.has(name)
        bank.add(name, tiles)
    again = TileBank(tmp_path)
    for name, tiles in stacks.items():
        assert again.has(name) and again.count(name) == len(tiles)
        np.testing.assert_array_equal(again.stack(name), tiles)
    names, rows = ["b.kept", "a.kept", "b.kept", "ü b.marked", "b.kept"], [6, 0, 2, 0, 6]
    expected = np.stack([stacks[name][row] for name, row in zip(names, rows, strict=True)])
    np.testing.assert_array_equal(again.gather(names, rows), expected)


def test_a_stack_may_be_empty(tmp_path: Path) -> None:
    bank = TileBank(tmp_path)
    bank.add("none", stack(0, 0))
    assert bank.has("none") and bank.count("none") == 0


def test_a_stack_added_anew_is_read_anew(tmp_path: Path) -> None:
    bank = TileBank(tmp_path)
    bank.add("a", stack(2, 1))
    assert bank.count("a") == 2
    bank.add("a", stack(5, 2))
    np.testing.assert_array_equal(bank.stack("a"), stack(5, 2))


def test_pixels_stay_on_disk_and_few_files_are_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tile_bank, "OPEN_AT_ONCE", 5)
    bank = TileBank(tmp_path)
    names = [f"slide-{i}" for i in range(40)]
    for i, name in enumerate(names):
        bank.add(name, stack(4, i))
    found = bank.gather(names * 2, [1] * 80)
    np.testing.assert_array_equal(found[:40], np.stack([stack(4, i)[1] for i in range(40)]))
    gc.collect()
    mapped = [m.path for m in psutil.Process().memory_maps() if m.path.startswith(str(tmp_path))]
    assert len(mapped) == 5
    assert isinstance(bank.stack(names[0]), np.memmap)


@pytest.mark.parametrize("damage", [lambda b: b[:200], lambda b: b"", lambda b: b"PK" + b[2:]])
def test_a_damaged_file_is_named_with_the_remedy(tmp_path: Path, damage: object) -> None:
    bank = TileBank(tmp_path)
    bank.add("a.kept", stack(4, 0))
    path = bank.path("a.kept")
    path.write_bytes(damage(path.read_bytes()))  # type: ignore[operator]
    with pytest.raises(AspirateError, match=r"a\.kept\.npy: the cached tiles cannot be read .*; remove the file"):
        bank.gather(["a.kept"], [0])


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(AspirateError, match=r"b\.kept\.npy"):
        TileBank(tmp_path).count("b.kept")


def test_nothing_half_written_is_left(tmp_path: Path) -> None:
    bank = TileBank(tmp_path)
    bank.add("a", stack(1, 0))
    assert [p.name for p in tmp_path.iterdir()] == ["a.npy"]
    assert bank.path("a").read_bytes()[:6] == b"\x93NUMPY"
