"""Annotations as ImageScope saves them: Aperio XML in level-0 pixels.

A region's text names its class; where it is blank, the name of its layer does. A rectangle (type 1) and
an ellipse (type 2) are given by corners of their bounding box, any other shape by its outline or, with
one vertex, as a point. A region marked as negative is a hole in those of its layer that it meets.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import shapely
from defusedxml import DefusedXmlException
from defusedxml.ElementTree import ParseError, parse
from shapely import affinity
from shapely.geometry.base import BaseGeometry

from aspirate.core.errors import AnnotationError
from aspirate.core.labels import Abnormality
from aspirate.core.records import Annotation
from aspirate.slides.geojson import FARTHEST_PX0, grade, polygon

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

RECTANGLE, ELLIPSE = "1", "2"
OUTLINES = ("0",)


def read_aperio_xml(path: Path) -> tuple[Annotation, ...]:
    annotations: list[Annotation] = []
    problems: list[str] = []
    for layer in _root(path).iter("Annotation"):
        annotations += _layer(layer, problems)
    if problems:
        raise AnnotationError(str(path), problems)
    return tuple(annotations)


def _root(path: Path) -> "Element":
    try:
        root: Element = parse(path, forbid_dtd=True).getroot()
    except OSError as exc:
        raise AnnotationError(str(path), [f"the file cannot be read ({exc.strerror})"]) from exc
    except DefusedXmlException as exc:
        problem = "declares entities or a document type, which no annotation needs; export it again"
        raise AnnotationError(str(path), [problem]) from exc
    except (ParseError, ValueError, LookupError) as exc:
        raise AnnotationError(str(path), [f"is not XML ({exc}); export it again"]) from exc
    if root.tag != "Annotations":
        problem = f"its root is <{root.tag}>, not Aperio's <Annotations>; export it as GeoJSON from QuPath"
        raise AnnotationError(str(path), [problem])
    return root


def _layer(layer: "Element", problems: list[str]) -> Iterator[Annotation]:
    """The layer's regions with its negative ones cut out."""
    regions: list[tuple[BaseGeometry, Abnormality | None]] = []
    holes: list[tuple[str, BaseGeometry]] = []
    for region in layer.iter("Region"):
        where = f"layer {layer.get('Id', '?')}, region {region.get('Id', '?')}"
        try:
            shape = _shape(region)
            if region.get("NegativeROA", "0") == "1":
                holes.append((where, shape))
            else:
                name = region.get("Text", "").strip() or layer.get("Name", "").strip()
                regions.append((shape, grade([name] if name else [])))
        except ValueError as exc:
            problems.append(f"{where}: {exc}")
    for where, hole in holes:
        if not any(shape.intersects(hole) for shape, _ in regions):
            problems.append(f"{where}: is negative but meets no region of its layer; delete it")
    cut = shapely.union_all([hole for _, hole in holes])
    for shape, abnormality in regions:
        left = shape.difference(cut) if shape.intersects(cut) else shape
        if left.is_empty:
            problems.append(f"layer {layer.get('Id', '?')}: a negative region hides another whole; delete both")
        else:
            yield Annotation(left, abnormality)


def _shape(region: "Element") -> BaseGeometry:
    kind = region.get("Type", "0")
    corners = np.array([_vertex(vertex) for vertex in region.iter("Vertex")]).reshape(-1, 2)
    if not (np.abs(corners) < FARTHEST_PX0).all():
        raise ValueError("a coordinate is not a finite number of pixels; draw it again")
    if not len(corners):
        raise ValueError("has no vertices; delete it or draw it again")
    if len(corners) == 1:
        return shapely.Point(corners[0])
    if kind in (RECTANGLE, ELLIPSE):
        (left, top), (right, bottom) = corners.min(axis=0), corners.max(axis=0)
        if left == right or top == bottom:
            raise ValueError("encloses nothing; delete it or draw it again")
        if kind == RECTANGLE:
            return shapely.box(left, top, right, bottom)
        circle = shapely.Point((left + right) / 2, (top + bottom) / 2).buffer(1)
        return affinity.scale(circle, (right - left) / 2, (bottom - top) / 2)
    if kind not in OUTLINES:
        raise ValueError(f"type {kind} is a line, which covers no place; draw a closed outline instead")
    return polygon([corners])


def _vertex(vertex: "Element") -> tuple[float, float]:
    try:
        return float(vertex.get("X", "")), float(vertex.get("Y", ""))
    except ValueError:
        raise ValueError("a vertex has no numbers X and Y; export it again") from None
