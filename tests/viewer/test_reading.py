"""Blind readings: what is hidden, when it is shown, and that nothing given is ever lost."""

import csv
import sqlite3
from io import StringIO
from pathlib import Path

import pytest
from tests.viewer.planted import Open, Visitor

from aspirate.evaluation.readers import Reader
from aspirate.viewer.desk import Desk
from aspirate.viewer.places import find
from aspirate.workflow.prediction_tables import read_readers


def test_in_reading_mode_nothing_of_the_result_leaves_the_server(visitor: Visitor) -> None:
    visitor.become(reader="anna", mode="reading")
    for row in visitor.get("/api/slides").json()["slides"]:
        assert row["result"] is None
        assert row["status"] in ("hidden", "failed")
    view = visitor.get("/api/slides/a").json()
    assert (view["status"], view["result"], view["model"], view["combined"]) == ("hidden", None, None, [])
    evidence = visitor.get("/api/slides/a/evidence").json()
    assert len(evidence["tiles"]) == 3  # where to look is told
    assert {tile["malignancy"] for tile in evidence["tiles"]} == {None}
    assert evidence["groups"] is None
    for path in ("/report", "/api/readers.csv", "/api/readings.csv"):
        assert visitor.get(path).status_code in (403, 404)


def test_where_no_model_looked_nothing_is_hidden(cohort: Path) -> None:
    visitor = Open(find([cohort])).visitor()
    visitor.become(reader="anna", mode="reading")
    assert {row["status"] for row in visitor.get("/api/slides").json()["slides"]} == {"unpredicted"}
    assert visitor.get("/api/slides/a").json()["status"] == "unpredicted"  # so that no page asks for evidence in vain


def test_an_own_category_reveals_the_result_and_both_combined(visitor: Visitor) -> None:
    visitor.become(reader="anna", mode="reading")
    view = visitor.send("POST", "/api/slides/a/readings", {"bethesda": 4, "comment": "crowded"}).json()
    assert view["result"]["bethesda"] == 5
    assert [(c["rule"], c["bethesda"], c["decided_by"], c["conflict"]) for c in view["combined"]] == [
        ("Combined345Human", 4, "reader", False),
        ("Combined345Alg", 5, "algorithm", False),
    ]
    assert [(r["bethesda"], r["comment"], r["reader"], r["blind"]) for r in view["readings"]] == [
        (4, "crowded", "anna", True)
    ]
    assert visitor.get("/api/slides/b").json()["status"] == "hidden"  # of the others still nothing


def test_a_change_of_mind_is_another_row_and_no_longer_blind(visitor: Visitor, tmp_path: Path) -> None:
    visitor.become(reader="anna", mode="reading")
    visitor.send("POST", "/api/slides/a/readings", {"bethesda": 2})
    view = visitor.send("POST", "/api/slides/a/readings", {"bethesda": 6}).json()
    assert [(r["bethesda"], r["blind"]) for r in view["readings"]] == [(2, True), (6, False)]
    visitor.become(mode="review")
    rows = list(csv.DictReader(StringIO(visitor.get("/api/readers.csv").text)))
    assert rows == [{"slide_id": "a", "reader": "anna", "bethesda": "2"}]
    exported = tmp_path / "readers.csv"
    exported.write_bytes(visitor.get("/api/readers.csv").content)
    assert read_readers(exported) == (Reader("anna", {"a": 2}),)  # as `aspirate evaluate --readers` takes it
    every = list(csv.DictReader(StringIO(visitor.get("/api/readings.csv").text)))
    assert [(row["bethesda"], row["blind"]) for row in every] == [("2", "1"), ("6", "0")]


def test_who_has_seen_the_result_does_not_read_blind(visitor: Visitor) -> None:
    visitor.become(reader="ben")
    visitor.get("/api/slides")  # in review mode: all results are seen
    visitor.become(mode="reading")
    view = visitor.get("/api/slides/a").json()
    assert (view["status"], view["blind"]) == ("hidden", False)
    view = visitor.send("POST", "/api/slides/a/readings", {"bethesda": 3}).json()
    assert view["readings"][0]["blind"] is False
    visitor.become(mode="review")
    assert visitor.get("/api/readers.csv").text == "slide_id,reader,bethesda\n"


def test_benign_against_malignant_is_flagged_as_a_conflict(room: Open) -> None:
    from aspirate.core.predictions import Prediction
    from aspirate.viewer.desk import Reading
    from aspirate.viewer.places import ServedSlide
    from aspirate.viewer.room import combinations

    slide = ServedSlide("a", "a", None, Prediction("a", predicted_bethesda=6))
    both = combinations(slide, Reading("a", "anna", 2, "", "", True))
    assert [(c.bethesda, c.decided_by, c.conflict) for c in both] == [(2, "reader", True)] * 2
    assert combinations(slide, Reading("a", "anna", 1, "", "", True)) == []  # nondiagnostic: outside the rules


def test_the_desk_itself_refuses_to_change_what_was_given(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.give_reading("a", "anna", 4, "")
    for statement in ("UPDATE readings SET bethesda = 2", "DELETE FROM readings"):
        with pytest.raises(sqlite3.IntegrityError, match="never changed"), desk.transaction() as connection:
            connection.execute(statement)
    assert [reading.bethesda for reading in desk.readings()] == [4]
    assert desk.rows("PRAGMA journal_mode")[0][0] == "wal"
    desk.close()


def test_two_readers_at_once(room: Open) -> None:
    anna, ben = room.visitor(), room.visitor()
    anna.become(reader="anna", mode="reading")
    ben.become(reader="ben", mode="reading")
    anna.send("POST", "/api/slides/a/readings", {"bethesda": 5})
    assert ben.get("/api/slides/a").json()["status"] == "hidden"
    assert ben.get("/api/slides/a").json()["readings"] == []  # nor what anna said
    ben.send("POST", "/api/slides/a/readings", {"bethesda": 3})
    assert [(r.reader, r.bethesda) for r in room.desk.readings("a")] == [("anna", 5), ("ben", 3)]


@pytest.mark.parametrize("body", [{"bethesda": 0}, {"bethesda": 7}, {"bethesda": "x"}, {}, {"bethesda": 3, "else": 1}])
def test_what_is_no_reading_is_refused(visitor: Visitor, room: Open, body: object) -> None:
    assert visitor.send("POST", "/api/slides/a/readings", body).status_code == 422
    assert room.desk.readings() == []
