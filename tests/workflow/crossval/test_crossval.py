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
from tests.workflow.crossval.small import COHORT, FOLDS, recipe, splits_of
from tests.workflow.interrupting import Interrupting

from aspirate.core.geometry import Box
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
from aspirate.slides.reader import open_slide
from aspirate.stages.calibration import fit_cuts
from aspirate.stages.malignancy import MalignancyModel
from aspirate.stages.settings import MalignancySettings
from aspirate.synth.cohort import make_cohort
from aspirate.workflow.crossval import CrossvalSummary, Plan, crossval, units_of
from aspirate.workflow.first_stage import Slides
from aspirate.workflow.fold import FoldPlan, ScreenJob
from aspirate.workflow.launch import Needs
from aspirate.workflow.learning_curve import learning_curve
from aspirate.workflow.methods import METHODS, Method, choose_methods
from aspirate.workflow.splits_file import write_splits

pytestmark = pytest.mark.xdist_group("crossval")  # its fixtures are dear: one worker makes them, once


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
            np.array([mean_by_weight(way.evidence(t.numpy()), p(i)) for i, t in zip(validation, tiles, strict=True)]),
            malignant,
        )
        for way in tried
    ]
    best = tried[int(np.argmin(np.round(losses, 6)))]
    own = [r for r in read_predictions(unit / "predictions.csv") if r.method == "Mixture (U,Y,S)"]
    assert [row.slide_id for row in own] == splits_of(whole.run)[1]["test"]
    for row in own:
        by_hand = mean_by_weight(best.evidence(h(row.slide_id).numpy()), p(row.slide_id))
        assert row.score == pytest.approx(by_hand, rel=1e-3, abs=1e-4)


def test_a_slides_score_is_the_mean_of_its_tile_scores_kept_beside_it(whole: CrossvalSummary) -> None:
    for row in read_predictions(whole.predictions):
        if row.method == "Proposed (U,Y,S)":
            values = read_tiles(whole.run / f"fold-{row.fold}" / "tiles" / f"{row.slide_id}.h5").values
            kept = values["selected"]
            by_hand = mean_by_weight(values["malignancy"][kept], values["informativeness"][kept])
            assert row.score == pytest.approx(by_hand, rel=1e-4, abs=1e-5)
            assert np.isnan(values["malignancy"][~values["selected"]]).all()


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
