"""Training, whole, on a small synthetic cohort: repeatable, resumable at any step, and refused before any work."""

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.workflow.by_weight import mean_by_weight
from tests.workflow.interrupting import Interrupting

from aspirate.core.errors import ConfigError, UnreadableSlide
from aspirate.core.tile_file import read_tiles
from aspirate.engines.torch_engine import TorchEngine
from aspirate.learning.checkpoints import load_tensors, tensors_sha256
from aspirate.slides.cohort import Cohort
from aspirate.slides.reader import open_slide
from aspirate.stages.malignancy import MalignancyModel
from aspirate.synth.cohort import make_cohort
from aspirate.synth.settings import SynthSettings
from aspirate.workflow.bundle import load_bundle
from aspirate.workflow.predict import Model
from aspirate.workflow.recipe import Recipe, load_recipe
from aspirate.workflow.run_folder import RunFolder
from aspirate.workflow.screen import score_tiles
from aspirate.workflow.train import TrainSummary, spread, train

COHORT = SynthSettings(slides=12, size=(384, 384), mpp=1.0, annotated=0.8, seed=3, sites=1, malignant=0.4, readers=0)
"""A few tenths of a millimetre square each, at a quarter of the usual resolution: 144 tiles of 32 px."""

SMALL = {
    "precision": "fp32",  # two runs that are compared may not decide by their own trials
    "side_px": 32,
    "mpp": 1.0,
    "parts": 3,
    "informativeness.batch": 16,
    "informativeness.least_steps": 12,
    "informativeness.epochs": 2,
    "informativeness.drawn_per_slide": 32,
    "informativeness.shift_px": 4,
    "scout.batch": 12,
    "scout.epochs": 2,
    "scout.steps_per_epoch": 6,
    "scout.best_per_slide": 16,
    "scout.drawn_per_slide": 16,
    "malignancy.batch": 16,
    "malignancy.epochs": 2,
    "malignancy.tiles_per_slide": 8,
    "selection.tiles": 16,
    "adequacy.groups": 2,
}
pytestmark = pytest.mark.xdist_group("train")  # its fixtures are dear: one worker makes them, once
RESULTS = ("predictions.csv", "metrics.json", "splits.json", "model/model.json", "model/README.md")


def recipe(**changes: object) -> Recipe:
    return load_recipe("compact", SMALL | {name.replace("__", "."): value for name, value in changes.items()})


@pytest.fixture(scope="session")
def cohort(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cohort")
    make_cohort(COHORT, folder)
    return folder


@pytest.fixture(scope="session")
def whole(cohort: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, TrainSummary]:
    """A training that nothing interrupted."""
    run = tmp_path_factory.mktemp("runs") / "whole"
    return run, train(cohort, recipe(), run)


def results(run: Path) -> dict[str, bytes]:
    return {name: (run / name).read_bytes() for name in RESULTS}


def rows(run: Path) -> list[dict[str, str]]:
    with (run / "predictions.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_what_a_run_leaves_behind(whole: tuple[Path, TrainSummary], cohort: Path) -> None:
    run, summary = whole
    split = json.loads((run / "splits.json").read_text())
    entries = {e.slide_id: e for e in Cohort.read(cohort).entries}
    assert sorted(split["train"] + split["validation"]) == sorted(entries)
    patients = [{entries[i].patient for i in split[use]} for use in ("train", "validation")]
    assert not patients[0] & patients[1]

    table = rows(run)
    assert [row["slide_id"] for row in table] == split["validation"]
    assert {row["method"] for row in table} == {"Proposed (U,Y,S)"} and {row["fold"] for row in table} == {"validation"}
    for row in table:
        entry = entries[row["slide_id"]]
        assert (row["malignant"], row["bethesda"]) == (str(int(bool(entry.malignant))), str(entry.bethesda))
        tiles = read_tiles(run / "tiles" / f"{row['slide_id']}.h5")
        confident = tiles.values["informativeness"] >= load_bundle(run / "model").confident
        assert int(row["informative_tiles"]) == confident.sum()
        assert 6 <= tiles.values["selected"].sum() <= 16
        assert (
            tiles.values["informativeness"][tiles.values["selected"]].min()
            >= np.sort(tiles.values["informativeness"])[-int(tiles.values["selected"].sum())]
        )
    assert summary.failures == {} and summary.model == run / "model"
    assert summary.scout in (run / "model" / "README.md").read_text(encoding="utf-8") and "scout" in summary.scout
    assert json.loads((run / "metrics.json").read_text()) == summary.figures
    assert Recipe.from_toml(run / "config.toml") == recipe()


def test_stage_1_of_another_run_is_taken_over(
    whole: tuple[Path, TrainSummary], cohort: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, _ = whole
    fixed = recipe(selection__mode="fixed", malignancy__labels="Y")
    with monkeypatch.context() as patch:
        patch.delattr("aspirate.workflow.first_stage.score_tiles")  # nothing is screened again
        train(cohort, fixed, tmp_path / "fixed", stage_1=run)
    mine, theirs = (load_tensors(r / "model" / "informativeness.safetensors")[0] for r in (tmp_path / "fixed", run))
    assert tensors_sha256(mine) == tensors_sha256(theirs)
    assert (tmp_path / "fixed" / "splits.json").read_bytes() == (run / "splits.json").read_bytes()
    for path in (run / "tiles").iterdir():
        before, after = read_tiles(path).values, read_tiles(tmp_path / "fixed" / "tiles" / path.name).values
        np.testing.assert_array_equal(before["informativeness"], after["informativeness"])
        assert after["selected"].sum() == 16, "as many as `fixed` keeps"
    other = recipe(informativeness__batch=8)
    with pytest.raises(ConfigError, match=r"trained with other informativeness than .* asks for"):
        train(cohort, other, tmp_path / "other", stage_1=run)
    with pytest.raises(ConfigError, match="nowhere: is not a run"):
        train(cohort, fixed, tmp_path / "none", stage_1=tmp_path / "nowhere")


def test_the_model_says_of_a_slide_what_the_training_said(whole: tuple[Path, TrainSummary], cohort: Path) -> None:
    run, _ = whole
    model = Model(load_bundle(run / "model"), "torch")
    entries = {e.slide_id: e for e in Cohort.read(cohort).entries}
    for row in rows(run)[:3]:
        found = model.predict(entries[row["slide_id"]], exact=True)
        assert found.score == pytest.approx(float(row["score"]), rel=1e-4, abs=1e-5)
        assert str(found.prediction.informative_tiles) == row["informative_tiles"]
        assert str(int(found.adequate)) == row["adequate"]
        if row["probability"]:
            assert found.probability == pytest.approx(float(row["probability"]), rel=1e-4)


def test_tiles_count_by_their_informativeness_or_alike(
    whole: tuple[Path, TrainSummary], cohort: Path, tmp_path: Path
) -> None:
    train(cohort, recipe(selection__weights="binary"), tmp_path / "alike")
    for run, alike in ((whole[0], False), (tmp_path / "alike", True)):
        model, row = Model(load_bundle(run / "model"), "torch"), rows(run)[0]
        entry = next(e for e in Cohort.read(cohort).entries if e.slide_id == row["slide_id"])
        found = model.predict(entry, exact=True)
        kept = found.tiles.values["selected"]
        p, g = (found.tiles.values[name][kept] for name in ("informativeness", "malignancy"))
        by_hand = float(g.astype(float).mean()) if alike else mean_by_weight(g, p)
        assert found.score == pytest.approx(by_hand, rel=1e-4, abs=1e-5)
        assert float(row["score"]) == pytest.approx(by_hand, rel=1e-4, abs=1e-5)


def test_the_mixture_method_through_training_bundle_and_prediction(
    whole: tuple[Path, TrainSummary], cohort: Path, tmp_path: Path
) -> None:
    """Scores and categories by the equations of docs/ppi.md, from the weights alone."""
    run, _ = whole
    mine = tmp_path / "mixture"
    train(cohort, recipe(malignancy__link="mixture", malignancy__categories="learned"), mine, stage_1=run)
    bundle = load_bundle(mine / "model")
    tensors, _ = load_tensors(mine / "malignancy" / "checkpoint.safetensors")
    assert {row["method"] for row in rows(mine)} == {"Mixture (U,Y,S)"}
    entries = {e.slide_id: e for e in Cohort.read(cohort).entries}
    rho, prior = (float(tensors[f"best.objective.link.{name}"]) for name in ("raw", "prior"))
    share = 1 / (1 + np.exp(-30 * rho))  # HASTE
    assert bundle.link.share == pytest.approx(share, rel=1e-5) and (bundle.link.slope, bundle.link.offset) == (1, 0)
    assert bundle.cuts_of_score == () or bundle.pooling == bundle.link
    model = Model(bundle, "torch")
    for row in rows(mine)[:3]:
        found = model.predict(entries[row["slide_id"]], exact=True)
        kept = found.tiles.values["selected"]
        with open_slide(entries[row["slide_id"]].path, mpp=entries[row["slide_id"]].mpp) as slide:
            squares = slide.read_squares(found.tiles.corners_px0[kept], found.tiles.side_px0, 32)
        h = TorchEngine(bundle.nets["malignancy"]).score(squares).astype(float)
        pooling = bundle.pooling
        evidence = np.log(1 - pooling.share + pooling.share * np.exp(pooling.slope * h + pooling.offset))
        np.testing.assert_allclose(found.tiles.values["malignancy"][kept], evidence, rtol=1e-4, atol=1e-5)
        p = found.tiles.values["informativeness"][kept]
        assert found.score == pytest.approx(mean_by_weight(evidence, p), rel=1e-4, abs=1e-5)
        assert float(row["score"]) == pytest.approx(mean_by_weight(evidence, p), rel=1e-4, abs=1e-5)
        t = mean_by_weight(np.log(1 - share + share * np.exp(h)), p) + prior
        learned = MalignancyModel(recipe(malignancy__link="mixture").malignancy, 32)
        learned.load_state_dict({name.removeprefix("best."): t_ for name, t_ in tensors.items() if name[:5] == "best."})
        category = 2 + int((t > learned.objective.cuts_of("S").detach().numpy()).sum())
        assert found.bethesda in (None, category) and row["predicted_bethesda"] in ("", str(category))
    assert "seen through the mixture link" in (mine / "model" / "README.md").read_text(encoding="utf-8")


def test_the_same_seed_gives_the_same_bytes_and_another_does_not(
    whole: tuple[Path, TrainSummary], cohort: Path, tmp_path: Path
) -> None:
    train(cohort, recipe(), tmp_path / "again")
    assert results(tmp_path / "again") == results(whole[0])
    assert load_bundle(tmp_path / "again" / "model").sha256() == load_bundle(whole[0] / "model").sha256()
    train(cohort, recipe(seed=1), tmp_path / "other")
    assert results(tmp_path / "other")["predictions.csv"] != results(whole[0])["predictions.csv"]


@pytest.mark.parametrize(
    ("what", "at"),
    [
        ("checking", 3),
        ("reading tiles to learn from", 5),
        ("stage 1, informativeness", 1),
        ("stage 1, informativeness", 17),
        ("screening", 9),
        ("reading cells for the scout", 4),
        ("scout", 8),
        ("stage 2, malignancy", 7),
        ("how far the scout is trusted", 2),
    ],
)
def test_ctrl_c_at_any_step_and_the_same_command_again(
    whole: tuple[Path, TrainSummary], cohort: Path, tmp_path: Path, what: str, at: int
) -> None:
    run = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        train(cohort, recipe(), run, Interrupting(what, at))
    assert not (run / "predictions.csv").exists()
    assert not list(tmp_path.rglob("*.part"))
    train(cohort, recipe(), run)
    assert results(run) == results(whole[0])


def test_interrupted_again_and_again(whole: tuple[Path, TrainSummary], cohort: Path, tmp_path: Path) -> None:
    for what, at in (("reading tiles to learn from", 2), ("stage 1, informativeness", 14), ("stage 2, malignancy", 6)):
        with pytest.raises(KeyboardInterrupt):
            train(cohort, recipe(), tmp_path, Interrupting(what, at))
    train(cohort, recipe(), tmp_path)
    assert results(tmp_path) == results(whole[0])


def test_a_kill_that_nobody_can_catch(whole: tuple[Path, TrainSummary], cohort: Path, tmp_path: Path) -> None:
    run, script = tmp_path / "run", tmp_path / "train.py"
    script.write_text(
        "import sys\n"
        "from pathlib import Path\n"
        "import torch\n"
        "from aspirate.workflow.recipe import Recipe\n"
        "from aspirate.workflow.train import train\n"
        "torch.set_num_threads(int(sys.argv[4]))\n"
        "train(Path(sys.argv[1]), Recipe.from_toml(Path(sys.argv[2])), Path(sys.argv[3]))\n"
    )
    (tmp_path / "recipe.toml").write_text(recipe().to_toml())
    command = [sys.executable, str(script), str(cohort), str(tmp_path / "recipe.toml"), str(run)]
    process = subprocess.Popen([*command, str(torch.get_num_threads())], stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not (run / "malignancy" / "checkpoint.safetensors").exists():  # an epoch of stage 2 is done
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(0.002)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    train(cohort, recipe(), run)
    assert results(run) == results(whole[0])


def test_two_processes_train_one_model(cohort: Path, tmp_path: Path) -> None:
    """Nearly the losses of one: batch normalisation sees half a batch in each. In fp32: rounding adds nothing."""
    alike = recipe(scout__use=False, precision="fp32")
    one, both = (train(cohort, alike, tmp_path / str(devices), devices=devices) for devices in (1, 2))
    assert load_bundle(both.model).slides == load_bundle(one.model).slides
    losses = [
        [row["loss"] for row in json.loads((tmp_path / run / "malignancy" / "history.json").read_text())]
        for run in ("1", "2")
    ]
    assert losses[1] == pytest.approx(losses[0], rel=0.25)
    with pytest.raises(ConfigError, match=r"informativeness.batch=16: cannot be shared by 3 devices"):
        train(cohort, recipe(), tmp_path / "three", devices=3)
    assert not (tmp_path / "three").exists()


def test_a_finished_run_is_not_run_again(whole: tuple[Path, TrainSummary], cohort: Path) -> None:
    before, stages = results(whole[0]), Interrupting("stage 1, informativeness", 1)
    train(cohort, recipe(), whole[0], stages)
    assert stages.seen == 0 and results(whole[0]) == before


def test_another_recipe_or_other_labels_in_the_same_folder_are_refused(
    whole: tuple[Path, TrainSummary], cohort: Path, tmp_path: Path
) -> None:
    before = results(whole[0])
    with pytest.raises(ConfigError, match="other settings"):
        train(cohort, recipe(malignancy__epochs=3), whole[0])
    entries = Cohort.read(cohort).entries
    shutil.copytree(cohort / "annotations", tmp_path / "annotations")
    Cohort.write(tmp_path / "cohort.csv", entries)
    train(tmp_path / "cohort.csv", recipe(), whole[0])  # the same cohort, elsewhere
    turned = [replace(e, malignant=not e.malignant) if i == 0 else e for i, e in enumerate(entries)]
    Cohort.write(tmp_path / "cohort.csv", turned)
    with pytest.raises(ConfigError, match="other slides, labels or annotations"):
        train(tmp_path / "cohort.csv", recipe(), whole[0])
    assert results(whole[0]) == before


@pytest.mark.parametrize(
    ("labels", "missing", "told"),
    [
        ("YS", "malignant", r"cannot train UYS \(Y: no usable slide is labelled.*could be trained instead: .*US"),
        ("Y", "bethesda", None),
        ("YS", "bethesda", r"cannot train UYS \(S: no usable slide has a TBS category.*could be trained instead: .*UY"),
        ("YS", "annotations", r"cannot train UYS \(U: no usable slide.*nothing could be trained instead"),
    ],
)
def test_a_cohort_that_cannot_train_is_refused_before_any_work(
    cohort: Path, tmp_path: Path, labels: str, missing: str, told: str | None
) -> None:
    entries = Cohort.read(cohort).entries
    if missing == "malignant":
        entries = tuple(replace(e, malignant=None) for e in entries)
    elif missing == "bethesda":
        entries = tuple(replace(e, bethesda=None) for e in entries)
    if missing != "annotations":
        shutil.copytree(cohort / "annotations", tmp_path / "annotations")
    Cohort.write(tmp_path / "cohort.csv", entries)
    if told is None:
        train(tmp_path / "cohort.csv", recipe(malignancy__labels=labels), tmp_path / "run")
        assert {row["predicted_bethesda"] for row in rows(tmp_path / "run")} == {""}
        return
    with pytest.raises(ConfigError, match=told):
        train(tmp_path / "cohort.csv", recipe(malignancy__labels=labels), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_one_unreadable_slide_is_a_row_and_the_rest_goes_on(cohort: Path, tmp_path: Path) -> None:
    shutil.copytree(cohort, tmp_path / "c")
    entries = Cohort.read(tmp_path / "c").entries
    bad, cut = entries[2], entries[5]
    bad.path.write_bytes(b"this is no slide")
    with open_slide(cut.path) as slide:
        assert slide.size_px0.width == 384
    cut.path.write_bytes(cut.path.read_bytes()[: cut.path.stat().st_size // 3])
    summary = train(tmp_path / "c", recipe(), tmp_path / "run")
    assert set(summary.failures) == {bad.slide_id, cut.slide_id}
    failed = [row for row in rows(tmp_path / "run") if row["status"] == "failed"]
    assert [row["slide_id"] for row in failed] == [bad.slide_id, cut.slide_id]
    assert all(row["error"] and not row["score"] for row in failed)
    assert "not a slide of any known kind" in failed[0]["error"]
    judged = [row for row in rows(tmp_path / "run") if row["status"] != "failed"]
    assert judged and all(row["score"] for row in judged)
    assert not {bad.slide_id, cut.slide_id} & {row["slide_id"] for row in judged}


def test_a_slide_that_fails_between_the_check_and_the_reading(
    cohort: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim = Cohort.read(cohort).entries[4].slide_id

    def failing(slide: object, *args: object) -> object:
        if slide.name == victim:  # type: ignore[attr-defined]
            raise UnreadableSlide(f"{victim}: the share is gone; mount it again")
        return score_tiles(slide, *args)  # type: ignore[arg-type]

    monkeypatch.setattr("aspirate.workflow.first_stage.score_tiles", failing)
    summary = train(cohort, recipe(), tmp_path / "run")
    assert summary.failures == {victim: f"{victim}: the share is gone; mount it again"}
    assert [row["status"] for row in rows(tmp_path / "run") if row["slide_id"] == victim] == ["failed"]
    assert (tmp_path / "run" / "model" / "model.json").exists()


def test_a_second_start_rounds_as_the_first_whatever_a_busy_machine_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for first in (True, False):
        folder = RunFolder(tmp_path / str(first))
        folder.claim(recipe(), "a cohort")
        monkeypatch.setattr("aspirate.learning.device.bf16_pays", lambda _accelerator, first=first: first)
        assert folder.rounding("auto") is first
        monkeypatch.setattr("aspirate.learning.device.bf16_pays", lambda _accelerator, first=first: not first)
        assert RunFolder(tmp_path / str(first)).rounding("auto") is first
        folder.claim(recipe(), "a cohort")  # still its own folder


def test_tiles_that_are_almost_equal_are_taken_once() -> None:
    """Their order is chance, and would speak against an engine that rounds a little differently."""
    scores = np.array([-9.0, -9.001, -9.002, -8.999, 0.1, 4.0, 4.001, 9.0], np.float32)
    assert spread(scores, 3).tolist() == [2, 4, 7]
    assert spread(scores, 100).tolist()[-1] == 7 and len(set(np.round(scores[spread(scores, 19)]))) >= 4
    assert spread(np.ones(5, np.float32), 4).tolist() == [0]
