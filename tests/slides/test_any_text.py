"""Whatever is in a file of annotations or in a table: it is read, or refused with an error that names the file."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from aspirate.core.errors import AspirateError
from aspirate.core.records import Annotation
from aspirate.slides.annotations import parse_annotation_table
from aspirate.slides.aperio_xml import read_aperio_xml
from aspirate.slides.cohort import parse_cohort
from aspirate.slides.geojson import read_geojson

one_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
numbers = st.integers() | st.floats() | st.sampled_from([0, 1e9, -1, 10**400])
leaves = st.none() | st.booleans() | numbers | st.text(max_size=5)
values = st.recursive(leaves, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner))
kinds = ["Point", "MultiPoint", "Polygon", "MultiPolygon", "GeometryCollection", "LineString", "Circle"]
points = st.lists(numbers, min_size=1, max_size=3)
coordinates = values | points | st.lists(points, max_size=5) | st.lists(st.lists(points, max_size=5), max_size=2)
features = st.fixed_dictionaries(
    {"geometry": values | st.fixed_dictionaries({"type": st.sampled_from(kinds), "coordinates": coordinates})},
    optional={"properties": values | st.fixed_dictionaries({"classification": values, "measurements": values})},
)
cells = st.text(max_size=8) | st.sampled_from(["1", "0.25", "III", "malignant", '"', "1e999", "a/b", "²", "-", "\r"])


def read_or_refused(read: Callable[[Path], Any], path: Path, content: bytes) -> Any:
    """What was read, None where the file was refused by name."""
    path.write_bytes(content)
    try:
        return read(path)
    except AspirateError as error:
        assert path.name in str(error)
        return None


@pytest.mark.parametrize("read", [read_geojson, read_aperio_xml, parse_cohort, parse_annotation_table])
@one_folder
@given(content=st.binary(max_size=200) | st.text(max_size=200).map(lambda text: text.encode("utf-8", "surrogatepass")))
@example(content=b"\xef\xbb\xbf")
@example(content=b'"')
def test_any_bytes(tmp_path: Path, read: Callable[[Path], Any], content: bytes) -> None:
    read_or_refused(read, tmp_path / "file", content)


@one_folder
@given(found=st.lists(features | values, max_size=3))
def test_any_features(tmp_path: Path, found: list[Any]) -> None:
    read = read_or_refused(read_geojson, tmp_path / "a.geojson", json.dumps(found).encode())
    assert read is None or (len(read) <= len(found) and all(isinstance(each, Annotation) for each in read))


@one_folder
@given(rows=st.lists(st.lists(cells, max_size=6), max_size=5), delimiter=st.sampled_from([",", ";", "\t"]))
def test_any_rows_of_a_cohort(tmp_path: Path, rows: list[list[str]], delimiter: str) -> None:
    header = ["slide_id", "path", "malignant", "bethesda", "mpp", "fold"]
    text = "\n".join(delimiter.join(row) for row in [header, *rows]).encode("utf-8", "surrogatepass")
    read = read_or_refused(parse_cohort, tmp_path / "cohort.csv", text)
    if read is not None:
        cohort, problems = read
        assert all(entry.slide_id and entry.bethesda in (None, 1, 2, 3, 4, 5, 6) for entry in cohort.entries)
        assert all(problem.startswith(("row ", "header")) for problem in problems)


@one_folder
@given(rows=st.lists(st.lists(cells, min_size=3, max_size=6), max_size=5))
def test_any_rows_of_annotations(tmp_path: Path, rows: list[list[str]]) -> None:
    text = "\n".join(",".join(row) for row in [["slide_id", "x", "y", "width", "height", "abnormality"], *rows])
    read = read_or_refused(parse_annotation_table, tmp_path / "a.csv", text.encode("utf-8", "surrogatepass"))
    if read is not None:
        found, _ = read
        assert all(each.geometry_px0.is_valid for marks in found.values() for each in marks)


@one_folder
@given(data=st.data())
def test_any_vertices_of_aperio(tmp_path: Path, data: st.DataObject) -> None:
    texts = st.sampled_from(["0", "10.5", "-3", "nan", "inf", "1e999", "", "x"]) | st.floats().map(str)
    vertices = data.draw(st.lists(st.tuples(texts, texts), max_size=5))
    inside = "".join(f'<Vertex X="{x}" Y="{y}"/>' for x, y in vertices)
    kind = data.draw(st.sampled_from(["0", "1", "2", "3", "", "x"]))
    region = f'<Region Type="{kind}" NegativeROA="{data.draw(st.sampled_from("01"))}">{inside}</Region>'
    xml = f"<Annotations><Annotation>{region}</Annotation></Annotations>"
    read = read_or_refused(read_aperio_xml, tmp_path / "a.xml", xml.encode())
    assert read is None or all(not each.geometry_px0.is_empty for each in read)
