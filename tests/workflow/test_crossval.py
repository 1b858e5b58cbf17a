"""Every method on every fold, on a small cohort: the same folds for all, nothing of a test slide is learned from."""

import csv
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tifffile
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize
from sklearn.metrics import roc_auc_score
from tests.workflow.by_weight import mean_by_weight
from tests.workflow.interrupting import Interrupting

from aspirate.core.errors import ConfigError, TableError
from aspirate.core.geometry import Box
from aspirate.core.lock import FolderInUse, locked
from aspirate.core.predictions import read_predictions
from aspirate.core.ranking import auc
from aspirate.core.tile_file import read_tiles
from aspirate.engines.torch_engine import TorchEngine
from aspirate.evaluation.splits import Split, choose_folds
from aspirate.learning.checkpoints import load_tensors
from aspirate.learning.tile_bank import TileBank
from aspirate.nn.mixture import candidates
from aspirate.slides.annotations import AnnotationIndex
from aspirate.slides.cohort import Cohort
from aspirate.slides.doctor import examine
from aspirate.slides.reader import open_slide
from aspirate.stages.calibration import fit_cuts
from aspirate.stages.malignancy import MalignancyModel, MalignancySettings
from aspirate.synth.cohort import make_cohort
from aspirate.synth.settings import SynthSettings
from aspirate.workflow.crossval import CrossvalSummary, Plan, crossval, units_of
from aspirate.workflow.first_stage import Slides
from aspirate.workflow.fold import FoldPlan, ScreenJob
from aspirate.workflow.launch import Needs
from aspirate.workflow.learning_curve import learning_curve
from aspirate.workflow.methods import METHODS, Method, choose_methods, divide
from aspirate.workflow.recipe import Recipe, load_recipe
from aspirate.workflow.splits_file import write_splits

COHORT = SynthSettings(slides=18, size=(384, 384), mpp=1.0, annotated=1.0, seed=3, sites=1, malignant=0.5, readers=2)
SMALL = {
    "side_px": 32,
    "mpp": 1.0,
    "informativeness.batch": 16,
    "informativeness.least_steps": 12,
    "informativeness.epochs": 1,
    "informativeness.drawn_per_slide": 32,
    "informativeness.shift_px": 4,
    "malignancy.batch": 16,
    "malignancy.epochs": 2,
    "malignancy.tiles_per_slide": 8,
    "selection.tiles": 16,
    "adequacy.groups": 1,
    "bags.bags": 2,
    "bags.tiles": 8,
    "crops.side_px": 96,
    "crops.crops": 4,
    "crops.judged": 4,
    "crops.drawn": 24,
}
FOLDS = 3
pytestmark = pytest.mark.xdist_group("crossval")  # its fixtures are dear: one worker makes them, once


def recipe(**changes: object) -> Recipe:
    return load_recipe("compact", SMALL | {name.replace("__", "."): value for name, value in changes.items()})


@pytest.fixture(scope="session")
def cohort(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cohort")
    make_cohort(COHORT, folder)
    return folder


@pytest.fixture(scope="session")
def whole(cohort: Path, tmp_path_factory: pytest.TempPathFactory) -> CrossvalSummary:
    """All rows, nothing interrupted."""
    return crossval(cohort, recipe(), tmp_path_factory.mktemp("runs") / "whole", Plan(folds=FOLDS))


def splits_of(run: Path) -> list[dict[str, list[str]]]:
    found: list[dict[str, list[str]]] = json.loads((run / "splits.json").read_text())["folds"]
    return found


def test_every_slide_is_tested_once_by_every_method(whole: CrossvalSummary, cohort: Path) -> None:
    entries = {e.slide_id: e for e in Cohort.read(cohort).entries}
    rows = read_predictions(whole.predictions)
    assert not whole.failed and not whole.skipped and not whole.left_out
    assert {row.method for row in rows} == {method.name for method in METHODS}
    for method in METHODS:
        own = [row for row in rows if row.method == method.name]
        assert sorted(row.slide_id for row in own) == sorted(entries)
        for row in own:
            assert row.slide_id in splits_of(whole.run)[int(row.fold)]["test"]
            assert row.malignant == entries[row.slide_id].malignant
            assert row.score is not None and np.isfinite(row.score)
            assert (row.adequate is None) == ("U" not in method.labels)
            has_category = "S" in method.labels and row.status == "ok"
            assert (row.predicted_bethesda is not None) == has_category, method.name


def test_folds_are_60_20_20_of_five_and_keep_patients_together(cohort: Path, tmp_path: Path) -> None:
    entries = {e.slide_id: e for e in Cohort.read(cohort).entries}
    only = choose_methods(["cnn"])
    quick = recipe(malignancy__epochs=1, malignancy__tiles_per_slide=1)
    crossval(cohort, quick, tmp_path / "r", Plan(only, only=(0,)))
    for split in splits_of(tmp_path / "r"):
        assert sorted(slide for part in split.values() for slide in part) == sorted(entries)
        sides = [{entries[i].patient for i in part} for part in split.values()]
        assert not (sides[0] & sides[1] or sides[0] & sides[2] or sides[1] & sides[2])
        assert [len(part) for part in split.values()] == pytest.approx([0.6 * 18, 0.2 * 18, 0.2 * 18], abs=2)


def test_what_evaluation_needs_lies_beside_the_predictions(whole: CrossvalSummary, cohort: Path) -> None:
    run = whole.run
    models = json.loads((run / "models.json").read_text())
    assert set(models) == {f"{k}/{method.name}" for k in range(FOLDS) for method in METHODS}
    cuts = models["1/Proposed (U,Y,S)"]["cuts"]["S"]
    assert len(cuts) == 4 and cuts == sorted(cuts)
    assert models["1/Proposed2Heads (U,Y,S)"]["cuts"] == {} == models["1/CNN (Y,S)"]["cuts"]
    validation = read_predictions(run / "validation.csv")
    for row in [*validation, *read_predictions(run / "predictions.csv")]:
        cuts = models[f"{row.fold}/{row.method}"]["slide_cuts"]
        assert len(cuts) == (4 if "S" in row.method.partition("(")[2] else 0)
        if row.predicted_bethesda is not None and np.abs(np.array(cuts) - row.score).min() > 1e-5:
            assert row.predicted_bethesda == 2 + sum(row.score > cut for cut in cuts)
    own = [r for r in validation if r.fold == "1" and r.method == "CNN (Y,S)"]
    refitted = fit_cuts(*zip(*((r.score, r.bethesda) for r in own if r.score and r.bethesda), strict=True))
    np.testing.assert_allclose(models["1/CNN (Y,S)"]["slide_cuts"], refitted, atol=1e-3)
    assert {row.slide_id for row in validation if row.fold == "2"} == set(splits_of(run)[2]["validation"])
    stage_1 = json.loads((run / "stage1.json").read_text())
    assert set(stage_1) == {"0", "1", "2"} and all(0.5 < row["test_auc"] <= 1 for row in stage_1.values())
    assert json.loads((run / "crossval.json").read_text())["cohort"] == str(cohort.resolve())


def platt_loss(scores: NDArray[np.float64], malignant: NDArray[np.bool_]) -> float:
    """Log loss of the best logistic curve, infinite where it falls."""
    n = int(malignant.sum())
    target = np.where(malignant, (n + 1) / (n + 2), 1 / (len(malignant) - n + 2))

    def loss(w: NDArray[np.float64]) -> float:
        logit = w[0] * scores + w[1]
        return float(np.mean(np.logaddexp(0, logit) - target * logit))

    found = minimize(loss, [1.0, 0.0], method="Nelder-Mead", options={"xatol": 1e-8, "fatol": 1e-12, "maxiter": 4000})
    return float(found.fun) if found.x[0] > 0 else float("inf")


def test_the_mixture_scores_a_slide_by_the_pooling_it_refitted(whole: CrossvalSummary, cohort: Path) -> None:
    """From the weights alone: tiles of the bank through the saved net, and the best of all candidates by hand."""
    unit = whole.run / "fold-1" / "mixture-uys"
    tensors, _ = load_tensors(unit / "model.safetensors")
    module = MalignancyModel(MalignancySettings(link="mixture"), 32)
    module.load_state_dict(tensors)
    bank = TileBank(whole.run / "fold-1" / "cache", beneath=TileBank(whole.run / "cache"))
    entries = {e.slide_id: e for e in Cohort.read(cohort).entries}

    def h(slide_id: str) -> torch.Tensor:
        return torch.from_numpy(TorchEngine(module.net).score(bank.stack(f"{slide_id}.kept"))).double()

    def p(slide_id: str) -> NDArray[np.float32]:
        values = read_tiles(whole.run / "fold-1" / "tiles" / f"{slide_id}.h5").values
        return np.asarray(values["informativeness"][values["selected"]])

    validation = splits_of(whole.run)[1]["validation"]
    malignant = np.array([bool(entries[i].malignant) for i in validation])
    tiles = [h(i) for i in validation]
    benign = torch.cat([t for t, kind in zip(tiles, malignant, strict=True) if not kind])
    tried = candidates(benign, torch.ones(len(benign), dtype=torch.bool))
    losses = [
        platt_loss(
            np.array([mean_by_weight(way.evidence(t).numpy(), p(i)) for i, t in zip(validation, tiles, strict=True)]),
            malignant,
        )
        for way in tried
    ]
    best = tried[int(np.argmin(np.round(losses, 6)))]
    own = [r for r in read_predictions(unit / "predictions.csv") if r.method == "Mixture (U,Y,S)"]
    assert [row.slide_id for row in own] == splits_of(whole.run)[1]["test"]
    for row in own:
        by_hand = mean_by_weight(best.evidence(h(row.slide_id)).numpy(), p(row.slide_id))
        assert row.score == pytest.approx(by_hand, rel=1e-3, abs=1e-4)


def test_a_slides_score_is_the_mean_of_its_tile_scores_kept_beside_it(whole: CrossvalSummary) -> None:
    for row in read_predictions(whole.predictions):
        if row.method == "Proposed (U,Y,S)":
            values = read_tiles(whole.run / f"fold-{row.fold}" / "tiles" / f"{row.slide_id}.h5").values
            kept = values["selected"]
            by_hand = mean_by_weight(values["malignancy"][kept], values["informativeness"][kept])
            assert row.score == pytest.approx(by_hand, rel=1e-4, abs=1e-5)
            assert np.isnan(values["malignancy"][~values["selected"]]).all()


def results(run: Path) -> dict[str, bytes]:
    names = ("predictions.csv", "validation.csv", "models.json", "stage1.json", "splits.json")
    return {name: (run / name).read_bytes() for name in names}


def units(run: Path, rows: tuple[Method, ...]) -> dict[str, bytes]:
    """All that some methods left on every fold."""
    names = ("predictions.csv", "validation.csv", "unit.json", "history.json", "model.safetensors")
    places = [f"fold-{k}/{method.slug}/{name}" for k in range(FOLDS) for method in rows for name in names]
    return {place: (run / place).read_bytes() for place in [*places, "stage1.json", "splits.json"]}


def test_interrupted_anywhere_it_ends_the_same_and_does_nothing_twice(
    whole: CrossvalSummary, cohort: Path, tmp_path: Path
) -> None:
    rows = choose_methods(["noisyand", "proposed-uys"])
    stops = (("fold 0 · NoisyAND (U,Y,S)", 3), ("fold 1 · screening", 2), ("fold 1 · Proposed (U,Y,S) · test", 2))
    for what, at in stops:
        with pytest.raises(KeyboardInterrupt):
            crossval(cohort, recipe(), tmp_path / "run", Plan(rows, FOLDS), Interrupting(what, at))
    seen = Interrupting()
    crossval(cohort, recipe(), tmp_path / "run", Plan(rows, FOLDS), seen)
    assert units(tmp_path / "run", rows) == units(whole.run, rows)
    own = [row for row in read_predictions(whole.predictions) if row.method in {method.name for method in rows}]
    assert list(read_predictions(tmp_path / "run" / "predictions.csv")) == own
    assert not any(what.startswith("fold 0") for what in seen.begun)
    again = Interrupting()
    crossval(cohort, recipe(), tmp_path / "run", Plan(rows, FOLDS), again)
    assert again.begun == ["checking"]


def test_more_methods_may_be_added_later(whole: CrossvalSummary, cohort: Path, tmp_path: Path) -> None:
    crossval(cohort, recipe(), tmp_path / "run", Plan(choose_methods(["proposed-uys"]), FOLDS, only=(1,)))
    crossval(cohort, recipe(), tmp_path / "run", Plan(choose_methods(["averagepooling"]), FOLDS, only=(1,)))
    both = {"Proposed (U,Y,S)", "AveragePooling (U,Y,S)"}
    expected = [row for row in read_predictions(whole.predictions) if row.method in both and row.fold == "1"]
    assert list(read_predictions(tmp_path / "run" / "predictions.csv")) == expected


def changed(cohort: Path, folder: Path, slides: set[str], flip: Callable[[bool | None], bool | None]) -> None:
    """A copy of the cohort in which some slides have the pixels of another, and other labels."""
    shutil.copytree(cohort, folder)
    entries = Cohort.read(folder).entries
    donor = next(entry for entry in entries if entry.slide_id not in slides)
    for entry in entries:
        if entry.slide_id in slides:
            shutil.copyfile(donor.path, entry.path)
    Cohort.write(
        folder / "cohort.csv",
        [replace(e, malignant=flip(e.malignant), bethesda=2) if e.slide_id in slides else e for e in entries],
    )


def test_nothing_of_a_test_slide_reaches_what_is_learned_or_chosen(
    whole: CrossvalSummary, cohort: Path, tmp_path: Path
) -> None:
    """With other pixels and other labels for fold 0's test slides, its models, cuts and thresholds are bit for bit
    the same."""
    tested = set(splits_of(whole.run)[0]["test"])
    changed(cohort, tmp_path / "c", tested, lambda malignant: not malignant)
    rows = choose_methods(["cnn", "attentionmil-uys", "proposed-uysv"])
    crossval(tmp_path / "c", recipe(), tmp_path / "run", Plan(rows, splits=whole.run / "splits.json", only=(0,)))
    for method in rows:
        for name in ("model.safetensors", "unit.json", "history.json", "validation.csv"):
            old, new = (run / "fold-0" / method.slug / name for run in (whole.run, tmp_path / "run"))
            assert old.read_bytes() == new.read_bytes(), f"{method.name}: {name}"
    before, after = ((run / "fold-0" / "proposed-uysv" / "predictions.csv") for run in (whole.run, tmp_path / "run"))
    assert before.read_bytes() != after.read_bytes()


def marked_cohort(folder: Path) -> Path:
    """Each of eight patients has one corner of the colour cube on its three slides, and is malignant where that has an
    odd number of coordinates: learned by heart it tells all, while an unseen corner looks like its neighbours, which
    are of the other kind."""
    make_cohort(COHORT.model_copy(update={"slides": 24, "readers": 0, "seed": 9}), folder)
    labelled = []
    for number, entry in enumerate(Cohort.read(folder).entries):
        corner = np.array([number % 8 >> bit & 1 for bit in range(3)])
        malignant = bool(corner.sum() % 2)
        with open_slide(entry.path) as slide:
            pixels = slide.read_region(Box(0, 0, 384, 384)).copy()
        pixels[::2] = 255 * corner
        tifffile.imwrite(entry.path, pixels, tile=(128, 128), photometric="rgb")
        changes = {
            "patient_id": f"p{number % 8}",
            "malignant": malignant,
            "bethesda": 6 if malignant else 2,
            "mpp": 1.0,
        }
        labelled.append(replace(entry, **changes))  # type: ignore[arg-type]
    Cohort.write(folder / "cohort.csv", labelled)
    return folder


def test_a_mark_that_tells_patients_apart_does_not_transfer(tmp_path: Path) -> None:
    """Memory is worth much where other slides of a patient were trained on, and nothing where they never are."""
    cohort = marked_cohort(tmp_path / "c")
    plain = {"strength": 0, "hue": 0, "light": 0, "focus": 0}
    strong = recipe(malignancy__learning_rate=0.003, malignancy__tiles_per_slide=100, malignancy__augment=plain)
    found = {}
    for patients in ("together", "torn"):
        entries = Cohort.read(cohort).entries
        if patients == "torn":
            entries = tuple(replace(entry, patient_id=None) for entry in entries)
            Cohort.write(cohort / "cohort.csv", entries)
        folds = choose_folds(entries, 4, 0, frozenset(e.slide_id for e in entries), "UY")
        write_splits(tmp_path / "two.json", folds[:2])
        row = choose_methods(["proposed-uy"])
        found[patients] = mean_auc(
            crossval(cohort, strong, tmp_path / patients, Plan(row, splits=tmp_path / "two.json"))
        )
    assert found["together"] < 0.5 < 0.65 < found["torn"], "the mark can be learned, and tells when folds leak"


def mean_auc(summary: CrossvalSummary) -> float:
    rows = read_predictions(summary.predictions)
    folds = [[row for row in rows if row.fold == str(k)] for k in range(summary.folds)]
    return float(np.mean([auc([r.score or 0 for r in part], [bool(r.malignant) for r in part]) for part in folds]))


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


def test_a_learning_curve_uses_parts_of_the_annotations_on_the_same_folds(
    whole: CrossvalSummary, cohort: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    shutil.copytree(whole.run, run)
    path, failed = learning_curve(cohort, recipe(), run, shares=(1 / 4, 1 / 2))
    with path.open() as file:
        rows = list(csv.DictReader(file))
    assert {float(row["share"]) for row in rows} == {1 / 4, 1 / 2, 1.0} and not failed
    counts = {(row["share"], row["fold"]): int(row["annotations"]) for row in rows}
    index = AnnotationIndex.of(cohort)
    for k, split in enumerate(splits_of(run)):
        assert counts["1", str(k)] == sum(len(index.read(i)) for i in split["train"])
        assert 0 < counts["0.25", str(k)] < counts["0.5", str(k)] < counts["1", str(k)]
    own = [row for row in read_predictions(whole.predictions) if row.method == "Proposed (U,Y,S)" and row.fold == "1"]
    expected = roc_auc_score([row.malignant for row in own], [row.score for row in own])
    found = float(next(r["auc"] for r in rows if r["share"] == "1" and r["fold"] == "1"))
    assert found == pytest.approx(expected, abs=1e-6)  # the file has six digits


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


def test_stage_1_is_a_unit_of_learning_and_units_of_a_few_slides(tmp_path: Path) -> None:
    """Every slide once; methods with U wait for all of it, others for nothing."""
    names = tuple(f"s{n:02}" for n in range(20))
    split = Split(names[:12], names[12:16], names[16:])
    fold = FoldPlan(tmp_path, 1, split, recipe(), Slides({}, AnnotationIndex.of(tmp_path), frozenset()), bf16=False)
    (fold.folder.tiles("s03")).parent.mkdir(parents=True)
    fold.folder.tiles("s03").touch()  # looked at by an earlier start
    made = {unit.name: unit for unit in units_of([fold], choose_methods(["cnn", "proposed-uys"]), Needs())}
    assert list(made) == [
        "fold 1 · stage 1, learning",
        "fold 1 · stage 1, slides from 1 of 19",
        "fold 1 · stage 1, slides from 9 of 19",
        "fold 1 · stage 1, slides from 17 of 19",
        "fold 1 · stage 1",
        "fold 1 · CNN (Y,S)",
        "fold 1 · Proposed (U,Y,S)",
    ]
    screening = [unit.job for unit in made.values() if isinstance(unit.job, ScreenJob)]
    assert [slide_id for job in screening for slide_id in job.slide_ids] == [name for name in names if name != "s03"]
    first, *parts, last, cnn, proposed = made.values()
    assert all(part.after == (first.name,) for part in parts)
    assert set(last.after) == {first.name, *(part.name for part in parts)}
    assert (cnn.after, proposed.after) == ((), (last.name,))
