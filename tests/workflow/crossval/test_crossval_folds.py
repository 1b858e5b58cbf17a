"""Which folds and rows there are: chosen, given, skipped, refused."""

import csv
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from tests.workflow.crossval.small import FOLDS, recipe, splits_of
from tests.workflow.interrupting import Interrupting

from aspirate.core.errors import ConfigError, TableError
from aspirate.core.lock import FolderInUse, locked
from aspirate.core.predictions import read_predictions
from aspirate.slides.cohort import Cohort
from aspirate.slides.doctor import examine
from aspirate.workflow.crossval import CrossvalSummary, Plan, crossval
from aspirate.workflow.methods import METHODS, choose_methods, divide

pytestmark = pytest.mark.xdist_group("crossval")  # its fixtures are dear: one worker makes them, once


def clam_folder(run: Path, folder: Path) -> Path:
    folder.mkdir()
    for k, split in enumerate(splits_of(run)):
        columns = [split["train"], split["validation"], split["test"]]
        with (folder / f"splits_{k}.csv").open("w", newline="") as file:
            table = csv.writer(file)
            table.writerow(["", "train", "val", "test"])
            for i in range(max(map(len, columns))):
                table.writerow([i, *(column[i] if i < len(column) else "" for column in columns)])
    return folder


def test_folds_may_be_given_as_clam_writes_them(whole: CrossvalSummary, cohort: Path, tmp_path: Path) -> None:
    given = clam_folder(whole.run, tmp_path / "splits")
    crossval(cohort, recipe(), tmp_path / "run", Plan(choose_methods(["noisyor"]), splits=given, only=(2,)))
    assert splits_of(tmp_path / "run") == splits_of(whole.run)
    name = "NoisyOr (U,Y,S)"
    expected = [row for row in read_predictions(whole.predictions) if (row.method, row.fold) == (name, "2")]
    assert list(read_predictions(tmp_path / "run" / "predictions.csv")) == expected


def test_folds_of_the_cohorts_own_column(cohort: Path, tmp_path: Path) -> None:
    shutil.copytree(cohort, tmp_path / "c")
    entries = Cohort.read(tmp_path / "c").entries
    patients = sorted({e.patient for e in entries}, key=lambda p: sorted(e.slide_id for e in entries if e.patient == p))
    Cohort.write(tmp_path / "c" / "cohort.csv", [replace(e, fold=patients.index(e.patient) % 3 + 1) for e in entries])
    quick = recipe(malignancy__epochs=1, malignancy__tiles_per_slide=1)
    crossval(tmp_path / "c", quick, tmp_path / "run", Plan(choose_methods(["cnn"]), only=(0,)))
    for k, split in enumerate(splits_of(tmp_path / "run")):
        assert split["test"] == [e.slide_id for e in entries if patients.index(e.patient) % 3 == k]
    again = Interrupting()
    crossval(tmp_path / "c", quick, tmp_path / "run", Plan(choose_methods(["cnn"]), only=(0,)), again)
    assert again.begun == ["checking"], "the same command goes on, and finds all done"


def test_folds_that_leak_or_name_strangers_are_refused(whole: CrossvalSummary, cohort: Path, tmp_path: Path) -> None:
    folds = splits_of(whole.run)
    slide = folds[0]["test"][0]
    folds[0]["train"].append(slide)
    folds[1]["test"] += ["stranger", slide]
    (tmp_path / "splits.json").write_text(json.dumps({"folds": folds}))
    with pytest.raises(TableError) as refused:
        crossval(cohort, recipe(), tmp_path / "run", Plan(splits=tmp_path / "splits.json"))
    said = str(refused.value)
    assert f"fold 0: patient of {slide} is in train and in test" in said
    assert "fold 1: slide stranger is not in the cohort" in said
    assert f"slide {slide} is tested in 2 folds" in said
    assert not (tmp_path / "run").exists()


def test_folds_without_slides_are_refused(cohort: Path, tmp_path: Path) -> None:
    ids = [entry.slide_id for entry in Cohort.read(cohort).entries]
    given = tmp_path / "splits.json"

    def refused(folds: list[dict[str, list[str]]]) -> list[str]:
        given.write_text(json.dumps({"folds": folds}))
        with pytest.raises(TableError) as error:
            crossval(cohort, recipe(), tmp_path / "run", Plan(splits=given))
        return error.value.problems

    assert refused([])[0].startswith("has no fold; expected")
    whole: dict[str, list[str]] = {"train": ids[:9], "validation": [], "test": []}
    assert [problem for problem in refused([whole]) if "has no" in problem] == [
        "fold 0 has no slide to validate on; add some",
        "fold 0 has no slide to test on; add some",
    ]
    assert "fold 1 has no slide to train on; add some" in refused([whole, {"train": [], "validation": [], "test": []}])
    assert not (tmp_path / "run").exists()


def test_clams_folds_must_be_utf_8_text(cohort: Path, tmp_path: Path) -> None:
    path = tmp_path / "splits_0.csv"
    path.write_bytes(",train,val,test\n0,schl\u00e4fer,b,c\n".encode("latin-1"))
    with pytest.raises(TableError) as refused:
        crossval(cohort, recipe(), tmp_path / "run", Plan(splits=path))
    assert str(path) in str(refused.value)
    assert refused.value.problems == ["row 2, byte 7 of the row: 0xe4 is not UTF-8 text; save the table as “CSV UTF-8”"]


def test_other_folds_in_the_same_folder_are_refused(whole: CrossvalSummary, cohort: Path) -> None:
    with pytest.raises(ConfigError, match="holds a run of 3 folds"):
        crossval(cohort, recipe(), whole.run, Plan(folds=4))
    with pytest.raises(ConfigError, match="other settings"):
        crossval(cohort, recipe(malignancy__epochs=3), whole.run, Plan(folds=FOLDS))


def test_a_second_start_is_refused_at_once_unless_they_share_the_folds(whole: CrossvalSummary, cohort: Path) -> None:
    run, one = whole.run, Plan(folds=FOLDS, only=(1,))
    begun = Interrupting()
    with locked(run), pytest.raises(FolderInUse, match="whole: in use by process"):
        crossval(cohort, recipe(), run, Plan(folds=FOLDS), begun)
    with locked(run, shared=True), pytest.raises(FolderInUse, match="whole: in use by process"):
        crossval(cohort, recipe(), run, Plan(folds=FOLDS), begun)
    assert begun.begun == []
    with locked(run, shared=True):
        assert not crossval(cohort, recipe(), run, one).failed
        with locked(run / "fold-1"), pytest.raises(FolderInUse, match="fold-1: in use by process"):
            crossval(cohort, recipe(), run, one)
    assert not list(run.rglob("*.lock"))


def test_a_run_keeps_to_its_number_of_threads(whole: CrossvalSummary, cohort: Path) -> None:
    assert json.loads((whole.run / "provenance.json").read_text())["threads"] == 1
    with pytest.raises(ConfigError, match="holds a run of 1 threads a unit; use --threads 1, or choose another folder"):
        crossval(cohort, recipe(), whole.run, Plan(folds=FOLDS, threads=2))


@pytest.mark.parametrize(
    ("without", "rows", "skipped"),
    [("annotations", {"YS"}, 15), ("bethesda", {"UY", "UV", "UYV"}, 18)],
)
def test_rows_whose_labels_are_missing_are_skipped_with_the_reason(
    cohort: Path, tmp_path: Path, without: str, rows: set[str], skipped: int
) -> None:
    shutil.copytree(cohort, tmp_path / "c")
    if without == "annotations":
        shutil.rmtree(tmp_path / "c" / "annotations")
    else:
        entries = Cohort.read(tmp_path / "c").entries
        Cohort.write(tmp_path / "c" / "cohort.csv", [replace(e, bethesda=None) for e in entries])
    able, why_not = divide(METHODS, examine(tmp_path / "c"))
    assert {method.labels for method in able} == rows
    told = {
        "annotations": "U: no usable slide has annotations",
        "bethesda": "S: no usable slide has a TBS category of 2 to 6",
    }[without]
    assert len(why_not) == skipped and all(told in why for why in why_not.values())


def test_where_no_row_is_left_the_reasons_are_said_once_each(cohort: Path, tmp_path: Path) -> None:
    shutil.copytree(cohort, tmp_path / "c")
    shutil.rmtree(tmp_path / "c" / "annotations")
    entries = Cohort.read(tmp_path / "c").entries
    Cohort.write(tmp_path / "c" / "cohort.csv", [replace(e, bethesda=None) for e in entries])
    with pytest.raises(ConfigError) as refused:
        divide(choose_methods(labels=["YS,UY,UYS"]), examine(tmp_path / "c"))
    u, s = "U: no usable slide has annotations", "S: no usable slide has a TBS category of 2 to 6"
    assert str(refused.value).splitlines()[0].endswith(": none of the chosen methods can be trained")
    assert str(refused.value).splitlines()[1:] == [
        f"  - CNN (Y,S), NoisyAND (Y,S), AttentionMIL (Y,S) and 3 more: {s}",
        f"  - NoisyOr (U,Y,S), TextbookNoisyOr (U,Y,S), NoisyAND (U,Y,S) and 6 more: {u}; {s}",
        f"  - Proposed (U,Y): {u}",
    ]


def test_rows_with_U_are_skipped_where_annotations_do_not_go_round(cohort: Path, tmp_path: Path) -> None:
    """Three annotated patients for five folds; a second start, also with other rows, finds the same."""
    shutil.copytree(cohort, tmp_path / "c")
    entries = Cohort.read(tmp_path / "c").entries
    annotated = sorted({entry.patient for entry in entries})[:3]
    for entry in entries:
        if entry.patient not in annotated:
            (tmp_path / "c" / "annotations" / f"{entry.slide_id}.geojson").unlink()
    quick = recipe(malignancy__epochs=1, malignancy__tiles_per_slide=1)
    with pytest.raises(
        ConfigError, match=r"18 slides cannot be divided into 5 folds: fold \d has no annotated slide to"
    ):
        crossval(tmp_path / "c", quick, tmp_path / "run", Plan(choose_methods(["proposed-uys"])))
    why = "U: 3 patients with annotations are too few for 5 folds; use fewer folds, or annotate more patients"
    for _ in range(2):
        found = crossval(tmp_path / "c", quick, tmp_path / "run", Plan(choose_methods(["cnn,mixture-uys"]), only=(0,)))
        assert [method.name for method in found.methods] == ["CNN (Y,S)"] and not found.failed
        assert found.skipped == {"Mixture (U,Y,S)": why}
        assert json.loads((found.run / "crossval.json").read_text())["skipped"] == found.skipped
        assert {row.method for row in read_predictions(found.predictions)} == {"CNN (Y,S)"}
    with pytest.raises(ConfigError) as refused:
        crossval(tmp_path / "c", quick, tmp_path / "run", Plan(choose_methods(["mixture-uys"]), only=(0,)))
    assert str(refused.value).endswith(f"none of the chosen methods can be trained\n  - Mixture (U,Y,S): {why}")


def test_without_malignancy_or_with_too_few_patients_there_is_nothing_to_compare(cohort: Path, tmp_path: Path) -> None:
    shutil.copytree(cohort, tmp_path / "c")
    entries = Cohort.read(tmp_path / "c").entries
    with pytest.raises(ConfigError, match="patients cannot be dealt into 40 folds; use fewer folds, or add"):
        crossval(tmp_path / "c", recipe(), tmp_path / "run", Plan(folds=40))
    with pytest.raises(ConfigError, match="2 folds: give at least 3"):
        crossval(tmp_path / "c", recipe(), tmp_path / "run", Plan(folds=2))
    Cohort.write(tmp_path / "c" / "cohort.csv", [replace(e, malignant=None) for e in entries])
    with pytest.raises(ConfigError, match="telling malignant from benign"):
        crossval(tmp_path / "c", recipe(), tmp_path / "run", Plan(folds=FOLDS))
    assert not (tmp_path / "run").exists()


def test_one_unreadable_slide_is_a_failed_row_of_every_method(
    whole: CrossvalSummary, cohort: Path, tmp_path: Path
) -> None:
    shutil.copytree(cohort, tmp_path / "c")
    bad = Cohort.read(tmp_path / "c").entries[4]
    tested = next(k for k, split in enumerate(splits_of(whole.run)) if bad.slide_id in split["test"])
    bad.path.write_bytes(b"this is no slide")
    rows = choose_methods(["cnn", "proposed-uy"])
    plan = Plan(rows, splits=whole.run / "splits.json", only=(tested,))
    summary = crossval(tmp_path / "c", recipe(), tmp_path / "run", plan)
    assert list(summary.left_out) == [bad.slide_id]
    found = [row for row in read_predictions(summary.predictions) if row.slide_id == bad.slide_id]
    assert [(row.method, row.status, row.score) for row in found] == [(m.name, "failed", None) for m in rows]
    assert all("not a slide of any known kind" in row.error for row in found)


def test_methods_are_chosen_by_row_family_or_labels() -> None:
    assert len(METHODS) == 21 == len({m.slug for m in METHODS})
    assert [m.name for m in choose_methods(["Proposed (U,Y,S)", "cnn"])] == ["CNN (Y,S)", "Proposed (U,Y,S)"]
    assert [m.labels for m in choose_methods(["proposed"])] == ["YS", "UY", "US", "UV", "UYV", "USV", "UYS", "UYSV"]
    without = {"CNN", "NoisyAND", "AttentionMIL", "GatedAttentionMIL", "Proposed", "Mixture"}
    assert {m.family for m in choose_methods(labels=["ys"])} == without
    assert [m.slug for m in choose_methods(["Proposed (U,Y,S), cnn", "mixture"])] == [
        "cnn-ys",
        "mixture-ys",
        "proposed-uys",
        "mixture-uys",
    ]
    assert choose_methods(labels=["UY,us"]) == choose_methods(labels=["UY", "US"]) == choose_methods(["proposed"])[1:3]
    with pytest.raises(ConfigError, match="--methods clam: no such method"):
        choose_methods(["clam"])
    with pytest.raises(ConfigError, match="--labels UY: none of the chosen methods"):
        choose_methods(["cnn"], ["UY"])
