"""Annotations from QuPath, ImageScope and CSV: what they mean, and why bad ones are refused."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import shapely
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from shapely.geometry.base import BaseGeometry

from aspirate.core.errors import AnnotationError
from aspirate.core.labels import Abnormality
from aspirate.core.records import Annotation, SlideEntry
from aspirate.slides.annotations import AnnotationIndex, find_annotations, read_annotations
from aspirate.slides.aperio_xml import read_aperio_xml
from aspirate.slides.geojson import COLOURS, ObjectType, read_geojson, write_geojson

BOX = [[10, 20], [110, 20], [110, 70], [10, 70], [10, 20]]
HOLE = [[30, 30], [50, 30], [50, 50], [30, 50], [30, 30]]


def feature(geometry: Any, **properties: Any) -> dict[str, Any]:
    return {"type": "Feature", "id": "PathAnnotationObject", "geometry": geometry, "properties": properties}


def polygon(*rings: Any) -> dict[str, Any]:
    return {"type": "Polygon", "coordinates": list(rings)}


def point(x: Any = 5, y: Any = 6) -> dict[str, Any]:
    return {"type": "Point", "coordinates": [x, y]}


def saved(folder: Path, value: Any) -> Path:
    path = folder / "a.geojson"
    path.write_text(json.dumps(value))
    return path


def only(folder: Path, value: Any) -> Annotation:
    (annotation,) = read_geojson(saved(folder, [value]))
    return annotation


def problems_of(path: Path) -> list[str]:
    with pytest.raises(AnnotationError) as raised:
        read_aperio_xml(path) if path.suffix == ".xml" else read_geojson(path)
    assert str(path) in str(raised.value)
    return raised.value.problems


@pytest.mark.parametrize("wrap", [lambda f: [f], lambda f: f, lambda f: {"type": "FeatureCollection", "features": [f]}])
def test_the_three_ways_to_wrap_features(tmp_path: Path, wrap: Any) -> None:
    path = saved(tmp_path, wrap(feature(point(), classification={"name": "Malignant", "color": [1, 2, 3]})))
    assert read_geojson(path) == (Annotation(shapely.Point(5, 6), Abnormality.MALIGNANT),)


@pytest.mark.parametrize(
    ("geometry", "expected"),
    [
        (point(5.5, 6), "POINT (5.5 6)"),
        (point(5, 6) | {"plane": {"c": -1, "z": 0, "t": 0}}, "POINT (5 6)"),
        ({"type": "Point", "coordinates": [5, 6, 7]}, "POINT (5 6)"),
        ({"type": "MultiPoint", "coordinates": [[1, 2], [3, 4]]}, "MULTIPOINT ((1 2), (3 4))"),
        (polygon(BOX), "POLYGON ((10 20, 110 20, 110 70, 10 70, 10 20))"),
        (
            polygon(BOX, HOLE),
            "POLYGON ((10 20, 110 20, 110 70, 10 70, 10 20), (30 30, 50 30, 50 50, 30 50, 30 30))",
        ),
        (
            {"type": "MultiPolygon", "coordinates": [[BOX], [[[200, 0], [210, 0], [210, 9], [200, 0]]]]},
            "MULTIPOLYGON (((10 20, 110 20, 110 70, 10 70, 10 20)), ((200 0, 210 0, 210 9, 200 0)))",
        ),
        (
            {"type": "GeometryCollection", "geometries": [point(), polygon(BOX)]},
            "GEOMETRYCOLLECTION (POINT (5 6), POLYGON ((10 20, 110 20, 110 70, 10 70, 10 20)))",
        ),
    ],
)
def test_geometries(tmp_path: Path, geometry: Any, expected: str) -> None:
    assert only(tmp_path, feature(geometry)).geometry_px0 == shapely.from_wkt(expected)


@pytest.mark.parametrize(
    ("classification", "expected"),
    [
        (None, None),
        ({}, None),
        ({"name": None}, None),
        ("informative", None),
        ({"name": "Follicular_group"}, None),
        ({"name": "BENIGN"}, Abnormality.NORMAL),
        ({"name": " Atypia ", "colorRGB": -3670016}, Abnormality.ATYPICAL),
        ({"name": "tumor"}, Abnormality.MALIGNANT),
        ({"name": "Tumor: Positive"}, Abnormality.MALIGNANT),
        ({"names": ["informative", "Atypical"], "color": [0, 0, 0]}, Abnormality.ATYPICAL),
        ("2", Abnormality.MALIGNANT),
    ],
)
def test_classifications(tmp_path: Path, classification: Any, expected: Abnormality | None) -> None:
    assert only(tmp_path, feature(point(), classification=classification)).abnormality is expected


def test_features_without_properties_and_ignored_classes(tmp_path: Path) -> None:
    bare = {"type": "Feature", "geometry": point()}
    ignored = feature(polygon(BOX), classification={"name": "Region*"})
    assert read_geojson(saved(tmp_path, [bare, bare | {"properties": None}, ignored])) == (
        Annotation(shapely.Point(5, 6)),
        Annotation(shapely.Point(5, 6)),
    )


def test_measurements_as_object_or_list(tmp_path: Path) -> None:
    expected = {"score": 0.5, "area": 3.0}
    as_object = {"score": 0.5, "area": 3, "absent": float("nan"), "text": "x", "huge": 10**400}
    as_list = [{"name": name, "value": value} for name, value in as_object.items()]
    assert only(tmp_path, feature(point(), measurements=as_object)).measurements == expected
    assert only(tmp_path, feature(point(), measurements=as_list)).measurements == expected


def test_a_self_crossing_outline_is_the_area_it_encloses(tmp_path: Path) -> None:
    bow_tie = [[0, 0], [10, 10], [10, 0], [0, 10], [0, 0]]
    shape = only(tmp_path, feature(polygon(bow_tie))).geometry_px0
    assert shape.is_valid
    left, right = shapely.Polygon([(0, 0), (5, 5), (0, 10)]), shapely.Polygon([(10, 0), (5, 5), (10, 10)])
    assert shape.equals(shapely.union(left, right))


def test_an_outline_of_thousands_of_crossings_is_refused_at_once(tmp_path: Path) -> None:
    """To find what it encloses would take minutes and gigabytes."""
    corners = np.random.default_rng(0).uniform(0, 1000, (3000, 2)).tolist()
    path = tmp_path / "a.geojson"
    path.write_text(json.dumps([{"geometry": {"type": "Polygon", "coordinates": [corners]}}]))
    with pytest.raises(AnnotationError, match="feature 1: the outline crosses itself more than 5000 times"):
        read_geojson(path)


def test_a_long_outline_with_few_crossings_is_mended(tmp_path: Path) -> None:
    """Twenty thousand corners of a figure eight: two loops of equal area."""
    angle = np.linspace(0, 2 * np.pi, 20_001)[:-1]
    corners = np.stack([500 * np.sin(angle), 250 * np.sin(2 * angle)], axis=1).tolist()
    path = tmp_path / "a.geojson"
    path.write_text(json.dumps([{"geometry": {"type": "Polygon", "coordinates": [corners]}}]))
    (read,) = read_geojson(path)
    assert len(shapely.get_parts(read.geometry_px0)) == 2
    assert read.geometry_px0.area == pytest.approx(2 * 500 * 250 * 4 / 3, rel=1e-4)


def test_overlapping_parts_are_joined(tmp_path: Path) -> None:
    parts = [[BOX], [[[x + 50, y] for x, y in BOX]]]
    shape = only(tmp_path, feature({"type": "MultiPolygon", "coordinates": parts})).geometry_px0
    assert shape.equals(shapely.box(10, 20, 160, 70))


def test_all_bad_features_are_listed(tmp_path: Path) -> None:
    bad = [
        (feature({"type": "LineString", "coordinates": BOX}), "LineString covers no place"),
        (feature({"type": "MultiLineString", "coordinates": [BOX]}), "MultiLineString covers no place"),
        (feature(point(float("nan"), 1)), "not a finite number"),
        (feature(point(float("inf"), 1)), "not a finite number"),
        (feature(point(1e300, 1)), "not a finite number"),
        (feature(point("x", 1)), "not pairs of numbers"),
        (feature(point(None, 1)), "not a finite number"),
        (feature({"type": "Point"}), "not pairs of numbers"),
        (feature({"type": "Point", "coordinates": [10**400, 1]}), "not pairs of numbers"),
        (feature(polygon()), "Polygon is empty"),
        (feature(polygon([[0, 0], [1, 1]])), "three corners"),
        (feature(polygon([[0, 0], [5, 5], [9, 9], [0, 0]])), "encloses nothing"),
        (feature(polygon([[0, 0], [1, 1], [2]])), "not pairs of numbers"),
        (feature({"type": "MultiPolygon", "coordinates": []}), "MultiPolygon is empty"),
        (feature({"type": "GeometryCollection", "geometries": []}), "GeometryCollection is empty"),
        (
            feature({"type": "GeometryCollection", "geometries": [{"type": "GeometryCollection"}]}),
            "holds another",
        ),
        (feature({"type": "Circle"}), "'Circle' is unknown"),
        (feature(None), "no geometry"),
        ("text", "no geometry"),
        (feature(point(), classification={"name": "stroma"}), "class 'stroma': expected normal"),
        (feature(point(), classification=7), "has no name"),
    ]
    path = saved(tmp_path, [feature(point()), *(value for value, _ in bad)])
    problems = problems_of(path)
    for number, (problem, (_, words)) in enumerate(zip(problems, bad, strict=True), start=2):
        assert problem.startswith(f"feature {number}")
        assert words in problem
    assert problems[0].startswith("feature 2 (PathAnnotationObject): ")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[1",
        b"7",
        b'{"type": "Topology"}',
        b"\xff\xfe[\0]\0",
        b"[" * 100_000,
        b"[" + b"9" * 5000 + b"]",
    ],
)
def test_what_is_no_geojson_at_all(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.geojson"
    path.write_bytes(content)
    assert len(problems_of(path)) == 1


def test_an_empty_collection_is_no_annotation(tmp_path: Path) -> None:
    assert read_geojson(saved(tmp_path, {"type": "FeatureCollection", "features": []})) == ()


def test_the_bounds_offset_is_added_on_reading_and_subtracted_on_writing(tmp_path: Path) -> None:
    path = saved(tmp_path, [feature(polygon(BOX))])
    (annotation,) = read_geojson(path, bounds_px0=(1000, 2000))
    assert annotation.geometry_px0.bounds == (1010, 2020, 1110, 2070)
    write_geojson(tmp_path / "b.geojson", [annotation], bounds_px0=(1000, 2000))
    written = json.loads((tmp_path / "b.geojson").read_text())
    assert written["features"][0]["geometry"] == polygon(BOX)


def test_what_is_written_is_what_qupath_reads(tmp_path: Path) -> None:
    tiles = [
        Annotation(shapely.box(0, 0, 128, 128), Abnormality.ATYPICAL, {"malignancy": 0.75}),
        Annotation(shapely.Point(1, 2)),
    ]
    write_geojson(tmp_path / "a.geojson", tiles, object_type="tile")
    collection = json.loads((tmp_path / "a.geojson").read_text())
    first, second = collection["features"]
    assert collection["type"] == "FeatureCollection"
    assert first["properties"] == {
        "objectType": "tile",
        "classification": {"name": "atypical", "color": list(COLOURS[Abnormality.ATYPICAL])},
        "measurements": {"malignancy": 0.75},
    }
    assert second["properties"]["classification"]["name"] == "informative"
    assert first["id"] != second["id"]
    before = (tmp_path / "a.geojson").read_bytes()
    write_geojson(tmp_path / "a.geojson", tiles, object_type="tile")
    assert (tmp_path / "a.geojson").read_bytes() == before


micropixels = st.integers(-(10**11), 10**11).map(lambda n: n / 1e6)
fine = st.floats(-1e6, 1e6)


def shapes(numbers: st.SearchStrategy[float]) -> st.SearchStrategy[BaseGeometry]:
    points = st.tuples(numbers, numbers)
    sides = st.integers(1, 5000)
    boxes = st.builds(
        lambda corner, w, h: shapely.box(corner[0], corner[1], corner[0] + w, corner[1] + h),
        points,
        sides,
        sides,
    )
    holed = st.builds(
        lambda x, y: shapely.Polygon(
            [(x, y), (x + 90, y), (x + 90, y + 90), (x, y + 90)],
            [[(x + 30, y + 30), (x + 60, y + 30), (x + 45, y + 60)]],
        ),
        st.integers(-5000, 5000),
        st.integers(-5000, 5000),
    )
    simple = st.one_of(points.map(shapely.Point), boxes.filter(lambda box: box.is_valid), holed)
    return st.one_of(
        simple,
        st.lists(points, min_size=1, max_size=4).map(shapely.MultiPoint),
        st.lists(simple, min_size=1, max_size=3).map(shapely.GeometryCollection),
        st.integers(0, 99).map(
            lambda x: shapely.MultiPolygon([shapely.box(x, 0, x + 1, 1), shapely.box(x + 5, 0, x + 7, 2)])
        ),
    )


def annotations(numbers: st.SearchStrategy[float]) -> st.SearchStrategy[list[Annotation]]:
    grades = st.sampled_from([None, *Abnormality])
    measurements = st.dictionaries(st.text(max_size=9), st.floats(allow_nan=False, allow_infinity=False), max_size=3)
    return st.lists(st.builds(Annotation, shapes(numbers), grades, measurements), max_size=5)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(exported=annotations(fine), kind=st.sampled_from(["annotation", "detection", "tile"]))
def test_what_was_exported_reads_back_equal(tmp_path: Path, exported: list[Annotation], kind: ObjectType) -> None:
    write_geojson(tmp_path / "a.geojson", exported, object_type=kind)
    assert read_geojson(tmp_path / "a.geojson") == tuple(exported)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    exported=annotations(micropixels.map(float)),
    bounds=st.tuples(st.integers(0, 10**6), st.integers(1, 10**6)),
)
def test_reads_back_equal_through_an_offset(
    tmp_path: Path, exported: list[Annotation], bounds: tuple[int, int]
) -> None:
    moved = [
        Annotation(shapely.transform(a.geometry_px0, lambda xy: xy.round(6)), a.abnormality, a.measurements)
        for a in exported
    ]
    write_geojson(tmp_path / "a.geojson", moved, bounds)
    assert read_geojson(tmp_path / "a.geojson", bounds) == tuple(moved)


def aperio(folder: Path, *regions: str, name: str = "") -> Path:
    path = folder / "a.xml"
    inside = f"<Regions><RegionAttributeHeaders/>{''.join(regions)}</Regions><Plots/>"
    layer = f'<Annotation Id="1" Name="{name}" Type="4">{inside}</Annotation>'
    path.write_text(f'<Annotations MicronsPerPixel="0.25">{layer}</Annotations>')
    return path


def region(kind: int, vertices: list[tuple[Any, Any]], text: str = "", negative: int = 0, number: int = 1) -> str:
    inside = "".join(f'<Vertex X="{x}" Y="{y}" Z="0"/>' for x, y in vertices)
    attributes = f'Id="{number}" Type="{kind}" Text="{text}" NegativeROA="{negative}"'
    return f"<Region {attributes}><Attributes/><Vertices>{inside}</Vertices></Region>"


def test_aperio_regions(tmp_path: Path) -> None:
    path = aperio(
        tmp_path,
        region(0, [(0, 0), (100, 0), (100.5, 100)], "Malignant"),
        region(1, [(10, 20), (110, 20), (110, 70), (10, 70)]),
        region(1, [(10, 20), (110, 70)]),
        region(5, [(7, 8)], "informative"),
        name="Atypical",
    )
    assert read_aperio_xml(path) == (
        Annotation(shapely.Polygon([(0, 0), (100, 0), (100.5, 100)]), Abnormality.MALIGNANT),
        Annotation(shapely.box(10, 20, 110, 70), Abnormality.ATYPICAL),
        Annotation(shapely.box(10, 20, 110, 70), Abnormality.ATYPICAL),
        Annotation(shapely.Point(7, 8), None),
    )


def test_an_aperio_ellipse_fills_its_bounding_box(tmp_path: Path) -> None:
    (annotation,) = read_aperio_xml(aperio(tmp_path, region(2, [(100, 200), (300, 240)])))
    shape = annotation.geometry_px0
    assert shape.bounds == pytest.approx((100, 200, 300, 240))
    assert shape.area == pytest.approx(3.14159 * 100 * 20, rel=0.01)
    assert annotation.abnormality is None


def test_a_negative_aperio_region_is_a_hole(tmp_path: Path) -> None:
    outer = region(1, [(0, 0), (100, 100)])
    hole = region(1, [(40, 40), (60, 60)], negative=1)
    (annotation,) = read_aperio_xml(aperio(tmp_path, hole, outer))
    assert annotation.geometry_px0.equals(shapely.box(0, 0, 100, 100) - shapely.box(40, 40, 60, 60))


def test_all_bad_aperio_regions_are_listed(tmp_path: Path) -> None:
    path = aperio(
        tmp_path,
        region(0, [], number=1),
        region(0, [(0, 0), (1, 1)], number=2),
        region(1, [(0, 0), (0, 9)], number=3),
        region(0, [("x", 0)], number=4),
        region(0, [("nan", 0)], number=5),
        region(4, [(0, 0), (50, 50)], number=6),
        region(0, [(0, 0), (9, 0), (9, 9)], "stroma", number=7),
        region(1, [(800, 800), (900, 900)], negative=1, number=8),
    )
    problems = problems_of(path)
    assert [problem.split(":")[0] for problem in problems] == [f"layer 1, region {n}" for n in range(1, 9)]
    for problem, words in zip(
        problems,
        [
            "no vertices",
            "three corners",
            "encloses nothing",
            "numbers X and Y",
            "finite",
            "a line",
            "'stroma'",
            "meets no",
        ],
        strict=True,
    ):
        assert words in problem


BOMB = '<!DOCTYPE z [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]><Annotations>&b;</Annotations>'
OUTSIDE = '<!DOCTYPE z [<!ENTITY a SYSTEM "file:///etc/hostname">]><Annotations>&a;</Annotations>'


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (BOMB, "declares entities"),
        (OUTSIDE, "declares entities"),
        ("", "not XML"),
        ("<Annotations>", "not XML"),
        ('<?xml version="1.0" encoding="klingon"?><Annotations/>', "not XML"),
        ("<ASAP_Annotations/>", "<ASAP_Annotations>"),
    ],
)
def test_what_is_no_aperio_file_at_all(tmp_path: Path, content: str, words: str) -> None:
    path = tmp_path / "a.xml"
    path.write_text(content)
    (problem,) = problems_of(path)
    assert words in problem


def test_annotations_are_found_beside_the_cohort(tmp_path: Path) -> None:
    (tmp_path / "annotations").mkdir()
    for name, x in [("a.geojson", 1), ("b.JSON", 2), ("e.b.geojson", 5)]:
        (tmp_path / "annotations" / name).write_text(json.dumps(feature(point(x, 0))))
    aperio(tmp_path, region(5, [(3, 0)])).rename(tmp_path / "annotations" / "c.xml")
    (tmp_path / "annotations" / "._a.geojson").write_bytes(b"\0")
    (tmp_path / "annotations" / "notes.txt").write_text("not ours")
    (tmp_path / "annotations.csv").write_text("slide_id,x,y\nd,4,0\n")
    assert AnnotationIndex.of(tmp_path).slide_ids == {"a", "b", "c", "d", "e.b"}
    for slide_id, x in [("a", 1), ("b", 2), ("c", 3), ("d", 4), ("e.b", 5)]:
        (annotation,) = read_annotations(tmp_path, SlideEntry(slide_id, Path("unread")))
        assert annotation == Annotation(shapely.Point(x, 0))
    assert read_annotations(tmp_path, SlideEntry("none", Path("unread"))) == ()
    assert AnnotationIndex.of(tmp_path / "elsewhere").slide_ids == frozenset()


def test_the_offset_is_of_qupath_alone(tmp_path: Path) -> None:
    (tmp_path / "annotations").mkdir()
    saved(tmp_path / "annotations", feature(point(1, 2)))
    aperio(tmp_path / "annotations", region(5, [(1, 2)])).rename(tmp_path / "annotations" / "b.xml")
    (tmp_path / "annotations.csv").write_text("slide_id,x,y\nc,1,2\n")
    found = {
        slide_id: read_annotations(tmp_path, SlideEntry(slide_id, Path("unread")), (10, 20))[0].geometry_px0
        for slide_id in "abc"
    }
    assert found == {"a": shapely.Point(11, 22), "b": shapely.Point(1, 2), "c": shapely.Point(1, 2)}


def test_a_slide_annotated_twice_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "annotations").mkdir()
    saved(tmp_path / "annotations", feature(point()))
    (tmp_path / "annotations.csv").write_text("slide_id,x,y\na,1,2\n")
    with pytest.raises(AnnotationError, match=r"is annotated in a\.geojson and in annotations\.csv; keep one"):
        read_annotations(tmp_path, SlideEntry("a", Path("unread")))


def test_rows_of_annotations_csv(tmp_path: Path) -> None:
    (tmp_path / "annotations.csv").write_bytes(
        "\ufeffslide_id;x;y;width;height;abnormality\r\na;10;20,5;;;\r\na;10;20;30;40;Malignant\r\nb;1;2;;;1\r\n".encode()
    )
    assert AnnotationIndex.of(tmp_path).rows == {
        "a": (
            Annotation(shapely.Point(10, 20.5)),
            Annotation(shapely.box(10, 20, 40, 60), Abnormality.MALIGNANT),
        ),
        "b": (Annotation(shapely.Point(1, 2), Abnormality.ATYPICAL),),
    }


def test_all_problems_of_annotations_csv_are_listed(tmp_path: Path) -> None:
    (tmp_path / "annotations.csv").write_text(
        "slide_id,x,y,width,height,abnormality\n"
        "a,1,2,,,\n"
        ",1,2,,,\n"
        "a,x,2,,,\n"
        "a,1,inf,,,\n"
        "a,1,2,3,,\n"
        "a,1,2,0,5,\n"
        "a,1,2,,,stroma\n"
        "a,1,2,,,1,7\n"
    )
    index, problems = find_annotations(tmp_path)
    assert index.rows == {"a": (Annotation(shapely.Point(1, 2)),)}
    assert [problem.split(":")[0] for problem in problems] == [f"row {n}" for n in range(3, 10)]
    for problem, words in zip(
        problems,
        [
            "slide_id",
            "x 'x'",
            "y 'inf'",
            "height ''",
            "has no area",
            "abnormality 'stroma'",
            "7 cells under 6",
        ],
        strict=True,
    ):
        assert words in problem
    with pytest.raises(AnnotationError, match="7 problems"):
        AnnotationIndex.of(tmp_path)


@pytest.mark.parametrize(
    ("content", "words"), [(b"", "empty"), (b"slide_id,X0,Y0\n", "no column “x”"), (b"\xff", "0xff")]
)
def test_an_annotation_table_that_cannot_be_read(tmp_path: Path, content: bytes, words: str) -> None:
    (tmp_path / "annotations.csv").write_bytes(content)
    index, problems = find_annotations(tmp_path)
    assert index.rows == {}
    assert words in problems[0]
