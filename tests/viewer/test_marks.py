"""Annotations: kept, undone, exchanged with QuPath, and found where training looks for them."""

import json
from pathlib import Path

import pytest
import shapely
from tests.viewer.planted import Open, Visitor, grid

from aspirate.core.geometry import TileGrid
from aspirate.core.labels import Abnormality
from aspirate.core.records import Annotation
from aspirate.slides.annotations import AnnotationIndex
from aspirate.slides.geojson import read_geojson, write_geojson
from aspirate.slides.tile_labels import label_tiles
from aspirate.viewer.marks import FROM_FILE

BOX = {"place": {"x": 100, "y": 200, "width": 50, "height": 60}, "grade": "malignant"}
POINT = {"place": {"x": 300.5, "y": 400}, "grade": "informative"}


def marks(visitor: Visitor, slide: str = "a") -> list[dict[str, object]]:
    found: list[dict[str, object]] = visitor.get(f"/api/slides/{slide}/marks").json()["marks"]
    return found


def test_marks_are_in_the_cohort_at_once_as_training_reads_them(visitor: Visitor, cohort: Path) -> None:
    visitor.send("POST", "/api/slides/a/marks", BOX)
    visitor.send("POST", "/api/slides/a/marks", POINT)
    box, point = AnnotationIndex.of(cohort).read("a")
    assert box.geometry_px0.equals(shapely.box(100, 200, 150, 260))
    assert box.abnormality == Abnormality.MALIGNANT
    assert point.geometry_px0.equals(shapely.Point(300.5, 400))
    assert point.abnormality is None
    labels = label_tiles(grid(), [box, point])
    assert labels.informative[TileGrid.index_at(grid(), 125, 230) or 0]


def test_a_mark_can_be_changed_removed_and_brought_back(visitor: Visitor, cohort: Path) -> None:
    made = visitor.send("POST", "/api/slides/a/marks", BOX).json()
    path = f"/api/slides/a/marks/{made['id']}"
    changed = visitor.send("PUT", path, {"grade": "normal"}).json()
    assert (changed["grade"], changed["geometry"]) == ("normal", made["geometry"])
    visitor.send("PUT", path, {"grade": "normal", "place": {"x": 1, "y": 2}})
    assert marks(visitor)[0]["geometry"] == {"type": "Point", "coordinates": [1.0, 2.0]}
    visitor.send("DELETE", path)
    assert marks(visitor) == []
    assert AnnotationIndex.of(cohort).read("a") == ()
    back = visitor.send("POST", f"{path}/restore", {"event": changed["event"]}).json()
    assert (back["grade"], back["geometry"]) == ("normal", made["geometry"])
    assert [mark["id"] for mark in marks(visitor)] == [made["id"]]
    assert visitor.send("DELETE", "/api/slides/a/marks/none").status_code == 404
    assert visitor.send("POST", f"{path}/restore", {"event": 10**6}).status_code == 404


def test_what_qupath_wrote_is_shown_kept_and_added_to(room: Open, visitor: Visitor, cohort: Path) -> None:
    file = cohort / "annotations" / "a.geojson"
    triangle = shapely.Polygon([(10, 10), (90, 10), (50, 80)])
    write_geojson(file, [Annotation(triangle, Abnormality.ATYPICAL)])
    before = file.read_bytes()
    assert {row["name"]: row["marks"] for row in visitor.get("/api/slides").json()["slides"]}["a"] == 1
    assert [(m["grade"], m["reader"]) for m in marks(visitor)] == [("atypical", FROM_FILE)]
    visitor.send("POST", "/api/slides/a/marks", POINT)
    assert [a.abnormality for a in read_geojson(file)] == [Abnormality.ATYPICAL, None]
    assert (cohort / "annotations" / "a.geojson.orig").read_bytes() == before
    write_geojson(file, [Annotation(triangle, Abnormality.NORMAL)])  # QuPath again, meanwhile
    assert [m["grade"] for m in marks(visitor)] == ["normal"]


def test_a_slide_annotated_in_another_form_is_not_annotated_twice(visitor: Visitor, cohort: Path) -> None:
    (cohort / "annotations.csv").write_text("slide_id,x,y,abnormality\na,5,5,normal\n")
    answer = visitor.send("POST", "/api/slides/a/marks", BOX)
    assert answer.status_code == 409
    assert "turn that into GeoJSON" in answer.json()["detail"]
    assert not (cohort / "annotations" / "a.geojson").exists()


def test_export_and_import_are_qupaths_geojson(visitor: Visitor, tmp_path: Path) -> None:
    visitor.send("POST", "/api/slides/a/marks", BOX)
    exported = visitor.get("/api/slides/a/marks.geojson").content
    (feature,) = json.loads(exported)["features"]
    assert feature["properties"]["classification"]["name"] == "malignant"
    assert visitor.send("POST", "/api/slides/a/marks.geojson", json.loads(exported)).json() == {"added": 0}
    assert visitor.send("POST", "/api/slides/b/marks.geojson", json.loads(exported)).json() == {"added": 1}
    assert marks(visitor, "b")[0]["geometry"] == marks(visitor, "a")[0]["geometry"]


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"type": "Other"}, "is no GeoJSON of QuPath"),
        ([{"geometry": {"type": "Point", "coordinates": [5000, 5]}}], "outside the slide, which is 1300 × 1100"),
        ([{"geometry": {"type": "LineString", "coordinates": [[0, 0], [1, 1]]}}], "LineString covers no place"),
        ([{"geometry": {"type": "Point", "coordinates": ["a", 5]}}], "not pairs of numbers"),
    ],
)
def test_a_bad_upload_adds_nothing_and_says_why(visitor: Visitor, body: object, says: str) -> None:
    answer = visitor.send("POST", "/api/slides/a/marks.geojson", body)
    assert answer.status_code == 409
    assert says in answer.json()["detail"]
    assert "/tmp" not in answer.json()["detail"]
    assert marks(visitor) == []


def test_while_reading_blind_one_sees_only_own_marks(room: Open) -> None:
    anna, ben = room.visitor(), room.visitor()
    anna.become(reader="anna", mode="reading")
    ben.become(reader="ben", mode="reading")
    anna.send("POST", "/api/slides/a/marks", BOX)
    assert marks(ben) == []
    assert len(marks(anna)) == 1
    ben.send("POST", "/api/slides/a/readings", {"bethesda": 3})
    assert len(marks(ben)) == 1


def test_suggestions_are_the_least_sure_spots_one_slide_after_another(visitor: Visitor) -> None:
    spots = visitor.get("/api/suggestions?most=6").json()["suggestions"]
    corners = grid().corners_px0()
    assert [spot["slide"] for spot in spots[:3]] != [spots[0]["slide"]] * 3
    assert {spot["slide"] for spot in spots[:3]} == {"a", "b", "few"}
    assert [(s["x"], s["y"]) for s in spots[:3]] == [tuple(corners[20])] * 3  # 0.55 is nearest ½
    visitor.send("POST", "/api/dismissals", {"slide": "a", "x": spots[0]["x"], "y": spots[0]["y"]})
    x, y = spots[0]["x"], spots[0]["y"]
    mark = {"place": {"x": x + 5, "y": y + 5}, "grade": "normal"}
    visitor.send("POST", "/api/slides/b/marks", mark)
    again = visitor.get("/api/suggestions?most=3").json()["suggestions"]
    assert [s["slide"] for s in again if (s["x"], s["y"]) == (x, y)] == ["few"]
    assert all(abs(s["informativeness"] - 0.5) <= 0.5 for s in again)
