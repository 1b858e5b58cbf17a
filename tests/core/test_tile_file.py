from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest

from aspirate.core.errors import AspirateError
from aspirate.core.geometry import Size, TileGrid
from aspirate.core.tile_file import TileTable, read_tiles, write_tiles


def table() -> TileTable:
    grid = TileGrid.cover(Size(1000, 700), slide_mpp=0.5)
    n = len(grid)
    return TileTable.of_grid(
        "S-1",
        grid,
        {"informativeness": np.linspace(0, 1, n, dtype=np.float32), "selected": np.arange(n) % 2 == 0},
    )


def test_what_is_written_reads_back_equal(tmp_path: Path) -> None:
    write_tiles(tmp_path / "a.h5", table())
    back = read_tiles(tmp_path / "a.h5")
    assert (back.slide_id, back.side_px0, back.side_px, back.slide_mpp) == ("S-1", 64, 128, 0.5)
    assert back.size_px0 == Size(1000, 700)
    np.testing.assert_array_equal(back.corners_px0, table().corners_px0)
    for name in ("informativeness", "selected"):
        np.testing.assert_array_equal(back.values[name], table().values[name])
        assert back.values[name].dtype == table().values[name].dtype
    assert [p.name for p in tmp_path.iterdir()] == ["a.h5"], "no temporary file is left"


def test_attributes_are_those_trident_reads(tmp_path: Path) -> None:
    write_tiles(tmp_path / "a.h5", replace(table(), model_sha256="ab" * 32))
    assert read_tiles(tmp_path / "a.h5").model_sha256 == "ab" * 32
    with h5py.File(tmp_path / "a.h5") as file:
        attributes = dict(file["coords"].attrs)
        assert file["coords"].dtype == np.int64
    assert attributes["patch_size"] == 128
    assert attributes["patch_size_level0"] == 64
    assert attributes["level0_magnification"] == 20
    assert attributes["target_magnification"] == 40
    assert attributes["mpp"] == 0.25
    assert attributes["overlap"] == 0
    assert (attributes["level0_width"], attributes["level0_height"]) == (1000, 700)
    assert attributes["model_sha256"] == "ab" * 32


def test_reads_clam_coordinates(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "clam.h5", "w") as file:
        coords = file.create_dataset("coords", data=np.array([[0, 0], [1024, 2048]], dtype=np.int32))
        coords.attrs.update(patch_size=256, patch_level=1, downsample=(4.0, 4.0), name="x")
    read = read_tiles(tmp_path / "clam.h5")
    assert (read.slide_id, read.side_px0, read.side_px) == ("x", 1024, 256)
    assert read.corners_px0.tolist() == [[0, 0], [1024, 2048]]


def test_reads_wsinfer_coordinates(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "w.h5", "w") as file:
        coords = file.create_dataset("/coords", data=np.array([[5, 7]]))
        coords.attrs.update(patch_size=350, patch_level=0, patch_spacing_um_px=0.5)
    read = read_tiles(tmp_path / "w.h5")
    assert (read.slide_id, read.side_px0, read.side_px) == ("w", 350, 350)


def test_other_files_are_refused_with_their_name(tmp_path: Path) -> None:
    (tmp_path / "text.h5").write_text("no")
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file.create_dataset("x", data=[1])
    with h5py.File(tmp_path / "sizeless.h5", "w") as file:
        file.create_dataset("coords", data=[[1, 2]])
    for name, expected in [
        ("text.h5", "not a readable HDF5"),
        ("missing.h5", "not a readable HDF5"),
        ("other.h5", "no dataset 'coords'"),
        ("sizeless.h5", "patch_size"),
    ]:
        with pytest.raises(AspirateError, match=expected) as caught:
            read_tiles(tmp_path / name)
        assert name in str(caught.value)


def altered(tmp_path: Path, change: Callable[[h5py.File], None]) -> Path:
    """A sound file with something done to it."""
    path = tmp_path / "a.h5"
    write_tiles(path, table())
    with h5py.File(path, "r+") as file:
        change(file)
    return path


def with_coords(data: object, **how: object) -> Callable[[h5py.File], None]:
    def change(file: h5py.File) -> None:
        attributes = dict(file["coords"].attrs)
        del file["coords"]
        file.create_dataset("coords", data=data, **how).attrs.update(attributes)

    return change


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (with_coords(None, shape=(10**12, 2), dtype=np.int64, chunks=(2**16, 2)), "claims 1000000000000 tiles"),
        (with_coords(np.zeros((3, 5))), r"coords are \(3, 5\)"),
        (with_coords(np.zeros(4)), r"coords are \(4,\)"),
        (with_coords(np.array([["a", "b"]], "S1")), "expected .* numbers"),
        (lambda file: file["coords"].attrs.update(patch_size="wide"), "not a readable HDF5"),
        (lambda file: file["coords"].attrs.update(level0_width=np.nan), "not a readable HDF5"),
    ],
)
def test_coordinates_that_cannot_be_are_refused(
    tmp_path: Path, change: Callable[[h5py.File], None], words: str
) -> None:
    with pytest.raises(AspirateError, match=words):
        read_tiles(altered(tmp_path, change))


def test_only_numbers_of_the_file_itself_are_values(tmp_path: Path) -> None:
    """Not what a link or an external part leads to, not what is no number, not billions of them."""
    other = tmp_path / "private"
    other.write_bytes(bytes(range(256)))
    count = len(table())

    def change(file: h5py.File) -> None:
        file["linked"] = h5py.ExternalLink("private.h5", "/x")
        file["itself"] = h5py.SoftLink("/itself")
        file.create_dataset("outside", (count,), np.uint8, external=[(str(other), 0, count)])
        file.create_dataset("text", (count,), h5py.string_dtype())
        file.create_dataset("features", (count, 10**7), np.float64, chunks=(1, 2**16))
        file.create_dataset("sound", data=np.arange(count))

    read = read_tiles(altered(tmp_path, change))
    assert set(read.values) == {"informativeness", "selected", "sound"}
    np.testing.assert_array_equal(read.values["sound"], np.arange(count))


def test_values_must_match_the_tiles() -> None:
    grid = TileGrid.cover(Size(256, 256), slide_mpp=0.25)
    with pytest.raises(ValueError, match="S: score has 3 values for 4 tiles"):
        TileTable.of_grid("S", grid, {"score": np.zeros(3)})
