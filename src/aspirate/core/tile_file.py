"""Tiles of one slide on disk: HDF5 in TRIDENT's layout, with scores beside the coordinates.

`coords` (N, 2) int64, level-0 top left corners, carries the geometry as attributes; every other dataset
has one value per tile. Files of CLAM and WSInfer name the same geometry otherwise and are read too.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from aspirate import __version__
from aspirate.core.errors import AspirateError
from aspirate.core.geometry import Size, TileGrid, magnification
from aspirate.core.store import atomic_path

MOST_TILES = 2**24
"""Of 128 pixels, they cover a slide of half a million pixels a side."""
FAULTS = (OSError, RuntimeError, KeyError, ValueError, TypeError, OverflowError)
"""What h5py raises, depending on where a file is damaged, and numbers that are none."""


@dataclass(frozen=True, slots=True)
class TileTable:
    """Square tiles of one slide and whatever is known of each of them."""

    slide_id: str
    corners_px0: NDArray[np.int64]
    side_px0: int
    side_px: int
    slide_mpp: float | None = None
    size_px0: Size | None = None
    values: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    """One array of length N per name: informativeness, selected, malignancy, …"""
    model_sha256: str | None = None
    """Of the model that gave the values, where it was written down."""

    def __post_init__(self) -> None:
        for name, array in self.values.items():
            if len(array) != len(self.corners_px0):
                raise ValueError(f"{self.slide_id}: {name} has {len(array)} values for {len(self)} tiles")

    def __len__(self) -> int:
        return len(self.corners_px0)

    @classmethod
    def of_grid(
        cls, slide_id: str, grid: TileGrid, values: Mapping[str, NDArray[Any]], model_sha256: str | None = None
    ) -> "TileTable":
        corners_px0, sides = grid.corners_px0(), (grid.side_px0, grid.side_px)
        return cls(slide_id, corners_px0, *sides, grid.slide_mpp, grid.size_px0, values, model_sha256)


def write_tiles(path: Path, table: TileTable) -> None:
    with atomic_path(path) as part, h5py.File(part, "w") as file:
        coords = file.create_dataset("coords", data=table.corners_px0.astype(np.int64), compression="gzip")
        coords.attrs.update(_attributes(table))
        for name, array in table.values.items():
            file.create_dataset(name, data=array, compression="gzip")


def _attributes(table: TileTable) -> dict[str, Any]:
    attributes: dict[str, Any] = {
        "name": table.slide_id,
        "patch_size": table.side_px,
        "patch_size_level0": table.side_px0,
        "overlap": 0,
        "aspirate_version": __version__,
    }
    if table.model_sha256 is not None:
        attributes["model_sha256"] = table.model_sha256
    if table.size_px0 is not None:
        attributes |= {"level0_width": table.size_px0.width, "level0_height": table.size_px0.height}
    if table.slide_mpp is not None:
        tile_mpp = TileGrid(Size(0, 0), table.side_px0, table.side_px, table.slide_mpp).mpp
        attributes |= {
            "mpp": tile_mpp,
            "level0_mpp": table.slide_mpp,
            "level0_magnification": magnification(table.slide_mpp),
            "target_magnification": magnification(tile_mpp),
        }
    return attributes


def read_tiles(path: Path) -> TileTable:
    """Tiles written here, or coordinates written by TRIDENT, CLAM or WSInfer."""
    try:
        with h5py.File(path, "r") as file:
            coords = _dataset(file, "coords")
            if coords is None:
                raise AspirateError(f"{path}: no dataset 'coords'; this is not a file of tile coordinates")
            _check_coords(coords, path)
            attributes = {key: _plain(value) for key, value in coords.attrs.items()}
            corners = np.asarray(coords[:], dtype=np.int64)
            values = {name: data[:] for name in file if (data := _values(file, name, len(corners))) is not None}
        return _table(path, attributes, corners, values)
    except FAULTS as error:
        raise AspirateError(f"{path}: not a readable HDF5 file; it is missing, damaged or something else") from error


def _dataset(file: "h5py.File", name: str) -> "h5py.Dataset | None":
    """A dataset of this very file: a link or an external part may lead to any other file of the machine."""
    if not isinstance(file.get(name, getlink=True), h5py.HardLink):
        return None
    data = file[name]
    return data if isinstance(data, h5py.Dataset) and not data.external and not data.is_virtual else None


def _check_coords(coords: "h5py.Dataset", path: Path) -> None:
    shape = coords.shape
    if len(shape) != 2 or shape[1] != 2 or coords.dtype.kind not in "iuf":
        raise AspirateError(f"{path}: coords are {shape} of {coords.dtype}, expected (tiles, 2) numbers; tile it again")
    if shape[0] > MOST_TILES:
        raise AspirateError(f"{path}: claims {shape[0]} tiles, more than any slide has ({MOST_TILES}); tile it again")


def _values(file: "h5py.File", name: str, count: int) -> "h5py.Dataset | None":
    """A dataset with one number for each tile."""
    data = _dataset(file, name)
    fits = data is not None and name != "coords" and data.shape == (count,) and data.dtype.kind in "biuf"
    return data if fits else None


def _table(
    path: Path, attributes: Mapping[str, Any], corners_px0: NDArray[np.int64], values: Mapping[str, NDArray[Any]]
) -> TileTable:
    size = None
    if "level0_width" in attributes and "level0_height" in attributes:
        size = Size(int(attributes["level0_width"]), int(attributes["level0_height"]))
    mpp = attributes.get("level0_mpp")
    return TileTable(
        slide_id=str(attributes.get("name", path.stem)),
        corners_px0=corners_px0,
        side_px0=_side_px0(attributes, path),
        side_px=int(attributes["patch_size"]),
        slide_mpp=None if mpp is None else float(mpp),
        size_px0=size,
        values=values,
        model_sha256=attributes.get("model_sha256"),
    )


def _side_px0(attributes: Mapping[str, Any], path: Path) -> int:
    """TRIDENT says it; CLAM gives the size at a level and its downsample; WSInfer's size is level-0."""
    if "patch_size" not in attributes:
        raise AspirateError(f"{path}: the coordinates do not say how large a tile is (attribute patch_size)")
    if "patch_size_level0" in attributes:
        return int(attributes["patch_size_level0"])
    downsample = float(np.mean(attributes.get("downsample", 1.0)))
    return round(int(attributes["patch_size"]) * downsample)


def _plain(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value
