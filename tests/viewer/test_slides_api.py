"""What the API says of slides, against what was planted."""

import json
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.slides.slide_files import Variety, picture, write_slide
from tests.viewer.planted import CALIBRATION, CUTS, SIDE, Open, Visitor, grid, informativeness, tile_values

from aspirate.core.errors import ConfigError
from aspirate.core.geometry import Size
from aspirate.core.predictions import Prediction, write_predictions
from aspirate.core.tile_file import TileTable, write_tiles
from aspirate.slides.cohort import Cohort
from aspirate.slides.reader import open_slide
from aspirate.viewer.cache import ByteCache
from aspirate.viewer.open_slides import OpenSlides
from aspirate.viewer.places import Served, find
from aspirate.workflow.heat_map import colours


def test_the_worklist_has_every_slide_with_its_state(visitor: Visitor) -> None:
    rows = {row["name"]: row for row in visitor.get("/api/slides").json()["slides"]}
    states = {name: row["status"] for name, row in rows.items()}
    assert states == {"a": "predicted", "b": "predicted", "few": "inadequate", "broken": "failed", "gone": "failed"}
    assert rows["a"]["result"]["bethesda"] == 5
    assert rows["a"]["result"]["probability"] == pytest.approx(float(CALIBRATION.probability(1.0)), abs=1e-5)
    assert rows["few"]["result"]["probability"] is None
    assert rows["broken"]["result"] is None


def test_no_file_name_and_no_path_is_ever_told(visitor: Visitor, cohort: Path) -> None:
    for name in ("a", "b", "few", "broken", "gone"):
        for path in ("", "/evidence", "/marks", "/thumbnail", "/tiles/99/0/0"):
            answer = visitor.get(f"/api/slides/{name}{path}")
            if answer.headers["content-type"] == "application/json":
                assert "Jane" not in answer.text
                assert str(cohort) not in answer.text
    assert "Jane" not in visitor.get("/api/slides").text


def test_a_bare_file_is_known_by_a_number_only(tmp_path: Path) -> None:
    write_slide(tmp_path / "Jane Doe 1960.tiff", picture(700, 500), Variety())
    served = find([tmp_path])
    assert list(served.slides) == ["slide 1"]
    visitor = Open(served).visitor()
    assert "Jane" not in visitor.get("/api/slides").text + visitor.get("/api/slides/slide%201").text
    assert list(find([tmp_path], file_names=True).slides) == ["Jane Doe 1960"]


def test_a_slide_says_its_shape_model_and_neighbours(visitor: Visitor) -> None:
    view = visitor.get("/api/slides/b").json()
    assert view["pyramid"] == {"width": 1300, "height": 1100, "tile_px": 256, "max_level": 11, "mpp": 0.25}
    assert (view["previous"], view["next"]) == ("a", "few")
    assert view["model"]["cuts"] == CUTS
    assert view["model"]["calibration_slides"] == 30
    assert view["result"]["score"] == -1.0


def test_a_slide_that_cannot_be_opened_says_why(visitor: Visitor) -> None:
    view = visitor.get("/api/slides/broken").json()
    assert view["pyramid"] is None
    assert "not a slide of any known kind" in view["error"]
    assert "none of the places" in visitor.get("/api/slides/gone").json()["error"]


def test_tiles_carry_a_tag_and_are_not_sent_twice(visitor: Visitor) -> None:
    first = visitor.get("/api/slides/a/tiles/11/0/0")
    assert first.headers["content-type"] == "image/jpeg"
    assert first.headers["cache-control"] == "private, max-age=3600"
    again = visitor.get("/api/slides/a/tiles/11/0/0", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert visitor.get("/api/slides/a/tiles/11/9/0").status_code == 404
    assert visitor.get("/api/slides/b/tiles/11/0/0").headers["etag"] != first.headers["etag"]


def test_a_slide_that_vanishes_says_so_and_the_rest_go_on(
    room: Open, visitor: Visitor, cohort: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aspirate.viewer.open_slides.LOOK_AGAIN_S", 0.0)
    before = visitor.get("/api/slides/a/tiles/11/0/0")
    (cohort / "Jane Doe a.tiff").unlink()
    gone = visitor.get("/api/slides/a/tiles/11/0/0")
    assert gone.status_code == 410
    assert "the file has gone" in gone.json()["detail"]
    assert "the file has gone" in visitor.get("/api/slides/a").json()["error"]
    assert visitor.get("/api/slides/b/tiles/11/0/0").status_code == 200
    write_slide(cohort / "Jane Doe a.tiff", picture(1300, 1100, 9), Variety())
    other = visitor.get("/api/slides/a/tiles/11/0/0", headers={"If-None-Match": before.headers["etag"]})
    assert other.status_code == 200
    assert other.content != before.content


def test_only_so_many_slides_are_open(room: Open, visitor: Visitor) -> None:
    slides = room.app.state.room.open_slides
    slides.most = 1
    for name in ("a", "b", "few", "a"):
        assert visitor.get(f"/api/slides/{name}/tiles/0/0/0").status_code == 200
        assert len(slides) == 1


def test_the_heat_map_has_one_pixel_a_tile_in_its_colour(visitor: Visitor) -> None:
    image = np.asarray(Image.open(BytesIO(visitor.get("/api/slides/a/heat-map").content)))
    heat = informativeness(1).reshape(grid().rows, grid().columns)
    assert image.shape == (9, 11, 4)
    assert (image[..., :3] == colours(heat)).all()
    assert (image[..., 3] == np.round(np.clip(heat * 2, 0, 1) * 255)).all()
    guesses = np.asarray(Image.open(BytesIO(visitor.get("/api/slides/b/heat-map").content)))
    heat = informativeness(2).reshape(grid().rows, grid().columns)
    strength = np.where(heat < 0.2, 0.5, 1.0)
    assert (guesses[..., 3] == np.round(np.clip(heat * 2, 0, 1) * strength * 255)).all()
    assert visitor.get("/api/slides/a/evidence").json()["guessed"] == 0
    assert visitor.get("/api/slides/b/evidence").json()["guessed"] == pytest.approx((heat < 0.2).mean())


def test_evidence_ranks_tiles_by_informativeness(visitor: Visitor) -> None:
    evidence = visitor.get("/api/slides/a/evidence").json()
    corners = grid().corners_px0()
    assert [(t["x"], t["y"]) for t in evidence["tiles"]] == [tuple(corners[i]) for i in (37, 60, 3)]
    assert [t["rank"] for t in evidence["tiles"]] == [1, 2, 3]
    assert [t["malignancy"] for t in evidence["tiles"]] == [-1.0, 0.25, 2.5]
    assert sum(evidence["histogram"]) == len(grid())
    assert evidence["histogram"][39] == 1  # 0.99 alone is in the last fortieth
    assert evidence["groups"] == 3
    assert (evidence["columns"], evidence["rows"], evidence["side_px0"]) == (11, 9, SIDE)


def test_of_an_inadequate_slide_nothing_is_said_of_malignancy(visitor: Visitor) -> None:
    tiles = visitor.get("/api/slides/few/evidence").json()["tiles"]
    assert tiles
    assert {tile["malignancy"] for tile in tiles} == {None}


def test_a_square_shows_its_tile(visitor: Visitor) -> None:
    shown = np.asarray(Image.open(BytesIO(visitor.get("/api/slides/a/squares/512/384").content)), np.float64)
    expected = Image.fromarray(picture(1300, 1100, 1)[384:512, 512:640]).resize(
        shown.shape[:2], Image.Resampling.BICUBIC
    )
    assert np.abs(shown - np.asarray(expected)).mean() < 8


def test_the_model_shown_is_the_one_that_predicted(tmp_path: Path, served: Served, cohort: Path) -> None:
    assert served.model is not None
    file = tmp_path / "results" / "model" / "model.json"
    note = json.loads(file.read_text())
    note["calibration"]["slope"] = 3.0
    file.write_text(json.dumps(note))
    assert find([tmp_path / "results", cohort]).model is None


def test_a_folder_of_folders_stands_for_what_it_holds(tmp_path: Path, served: Served) -> None:
    both = find([tmp_path])
    assert list(both.slides) == list(served.slides)
    assert both.slides["a"].prediction == served.slides["a"].prediction
    assert both.desk == tmp_path


def test_results_without_slides_are_refused(tmp_path: Path, served: Served) -> None:
    with pytest.raises(ConfigError, match="name their cohort or folder too"):
        find([tmp_path / "results"])


def test_two_slides_of_one_name_are_refused(tmp_path: Path, cohort: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    Cohort.write(other / "cohort.csv", Cohort.read(cohort).entries)
    with pytest.raises(ConfigError, match="several slides are called a, b"):
        find([cohort, other])


def test_a_cross_validation_knows_its_cohort_and_shows_our_method(tmp_path: Path, cohort: Path) -> None:
    run = tmp_path / "crossval"
    rows = [
        Prediction("a", "0", "CNN (Y,S)", score=0.1, probability=0.2),
        Prediction("a", "0", "Proposed (U,Y)", score=0.2, probability=0.3),
        Prediction("a", "0", "Proposed (U,Y,S)", score=0.3, probability=0.4),
        Prediction("b", "1", "Proposed (U,Y,S)", score=0.5, probability=0.6),
    ]
    write_predictions(run / "predictions.csv", rows)
    (run / "provenance.json").write_text(json.dumps({"cohort_path": str(cohort)}))
    write_tiles(run / "fold-1" / "tiles" / "b.h5", TileTable.of_grid("b", grid(), tile_values(2)))
    served = find([run])
    assert served.slides["a"].prediction == rows[2]
    assert served.slides["b"].tiles == run / "fold-1" / "tiles" / "b.h5"
    assert served.model is None
    assert find([run], method="CNN (Y,S)").slides["a"].prediction == rows[0]
    with pytest.raises(ConfigError, match=r"no method 'VGG'; it has CNN \(Y,S\), Proposed"):
        find([run], method="VGG")


def test_predictions_know_their_files_and_a_cohort_that_moved_is_no_help(tmp_path: Path, cohort: Path) -> None:
    out = tmp_path / "out"
    write_predictions(out / "predictions.csv", [Prediction("x", "", "Proposed (U,Y)", score=0.2, probability=0.3)])
    (out / "provenance.json").write_text(json.dumps({"cohort_path": str(tmp_path / "gone")}))
    with pytest.raises(ConfigError, match="no slides here"):
        find([out])
    path = Cohort.read(cohort).entries[0].path
    (out / "predictions.json").write_text(json.dumps({"files": {"x": [str(path), 0.25]}}))
    served = find([out]).slides["x"]
    assert served.entry is not None and (served.entry.path, served.entry.mpp) == (path, 0.25)
    assert served.prediction is not None and served.annotations is None
    beside = find([cohort, out])  # a cohort that does not have the slide leaves it where it is
    assert beside.slides["x"].entry is not None and "a" in beside.slides


def test_a_slide_predicted_by_its_file_alone_is_numbered(tmp_path: Path, cohort: Path) -> None:
    path = Cohort.read(cohort).entries[0].path
    said = f"{path.stem}: {path} is torn"
    rows = [Prediction(path.stem, status="failed", error=said), Prediction("lost", "", "Proposed (U,Y)", score=0.2)]
    write_predictions(tmp_path / "out" / "predictions.csv", rows)
    record = {"files": {path.stem: [str(path), 0.25]}}
    (tmp_path / "out" / "predictions.json").write_text(json.dumps(record))
    assert path.stem == "Jane Doe a"
    assert list(find([tmp_path / "out"], file_names=True).slides) == ["Jane Doe a", "lost"]
    told = Open(find([tmp_path / "out"])).visitor().get("/api/slides").text
    assert "Jane" not in told and "slide 1: slide 1 is torn" in told
    assert "lost: its file is in none of the places served" in told


def test_a_slide_in_use_is_not_closed_under_its_reader(served: Served) -> None:
    slides = OpenSlides(most=1, cache=ByteCache(0))

    def read(number: int) -> bytes:
        with slides.lease(served.slides[("a", "b", "few")[number % 3]]) as (pyramid, _):
            return pyramid.tile(11, number % 6, number % 5)

    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(read, range(240)))
    assert together == [read(number) for number in range(240)]
    slides.close()
    assert len(slides) == 0


def test_the_real_slide_is_served_as_it_is_read(shared_data: Path) -> None:
    path = shared_data / "slides" / "csf_metastasis_PAP-1_full.tiff"
    desk = find([path], mpp=0.25)
    with OpenSlides().lease(desk.slides["slide 1"]) as (pyramid, _), open_slide(path, mpp=0.25) as slide:
        assert pyramid.shape.size_px0 == Size(27888, 28392)
        for level in (15, 14, 12):
            column, row = (side // 2 for side in (27888 >> (23 - level), 28392 >> (23 - level)))
            side_px0 = 256 << (15 - level)
            expected = slide.read_squares([(column * side_px0, row * side_px0)], side_px0, 256)[0]
            shown = np.asarray(Image.open(BytesIO(pyramid.tile(level, column, row))).convert("RGB"))
            assert np.abs(shown.astype(float) - expected).mean() < 1
