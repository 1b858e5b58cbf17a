"""Many slides by one model: the table says what the model says, failures are rows, nothing is done twice."""

import csv
import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest
from numpy.typing import NDArray
from tests.workflow.by_weight import mean_by_weight
from tests.workflow.small_model import small_bundle, tile_net, write_tiff

from aspirate.core.errors import AspirateError, CohortError, ConfigError
from aspirate.core.predictions import COLUMNS, read_predictions
from aspirate.core.progress import Advance, Bar, silent
from aspirate.core.records import SlideEntry
from aspirate.core.tile_file import read_tiles
from aspirate.slides.cohort import Cohort
from aspirate.slides.geojson import read_geojson
from aspirate.workflow.bundle import Bundle
from aspirate.workflow.predict import Model, SlideResult, load_model
from aspirate.workflow.predict_many import entries_at, predict_many
from aspirate.workflow.slide_job import PredictFolder, PredictSettings


@pytest.fixture(scope="module")
def bundle() -> Bundle:
    return small_bundle()


class CountingModel(Model):
    """Remembers of which slides it was asked."""

    def __init__(self, bundle: Bundle) -> None:
        super().__init__(bundle)
        self.asked: list[str] = []
        self.before: Callable[[SlideEntry], None] = lambda entry: None

    def predict(
        self,
        slide: str | Path | SlideEntry,
        mpp: float | None = None,
        any_resolution: bool = False,
        advance: Advance = silent,
        informativeness: NDArray[np.float32] | None = None,
        exact: bool = False,
    ) -> SlideResult:
        assert isinstance(slide, SlideEntry)
        self.asked.append(slide.slide_id)
        self.before(slide)
        return super().predict(slide, mpp, any_resolution, advance, informativeness, exact)


@pytest.fixture
def model(bundle: Bundle) -> CountingModel:
    return CountingModel(bundle)


@pytest.fixture(scope="module")
def entries(tmp_path_factory: pytest.TempPathFactory) -> tuple[SlideEntry, ...]:
    """Three that can be read, the second labelled; between them one without resolution and one cut short."""
    folder = tmp_path_factory.mktemp("slides")
    whole = [write_tiff(folder / f"slide {n}.tiff", seed=n) for n in (1, 2, 3)]
    mute = write_tiff(folder / "mute.tiff", seed=4, px_per_cm=None)
    cut = folder / "cut.tiff"
    cut.write_bytes(whole[0].read_bytes()[:2000])
    return (
        SlideEntry("slide 1", whole[0]),
        SlideEntry("mute", mute),
        SlideEntry("slide #2", whole[1], malignant=True, bethesda=5),
        SlideEntry("cut", cut, malignant=False),
        SlideEntry("slide 3", whole[2]),
    )


def cells(out: Path) -> list[dict[str, str]]:
    with (out / "predictions.csv").open(encoding="utf-8", newline="") as file:
        table = csv.DictReader(file)
        assert tuple(table.fieldnames or ()) == COLUMNS
        return list(table)


def test_the_table_says_what_the_model_says(
    model: CountingModel, entries: tuple[SlideEntry, ...], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    summary = predict_many(model, entries, out)
    rows = cells(out)
    assert [row["slide_id"] for row in rows] == ["slide 1", "mute", "slide #2", "cut", "slide 3"]
    for row, entry in zip(rows, entries, strict=True):
        if entry.slide_id in ("mute", "cut"):
            continue
        alone = Model(model.bundle).predict(entry)
        assert (row["status"], row["error"]) == ("ok", "")
        assert row["method"] == "Proposed (U,Y,S)"
        assert float(row["score"]) == pytest.approx(alone.score, rel=1e-5)
        assert float(row["probability"]) == pytest.approx(1 / (1 + np.exp(-float(row["score"]) - 0.1)), rel=1e-5)
        assert row["predicted_malignant"] == str(int(float(row["score"]) > 0))
        assert int(row["predicted_bethesda"]) == 2 + sum(float(row["score"]) > c for c in model.bundle.cuts["S"])
        table = read_tiles(out / "tiles" / f"{entry.slide_id}.h5")
        for name, values in alone.tiles.values.items():
            np.testing.assert_array_equal(table.values[name], values)
        assert int(row["informative_tiles"]) == (table.values["informativeness"] >= 0.5).sum()
        kept = table.values["selected"]
        by_hand = mean_by_weight(table.values["malignancy"][kept], table.values["informativeness"][kept])
        assert float(row["score"]) == pytest.approx(by_hand, rel=1e-5)
    assert (rows[2]["malignant"], rows[2]["bethesda"]) == ("1", "5")
    assert len({row["score"] for row in rows}) == 4, "the test needs slides that differ"
    assert [row.score is None for row in summary.predictions] == [False, True, False, True, False]
    assert (summary.table, summary.page) == (out / "predictions.csv", out / "index.html")


def test_a_failed_slide_is_a_row_and_the_rest_go_on(
    model: CountingModel, entries: tuple[SlideEntry, ...], tmp_path: Path
) -> None:
    summary = predict_many(model, entries, tmp_path / "out")
    rows = {row["slide_id"]: row for row in cells(tmp_path / "out")}
    assert rows["mute"]["status"] == rows["cut"]["status"] == "failed"
    assert "mute: the file does not say its micrometres per pixel" in rows["mute"]["error"]
    assert rows["cut"]["error"].startswith("cut: ")
    assert rows["cut"]["malignant"] == "0"
    said = ("score", "probability", "predicted_malignant", "predicted_bethesda", "adequate", "informative_tiles")
    assert [rows["cut"][name] for name in said] == [""] * 6
    assert summary.failures == {name: rows[name]["error"] for name in ("mute", "cut")}
    assert not list((tmp_path / "out").rglob("cut.*")) and not list((tmp_path / "out").rglob("mute.*"))


def test_an_error_nobody_foresaw_is_a_row_too_and_leaves_nothing_half_made(
    model: CountingModel, entries: tuple[SlideEntry, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*args: object) -> None:
        raise ZeroDivisionError("by nothing")

    monkeypatch.setattr("aspirate.workflow.slide_job.write_evidence", broken)
    summary = predict_many(model, entries[:1], tmp_path / "out")
    (said,) = summary.failures.values()
    assert re.fullmatch(r"slide 1: ZeroDivisionError: by nothing \(test_predict_many\.py:\d+\)", said)
    assert not list((tmp_path / "out" / "tiles").iterdir())


def test_evidence_of_every_slide_agrees_with_its_tiles(
    model: CountingModel, entries: tuple[SlideEntry, ...], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    predict_many(model, entries, out)
    for name in ("slide 1", "slide #2", "slide 3"):
        assert all(path.stat().st_size for path in PredictFolder(out).outputs(name))
        table = read_tiles(out / "tiles" / f"{name}.h5")
        with h5py.File(out / "tiles" / f"{name}.h5") as file:
            assert file["coords"].attrs["model_sha256"] == model.bundle.sha256()
        scores = {
            tuple(corner): (float(u), float(g))
            for corner, u, g, kept in zip(
                table.corners_px0.tolist(),
                table.values["informativeness"],
                table.values["malignancy"],
                table.values["selected"],
                strict=True,
            )
            if kept
        }
        found = read_geojson(out / "geojson" / f"{name}.geojson")
        names = ("informativeness", "malignancy")
        measured = {mark.geometry_px0.bounds[:2]: tuple(mark.measurements[key] for key in names) for mark in found}
        assert measured == scores
        html = (out / "sheets" / f"{name}.html").read_text(encoding="utf-8")
        assert "http://" not in html and "https://" not in html and "<script" not in html


def test_the_page_links_every_sheet_and_names_every_failure(
    model: CountingModel, entries: tuple[SlideEntry, ...], tmp_path: Path
) -> None:
    predict_many(model, entries, tmp_path / "out")
    html = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    for file in ("slide%201", "slide%20%232", "slide%203"):
        assert f'href="sheets/{file}.html"' in html and f'src="thumbnails/{file}.jpg"' in html
    assert "sheets/cut.html" not in html
    assert "mute: the file does not say its micrometres per pixel" in html
    assert "malignant, TBS 5" in html
    assert "Research use only" in html
    assert "http" not in html and "<script" not in html


def test_a_second_start_does_only_what_is_missing(
    model: CountingModel, entries: tuple[SlideEntry, ...], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    predict_many(model, entries, out)
    first = (out / "predictions.csv").read_bytes()
    model.asked.clear()
    summary = predict_many(model, entries, out)
    assert model.asked == ["mute"]  # the cut one does not even open
    assert summary.skipped == ("slide 1", "slide #2", "slide 3")
    assert (out / "predictions.csv").read_bytes() == first
    assert list(summary.failures) == ["mute", "cut"]

    (out / "sheets" / "slide 3.html").unlink()
    model.asked.clear()
    predict_many(model, entries, out)
    assert model.asked == ["mute", "slide 3"]
    assert (out / "sheets" / "slide 3.html").exists()


def test_where_slides_of_an_earlier_start_lie_is_not_forgotten(
    model: CountingModel, entries: tuple[SlideEntry, ...], tmp_path: Path
) -> None:
    """The reading room opens them from there."""
    for entry in (entries[0], entries[2]):
        predict_many(model, [entry], tmp_path / "out")
    files = json.loads((tmp_path / "out" / "predictions.json").read_text())["files"]
    assert {name: path for name, (path, _) in files.items()} == {
        entry.slide_id: str(entry.path.resolve()) for entry in (entries[0], entries[2])
    }


def test_an_interruption_keeps_what_is_done_and_the_next_start_goes_on(
    model: CountingModel, entries: tuple[SlideEntry, ...], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    whole = [entries[0], entries[2], entries[4]]

    def interrupt(entry: SlideEntry) -> None:
        if entry.slide_id == "slide #2":
            raise KeyboardInterrupt

    model.before = interrupt
    with pytest.raises(KeyboardInterrupt):
        predict_many(model, whole, out)
    assert [row["slide_id"] for row in cells(out)] == ["slide 1"]
    assert not [path for path in out.rglob("*") if path.name.endswith(".part")]
    model.before = lambda entry: None
    model.asked.clear()
    predict_many(model, whole, out)
    assert model.asked == ["slide #2", "slide 3"]
    again = tmp_path / "again"
    predict_many(model, whole, again)
    assert (out / "predictions.csv").read_bytes() == (again / "predictions.csv").read_bytes()


def test_another_model_other_settings_or_another_file_are_done_anew(
    bundle: Bundle, entries: tuple[SlideEntry, ...], tmp_path: Path
) -> None:
    out, one = tmp_path / "out", [entries[0]]

    def asked(bundle: Bundle, slides: list[SlideEntry], settings: PredictSettings | None = None) -> list[str]:
        model = CountingModel(bundle)
        predict_many(model, slides, out, settings)
        return model.asked

    assert asked(bundle, one) == ["slide 1"]
    assert asked(bundle, one) == []
    assert asked(replace(bundle, malignancy=tile_net(7)), one) == ["slide 1"]
    assert asked(replace(bundle, threshold=0.3), one) == ["slide 1"]
    assert asked(replace(bundle, threshold=0.3), one) == []
    assert asked(replace(bundle, threshold=0.3), one, PredictSettings(tiles_shown=3)) == ["slide 1"]
    assert asked(bundle, one) == ["slide 1"]
    moved = write_tiff(tmp_path / "other.tiff", seed=9)
    assert asked(bundle, [replace(entries[0], path=moved)]) == ["slide 1"]
    assert asked(bundle, [replace(entries[0], path=moved, mpp=0.2)]) == ["slide 1"]


def test_labels_that_became_known_reach_the_table_without_new_work(
    model: CountingModel, entries: tuple[SlideEntry, ...], tmp_path: Path
) -> None:
    predict_many(model, entries[:1], tmp_path / "out")
    predict_many(model, [replace(entries[0], malignant=True, bethesda=6)], tmp_path / "out")
    assert model.asked == ["slide 1"]
    assert (cells(tmp_path / "out")[0]["malignant"], cells(tmp_path / "out")[0]["bethesda"]) == ("1", "6")


def test_slides_of_an_earlier_start_stay_unless_another_model_made_them(
    model: CountingModel, entries: tuple[SlideEntry, ...], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    predict_many(model, entries[:1], out)
    summary = predict_many(model, entries[4:], out)
    assert [row["slide_id"] for row in cells(out)] == ["slide 3", "slide 1"]
    assert [row.slide_id for row in summary.predictions] == ["slide 3"]
    other = CountingModel(replace(model.bundle, threshold=0.7))
    with pytest.raises(ConfigError, match=r"holds 1 slides predicted by another model.*slide 1.*another folder"):
        predict_many(other, entries[4:], out)
    assert other.asked == []


def test_a_folder_that_is_not_ours_is_left_alone(
    model: CountingModel, entries: tuple[SlideEntry, ...], tmp_path: Path
) -> None:
    (tmp_path / "predictions.csv").write_text("mine")
    with pytest.raises(ConfigError, match="not empty"):
        predict_many(model, entries, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["predictions.csv"]
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "predictions.json").write_text("{}")
    with pytest.raises(ConfigError, match="cannot be understood"):
        predict_many(model, entries, tmp_path / "out")
    assert model.asked == []


def test_the_resolution_given_serves_only_slides_that_have_none(
    model: CountingModel, entries: tuple[SlideEntry, ...], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    predict_many(model, entries[:2], out, PredictSettings(mpp=0.2))
    assert read_tiles(out / "tiles" / "slide 1.h5").slide_mpp == pytest.approx(0.25)
    assert read_tiles(out / "tiles" / "mute.h5").slide_mpp == pytest.approx(0.2)
    assert [row.status for row in read_predictions(out / "predictions.csv")] == ["ok", "ok"]


def test_a_coarse_slide_is_refused_unless_told(model: CountingModel, tmp_path: Path) -> None:
    coarse = SlideEntry("coarse", write_tiff(tmp_path / "coarse.tiff", seed=5, px_per_cm=10_000))
    summary = predict_many(model, [coarse], tmp_path / "out")
    assert "coarser than the slides this model was trained on" in summary.failures["coarse"]
    told = predict_many(model, [coarse], tmp_path / "told", PredictSettings(any_resolution=True))
    assert told.failures == {}


def test_an_inadequate_slide_is_said_to_be_so(bundle: Bundle, entries: tuple[SlideEntry, ...], tmp_path: Path) -> None:
    strict = replace(bundle, confident=1.5)  # no tile is ever confident
    predict_many(Model(strict), entries[:1], tmp_path / "out")
    row = cells(tmp_path / "out")[0]
    assert (row["status"], row["adequate"], row["informative_tiles"]) == ("inadequate", "0", "0")
    assert [row[name] for name in ("probability", "predicted_malignant", "predicted_bethesda")] == ["", "", ""]
    assert "no diagnosis: too few groups" in (tmp_path / "out" / "index.html").read_text(encoding="utf-8")


def test_progress_counts_slides_and_names_the_one_at_hand(
    model: CountingModel, entries: tuple[SlideEntry, ...], tmp_path: Path
) -> None:
    events: list[object] = []

    class Watching:
        def __call__(self, n: float, /) -> None:
            events.append(n)

        def note(self, text: str) -> None:
            events.append(text)

    @contextmanager
    def stages(what: str, total: float, unit: str) -> Iterator[Bar]:
        events.append((what, total, unit))
        yield Watching()

    predict_many(model, entries[:1], tmp_path / "out")
    predict_many(model, [entries[0], entries[4]], tmp_path / "out", stages=stages)
    assert events[:3] == [("predicting", 2, "slides"), 1, "slide 3"]
    parts = [part for part in events[3:] if isinstance(part, float)]
    assert len(parts) == len(events[3:]) >= 2 and sum(parts) == pytest.approx(1)


def test_names_that_cannot_be_files_and_names_given_twice_are_refused_before_any_work(
    model: CountingModel, entries: tuple[SlideEntry, ...], tmp_path: Path
) -> None:
    first = entries[0]
    for wrong, message in (
        ([], "no slide"),
        ([first, replace(first, slide_id="Slide 1")], "several slides are called Slide 1, slide 1"),
        ([replace(first, slide_id="a/b")], "is no file name"),
    ):
        with pytest.raises(ConfigError, match=message):
            predict_many(model, wrong, tmp_path / "out")
    assert not (tmp_path / "out").exists() and model.asked == []


def test_paths_become_entries(tmp_path: Path) -> None:
    a, b = write_tiff(tmp_path / "a" / "x.tiff", 1), write_tiff(tmp_path / "b" / "y.tiff", 2)
    Cohort.write(tmp_path / "cohort.csv", [SlideEntry("named", b, malignant=True, mpp=0.5)])
    found = entries_at([a, tmp_path / "cohort.csv", tmp_path / "gone.svs"])
    assert [entry.slide_id for entry in found] == ["named", "x", "gone"]
    assert (found[0].malignant, found[0].mpp) == (True, 0.5)
    assert found[1].path == a
    (tmp_path / "a" / "x.svs").write_bytes(b"")
    assert [entry.slide_id for entry in entries_at([a, tmp_path / "a" / "x.svs"])] == ["x.tiff", "x.svs"]
    (tmp_path / "cohort.csv").write_text("slide_id,path\n,\n")
    with pytest.raises(CohortError):
        entries_at([tmp_path / "cohort.csv"])


def test_a_folder_that_is_no_model_is_an_error_at_once(tmp_path: Path) -> None:
    with pytest.raises(AspirateError, match="not a model bundle"):
        load_model(tmp_path)


def test_the_record_names_the_model(model: CountingModel, entries: tuple[SlideEntry, ...], tmp_path: Path) -> None:
    predict_many(model, entries[:1], tmp_path / "out")
    record = json.loads((tmp_path / "out" / "predictions.json").read_text())
    assert record["settings"]["model_sha256"] == model.bundle.sha256()
    assert list(record["slides"]) == ["slide 1"]
