"""Which precisions may be used unasked: the rule by hand, and what becomes of it when a model is loaded."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy.stats import spearmanr
from tests.workflow.test_bundle import REFERENCE, SIDE, bundle

from aspirate.core.errors import AspirateError, ConfigError
from aspirate.engines import choice
from aspirate.engines.machine import Machine, this_machine
from aspirate.stages.calibration import Calibration
from aspirate.workflow import examine, scorers
from aspirate.workflow.admission import Admission, judged, slide_probability
from aspirate.workflow.bundle import load_bundle, save_bundle
from aspirate.workflow.predict import load_model
from aspirate.workflow.scorers import scorers_for

CALIBRATION = Calibration(slope=1.5, offset=-0.2, benign=1, malignant=1)
RNG = np.random.default_rng(3)
EXACT = {"informativeness": RNG.normal(0, 4, 60), "malignancy": RNG.normal(0, 1, 60)}


def test_the_slide_that_the_tiles_would_make_by_hand() -> None:
    u = 1 / (1 + np.exp(-EXACT["informativeness"]))
    f = (u * EXACT["malignancy"]).sum() / u.sum()
    expected = 1 / (1 + np.exp(-(1.5 * f - 0.2)))
    assert slide_probability(EXACT, CALIBRATION) == pytest.approx(expected, rel=1e-5)


def test_small_noise_is_admitted_with_its_evidence() -> None:
    found = {name: scores + RNG.normal(0, 1e-3, 60) for name, scores in EXACT.items()}
    verdict = judged("bf16", EXACT, found, CALIBRATION, {})
    assert verdict.admitted and verdict.why.startswith("admitted: rank correlation ")
    for name in EXACT:
        assert verdict.rank_correlation[name] == pytest.approx(spearmanr(EXACT[name], found[name]).statistic, abs=1e-6)
        assert verdict.difference[name] == pytest.approx(np.abs(found[name] - EXACT[name]).max(), rel=0.01)
    delta = abs(slide_probability(found, CALIBRATION) - slide_probability(EXACT, CALIBRATION))
    assert verdict.delta_probability == pytest.approx(delta, rel=0.01)


@pytest.mark.parametrize("net", ["informativeness", "malignancy"])
def test_another_order_of_either_net_is_not_admitted(net: str) -> None:
    found = EXACT | {net: EXACT[net] + RNG.normal(0, 0.3 * EXACT[net].std(), 60)}
    verdict = judged("int8", EXACT, found, CALIBRATION, {})
    assert not verdict.admitted and verdict.rank_correlation[net] < 0.999 and "not admitted" in verdict.why


def test_the_same_order_at_another_place_is_not_admitted() -> None:
    found = EXACT | {"malignancy": EXACT["malignancy"] + 0.1}
    verdict = judged("int8", EXACT, found, CALIBRATION, {})
    assert not verdict.admitted and verdict.delta_probability is not None
    assert verdict.delta_probability > 0.01 and verdict.rank_correlation["malignancy"] == 1


def test_scores_that_are_no_numbers_are_not_admitted() -> None:
    found = EXACT | {"malignancy": np.full(60, np.nan)}
    for wrong in (found, EXACT | {"malignancy": np.ones(60)}):
        verdict = judged("bf16", EXACT, wrong, CALIBRATION, {})
        assert not verdict.admitted and verdict.why.startswith("not admitted: scores that are no numbers")
        assert verdict.rank_correlation == {}  # NaN would not be read back


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bundle") / "model"
    save_bundle(folder, bundle(), REFERENCE)
    return folder


def edited(made: Path, folder: Path, *precisions: Admission) -> Path:
    """The same bundle with other verdicts."""
    shutil.copytree(made, folder)
    note = json.loads((folder / "model.json").read_text(encoding="utf-8"))
    by_name = {each["precision"]: each for each in note["precisions"]}
    for each in precisions:
        kept = by_name[each.precision]
        by_name[each.precision] = kept | {"admitted": each.admitted, "why": each.why} if each.why else kept
    note["precisions"] = [by_name[each.precision] for each in precisions]
    (folder / "model.json").write_text(json.dumps(note), encoding="utf-8")
    return folder


def test_what_was_found_is_kept_and_said(made: Path) -> None:
    note = json.loads((made / "model.json").read_text(encoding="utf-8"))
    card = (made / "README.md").read_text(encoding="utf-8")
    kept = load_bundle(made).reference.admissions
    assert [each.precision for each in kept] == ["bf16", "int8"]
    for each, written in zip(kept, note["precisions"], strict=True):
        assert f"* {each.precision}: {each.why}." in card
        assert (each.admitted, each.difference) == (written["admitted"], written["difference"])
        assert bool(each.rank_correlation) == (each.precision in this_machine().speeds)


def test_a_precision_the_machine_lacks_is_not_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examine, "this_machine", lambda: Machine({"fp32": 1.0}))
    save_bundle(tmp_path, bundle(), REFERENCE)
    for each in load_bundle(tmp_path).reference.admissions:
        assert not each.admitted and each.why.startswith("not tried") and each.rank_correlation == {}


def test_the_fastest_admitted_is_taken_and_any_may_be_asked_for(made: Path, tmp_path: Path) -> None:
    if this_machine().speeds.get("int8", 0) < 1.2:
        pytest.skip("8 bits do not pay here")
    yes, no = Admission("int8", True, "admitted: so"), Admission("int8", False, "not admitted: for this reason")
    assert load_model(edited(made, tmp_path / "yes", yes)).engine == "openvino-int8"
    refused = edited(made, tmp_path / "no", no)
    assert load_model(refused).engine == "openvino-fp32" and load_model(refused).notes == ()
    asked = load_model(refused, "openvino-int8")
    assert asked.engine == "openvino-int8"
    assert "not admitted for this model: not admitted: for this reason" in asked.notes[0]
    assert load_model(refused, "torch").engine == "torch"


def test_bundles_of_before_are_scored_in_fp32(made: Path, tmp_path: Path) -> None:
    shutil.copytree(made, tmp_path / "model")
    note = json.loads((made / "model.json").read_text(encoding="utf-8"))
    note.pop("precisions")
    (tmp_path / "model" / "model.json").write_text(json.dumps(note), encoding="utf-8")
    assert load_model(tmp_path / "model").engine == "openvino-fp32"
    with pytest.raises(ConfigError, match="this bundle was made without it"):
        load_model(tmp_path / "model", "openvino-int8")


def test_where_the_library_is_missing_torch_serves_and_it_is_said(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nothing = Machine({}, note="openvino is not installed: torch scores tiles, slower")
    monkeypatch.setattr(choice, "this_machine", lambda: nothing)
    monkeypatch.setattr(scorers, "this_machine", lambda: nothing)
    found = scorers_for(load_bundle(made))
    assert found.name == "torch" and found.notes == (nothing.note,)


def test_an_engine_that_computes_something_else_is_left_out_and_it_is_said(
    made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from aspirate.engines.openvino_engine import OpenVinoEngine

    honest = OpenVinoEngine.outputs
    monkeypatch.setattr(OpenVinoEngine, "outputs", lambda self, tiles: honest(self, tiles) + 1)
    found = scorers_for(load_bundle(made))
    assert found.name == "torch"
    assert "openvino-fp32 is left out: malignancy does not reproduce its reference scores" in found.notes[-1]
    with pytest.raises(AspirateError, match=r"malignancy does not reproduce .*largest difference 1"):
        scorers_for(load_bundle(made), "openvino-fp32")


def test_weights_stay_on_disk_where_the_net_is_compiled(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from aspirate.engines import graph, openvino_engine
    from aspirate.workflow.stored_net import StoredNet

    scorers_for(load_bundle(made), "openvino-fp32")

    def never(*_: object) -> None:
        raise AssertionError("the weights were read")

    monkeypatch.setattr(graph, "graph_of", never)
    monkeypatch.setattr(openvino_engine, "_fingerprint", never)
    monkeypatch.setattr(StoredNet, "read", never)
    loaded = load_bundle(made)
    assert scorers_for(loaded, "openvino-fp32").name == "openvino-fp32"
    assert loaded.sha256() == bundle().sha256()


def test_a_model_that_is_compiled_predicts_without_torch(made: Path, tmp_path: Path) -> None:
    """In a process of its own; asked for the torch engine, the same process loads it and says the same."""
    pixels = np.random.default_rng(4).integers(0, 256, (4 * SIDE, 6 * SIDE, 3), np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    load_model(made, "openvino-fp32")
    code = (
        "import sys; from aspirate.workflow.predict import load_model\n"
        "found = load_model(sys.argv[1], sys.argv[3]).predict(sys.argv[2], mpp=0.25)\n"
        "print('torch' in sys.modules, found.score)"
    )

    def said(engine: str) -> tuple[str, float]:
        command = [sys.executable, "-c", code, str(made), str(tmp_path / "a.png"), engine]
        loaded, score = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
        return loaded, float(score)

    (compiled, quick), (plain, slow) = said("openvino-fp32"), said("torch")
    assert (compiled, plain) == ("False", "True")
    assert quick == pytest.approx(slow, abs=1e-3)


@pytest.mark.parametrize(
    "change",
    [
        {"ranges": {"informativeness": [[0, 1]], "malignancy": [[0, 1]]}},
        {"ranges": {"malignancy": [[0, 1]] * 5}},
        {"ranges": {"informativeness": [[0, float("nan")]] * 5, "malignancy": [[0, 1]] * 5}},
        {"ranges": [1]},
        {"ranges": 7},
        {"difference": {"malignancy": "much"}},
        {"difference": 3},
        {"admitted": "yes"},
        {"colour": "red"},
    ],
)
def test_evidence_that_makes_no_sense_is_refused(change: dict[str, object], made: Path, tmp_path: Path) -> None:
    shutil.copytree(made, tmp_path / "model")
    note = json.loads((made / "model.json").read_text(encoding="utf-8"))
    note["precisions"][1] |= change
    (tmp_path / "model" / "model.json").write_text(json.dumps(note), encoding="utf-8")
    with pytest.raises(AspirateError, match="not a model bundle, or a damaged one"):
        load_bundle(tmp_path / "model")
