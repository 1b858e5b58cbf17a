"""Annotations as QuPath exchanges them: GeoJSON in level-0 pixels less the slide's bounds offset.

QuPath shows a slide from its `openslide.bounds-x/y` on, so the offset is added on reading and
subtracted on writing. Each feature becomes one annotation, with all its points or parts. A class may
have several parts (`malignant: papillary` has two), all of which must be known; the highest grade counts.
Without a class a place is informative and has no grade. QuPath ignores classes that end in `*`; so do we.
"""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from math import isfinite
from pathlib import Path
from typing import Any, Literal
from uuid import UUID, uuid5

import numpy as np
import shapely
from numpy.typing import NDArray
from shapely.geometry.base import BaseGeometry

from aspirate.core.errors import AnnotationError
from aspirate.core.labels import Abnormality, parse_abnormality
from aspirate.core.records import Annotation
from aspirate.core.store import write_text

ObjectType = Literal["annotation", "detection", "tile"]
UNGRADED_NAME = "informative"
COLOURS: Mapping[Abnormality | None, tuple[int, int, int]] = {
    None: (64, 120, 192),
    Abnormality.NORMAL: (60, 160, 75),
    Abnormality.ATYPICAL: (235, 160, 30),
    Abnormality.MALIGNANT: (200, 40, 50),
}
PLACES = 6
"""Decimals of a pixel kept when an offset is added, so that subtracting it gives back the same number."""
FARTHEST_PX0 = 1e9
MOST_CROSSINGS = 5000
"""Of an outline with itself: they take half a second; brushes and wands of people leave a handful."""
SIDES_AT_ONCE = 16

_NAMESPACE = UUID("6b3f7c52-4f0e-5d0a-9f52-0c8f7d1a3e90")


def read_geojson(path: Path, bounds_px0: tuple[float, float] = (0, 0)) -> tuple[Annotation, ...]:
    annotations: list[Annotation] = []
    problems: list[str] = []
    for number, feature in enumerate(_features(path), start=1):
        try:
            annotation = _annotation(feature, bounds_px0)
        except ValueError as exc:
            problems.append(f"feature {number}{_identity(feature)}: {exc}")
            continue
        if annotation is not None:
            annotations.append(annotation)
    if problems:
        raise AnnotationError(str(path), problems)
    return tuple(annotations)


def write_geojson(
    path: Path,
    annotations: Iterable[Annotation],
    bounds_px0: tuple[float, float] = (0, 0),
    object_type: ObjectType = "annotation",
) -> None:
    """A FeatureCollection; the same annotations give the same bytes.

    QuPath draws some ten thousand tiles with ease as `tile` or `detection`, not as `annotation`.
    """
    offset = (-bounds_px0[0], -bounds_px0[1])
    features = [
        json.dumps(_feature(number, annotation, offset, object_type), ensure_ascii=False)
        for number, annotation in enumerate(annotations)
    ]
    write_text(path, '{"type": "FeatureCollection", "features": [\n' + ",\n".join(features) + "\n]}\n")


def _features(path: Path) -> list[Any]:
    try:
        value = json.loads(path.read_bytes().decode("utf-8-sig"))
    except OSError as exc:
        raise AnnotationError(str(path), [f"the file cannot be read ({exc.strerror})"]) from exc
    except RecursionError as exc:
        raise AnnotationError(str(path), ["is nested too deeply to be GeoJSON; export it again"]) from exc
    except ValueError as exc:
        raise AnnotationError(str(path), [f"is not JSON in UTF-8 ({exc}); export it again"]) from exc
    match value:
        case list():
            return value
        case {"type": "FeatureCollection", "features": list(features)}:
            return features
        case {"type": "Feature"}:
            return [value]
        case _:
            expected = "expected a FeatureCollection, a list of features or one feature"
            raise AnnotationError(str(path), [f"is no GeoJSON of QuPath; {expected}"])


def _identity(feature: Any) -> str:
    name = feature.get("id") if isinstance(feature, dict) else None
    return f" ({name})" if isinstance(name, str) else ""


def _annotation(feature: Any, bounds_px0: tuple[float, float]) -> Annotation | None:
    """One feature as an annotation, None where its class says to ignore it."""
    match feature:
        case {"geometry": dict(shape), "properties": dict(properties)}:
            pass
        case {"geometry": dict(shape)}:
            properties = {}
        case _:
            raise ValueError("has no geometry; delete it or draw it again")
    names = list(_class_names(properties.get("classification")))
    if any(name.endswith("*") for name in names):
        return None
    geometry = _moved(_geometry(shape), bounds_px0)
    return Annotation(geometry, grade(names), dict(_measurements(properties.get("measurements"))))


def grade(names: Iterable[str]) -> Abnormality | None:
    """The highest grade that the parts of a class name give."""
    grades: list[Abnormality] = []
    for name in names:
        try:
            known = parse_abnormality(name)
        except ValueError as exc:
            raise ValueError(f"class {name!r}: {exc}") from exc
        if known is not None:
            grades.append(known)
    return max(grades, default=None)


def _class_names(classification: Any) -> Iterator[str]:
    match classification:
        case str(name) | {"name": str(name)}:
            yield from (part.strip() for part in name.split(":") if part.strip())
        case {"names": list(names)}:
            yield from (str(name).strip() for name in names if str(name).strip())
        case None | {"name": None}:
            return
        case dict() if not classification.keys() & {"name", "names"}:
            return
        case _:
            raise ValueError(f"classification {classification!r} has no name; give it a class in QuPath")


def _measurements(measurements: Any) -> Iterator[tuple[str, float]]:
    """Numbers only: QuPath writes NaN for what could not be measured, and text for what is none."""
    pairs: Iterable[tuple[Any, Any]] = ()
    if isinstance(measurements, dict):
        pairs = measurements.items()
    elif isinstance(measurements, list):
        pairs = ((item.get("name"), item.get("value")) for item in measurements if isinstance(item, dict))
    for name, value in pairs:
        if isinstance(name, str) and isinstance(value, int | float) and abs(value) <= sys.float_info.max:
            yield name, float(value)


def _geometry(value: Mapping[str, Any]) -> BaseGeometry:
    kind, coordinates = value.get("type"), value.get("coordinates")
    match kind:
        case "Point":
            return shapely.Point(_positions([coordinates])[0])
        case "MultiPoint":
            return shapely.MultiPoint(_positions(coordinates))
        case "Polygon":
            return polygon(coordinates)
        case "MultiPolygon":
            if not isinstance(coordinates, list) or not coordinates:
                raise ValueError("MultiPolygon is empty; delete it or draw it again")
            return _joined([polygon(rings) for rings in coordinates])
        case "GeometryCollection":
            return shapely.GeometryCollection([_geometry(part) for part in _members(value)])
        case "LineString" | "MultiLineString":
            raise ValueError(f"{kind} covers no place; draw a point, a box or a closed outline instead")
        case _:
            raise ValueError(f"geometry of type {kind!r} is unknown; draw a point, a box or a closed outline")


def _members(collection: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    match collection.get("geometries"):
        case [*members] if members and all(isinstance(member, dict) for member in members):
            if not any(member.get("type") == "GeometryCollection" for member in members):
                return members
            raise ValueError("GeometryCollection holds another; export its parts one by one")
        case _:
            raise ValueError("GeometryCollection is empty; delete it or draw it again")


def _positions(coordinates: Any) -> NDArray[np.float64]:
    """(N, 2) as x, y; a third coordinate is dropped."""
    try:
        positions = np.asarray(coordinates, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ValueError("coordinates are not pairs of numbers; export it again") from None
    if positions.ndim != 2 or positions.shape[0] < 1 or positions.shape[1] not in (2, 3):
        raise ValueError("coordinates are not pairs of numbers; export it again")
    if not (np.abs(positions) < FARTHEST_PX0).all():
        raise ValueError("a coordinate is not a finite number of pixels; draw it again")
    return positions[:, :2]


def polygon(rings: Any) -> BaseGeometry:
    """Outline and holes as a valid shape; one that crosses itself becomes the area it encloses."""
    if not isinstance(rings, list | tuple) or not rings:
        raise ValueError("Polygon is empty; delete it or draw it again")
    outlines = [_positions(ring) for ring in rings]
    if any(len(outline) < 3 for outline in outlines):
        raise ValueError("an outline needs at least three corners; delete it or draw it again")
    shape: BaseGeometry = shapely.Polygon(outlines[0], outlines[1:])
    if not shape.is_valid:
        _refuse_tangle(outlines)
        shape = shapely.make_valid(shape, method="structure", keep_collapsed=False)
    if shape.area <= 0:
        raise ValueError("the outline encloses nothing; delete it or draw it again")
    return shape


def _refuse_tangle(outlines: list[NDArray[np.float64]]) -> None:
    """Refuse an outline that crosses itself so often that to find the area it encloses would take minutes."""
    corners = [np.concatenate([outline, outline[:1]]) for outline in outlines]
    sides = shapely.linestrings(np.concatenate([np.stack([ring[:-1], ring[1:]], axis=1) for ring in corners]))
    tree = shapely.STRtree(sides)
    crossings = 0
    for start in range(0, len(sides), SIDES_AT_ONCE):
        crossings += tree.query(sides[start : start + SIDES_AT_ONCE], predicate="crosses").shape[1] / 2
        if crossings > MOST_CROSSINGS:
            raise ValueError(f"the outline crosses itself more than {MOST_CROSSINGS} times; draw it again")


def _joined(polygons: list[BaseGeometry]) -> BaseGeometry:
    parts = shapely.MultiPolygon([part for shape in polygons for part in shapely.get_parts(shape)])
    return parts if parts.is_valid else shapely.union_all(polygons)


def _moved(geometry: BaseGeometry, offset_px0: tuple[float, float]) -> BaseGeometry:
    if not any(offset_px0):
        return geometry
    return shapely.transform(geometry, lambda xy: np.round(xy + offset_px0, PLACES))


def _feature(
    number: int, annotation: Annotation, offset_px0: tuple[float, float], object_type: ObjectType
) -> dict[str, Any]:
    geometry = _moved(annotation.geometry_px0, offset_px0)
    abnormality = annotation.abnormality
    name = UNGRADED_NAME if abnormality is None else abnormality.name.lower()
    return {
        "type": "Feature",
        "id": str(uuid5(_NAMESPACE, f"{number} {geometry.wkb_hex}")),
        "geometry": shapely.geometry.mapping(geometry),
        "properties": {
            "objectType": object_type,
            "classification": {"name": name, "color": COLOURS[abnormality]},
            "measurements": {key: value for key, value in annotation.measurements.items() if isfinite(value)},
        },
    }
