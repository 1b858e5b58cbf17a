"""Commands as a person runs them: what they say, what they leave, how they exit."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from aspirate.cli.app import main
from aspirate.core.predictions import Prediction, write_predictions
from aspirate.slides.cohort import Cohort
from aspirate.workflow.crossval import CrossvalSummary, Plan
from aspirate.workflow.demo import DemoSummary
from aspirate.workflow.predict_many import PredictSummary

ASPIRATE = [sys.executable, "-m", "aspirate"]
SYNTH = ["--slides", "3", "--size", "2048x2048", "--annotated", "0.5"]


class Said:
    """What a command printed, and how it ended."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err
        self.all = out + err


@pytest.fixture
def aspirate(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> "Runner":
    return Runner(monkeypatch, capsys)


class Runner:
    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.monkeypatch, self.capsys = monkeypatch, capsys

    def __call__(self, *arguments: object) -> Said:
        self.monkeypatch.setattr(sys, "argv", ["aspirate", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        captured = self.capsys.readouterr()
        code = ended.value.code
        return Said(code if isinstance(code, int) else 0, captured.out, captured.err)


@pytest.fixture(scope="module")
def cohort(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cohort") / "c"
    subprocess.run([*ASPIRATE, "synth", folder, *SYNTH], check=True, capture_output=True)
    return folder


def files_under(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_synth_says_what_it_made(aspirate: Runner, tmp_path: Path) -> None:
    said = aspirate("synth", tmp_path / "c", *SYNTH, "--readers", 1, "--workers", 1)
    assert said.code == 0
    assert "3 slides" in said.out and "AUC of one who sees every true grade" in said.out
    assert len(Cohort.read(tmp_path / "c").entries) == 3
    again = aspirate("synth", tmp_path / "c", *SYNTH, "--readers", 2)
    assert again.code == 2 and "readers 1 → 2" in again.err, "other settings in the same folder are refused"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--size", "big"], "--size big: expected width and height"),
        (["--size", "100x100"], "too small"),
        (["--slides", "0"], "slides"),
        (["--format", "png"], "format"),
        (["--set", "grade_sprad=1"], "grade_sprad"),
        (["--set", "grade_spread"], "expected key=value"),
        (["--mpp", "50"], "mpp"),
    ],
)
def test_synth_refuses_nonsense_before_it_writes(
    aspirate: Runner, tmp_path: Path, options: list[str], expected: str
) -> None:
    said = aspirate("synth", tmp_path / "c", *options)
    assert said.code == 2
    assert expected in said.err
    assert not (tmp_path / "c").exists()


def test_doctor_on_a_good_cohort(aspirate: Runner, cohort: Path, tmp_path: Path) -> None:
    said = aspirate("doctor", cohort, "--deep", "--json", tmp_path / "d.json", "--page", tmp_path / "p.html")
    assert said.code == 0, said.all
    assert "fine: 3 slides, no error" in said.out
    found = json.loads((tmp_path / "d.json").read_text(encoding="utf-8"))
    assert found["ok"] and [slide["mpp"] for slide in found["slides"]] == [0.25] * 3
    page = (tmp_path / "p.html").read_text(encoding="utf-8")
    assert all(f"slide-{n:03d}" in page for n in (1, 2, 3))
    assert "Research use only" in page
    assert "http" not in page and "<script" not in page, "no outside request"


def bad_files(folder: Path, good: Path) -> dict[str, Path]:
    """Every kind of broken slide, by name."""
    whole = good.read_bytes()
    rng = np.random.default_rng(1)
    made: dict[str, bytes] = {"text.tiff": b"not a slide\n" * 20, "empty.svs": b""}
    for n, cut in enumerate(rng.integers(8, len(whole) - 1, 10)):
        made[f"cut-{n}.tiff"] = whole[:cut]
    paths = {}
    for name, content in made.items():
        paths[name] = folder / name
        paths[name].write_bytes(content)
    (folder / "corrupt.tiff").write_bytes(whole[: len(whole) // 2] + b"\0" * 4000 + whole[len(whole) // 2 + 4000 :])
    return paths | {"corrupt.tiff": folder / "corrupt.tiff", "missing.tiff": folder / "missing.tiff"}


def test_every_bad_slide_is_named_and_none_stops_the_others(aspirate: Runner, cohort: Path, tmp_path: Path) -> None:
    good = cohort / "slides" / "slide-001.tiff"
    bad = bad_files(tmp_path, good)
    (tmp_path / "folder.tiff").mkdir()
    bad["folder.tiff"] = tmp_path / "folder.tiff"
    rows = [f"{name},{path}" for name, path in {**bad, "good": good}.items()]
    (tmp_path / "cohort.csv").write_text("slide_id,path\n" + "\n".join(rows) + "\n")
    before = files_under(tmp_path)
    said = aspirate("doctor", tmp_path / "cohort.csv", "--deep", "--json", tmp_path / "d.json")
    assert said.code == 1
    assert "Traceback" not in said.all
    found = json.loads((tmp_path / "d.json").read_text(encoding="utf-8"))
    status = {slide["slide_id"]: slide["status"] for slide in found["slides"]}
    assert status.pop("good") == "ok"
    assert set(status) == set(bad) and "ok" not in status.values()
    named = {finding["slide_id"] for finding in found["findings"] if finding["level"] == "error"}
    assert named == set(bad)
    assert files_under(tmp_path) == before | {"d.json"}, "nothing half-written"


@pytest.mark.parametrize("name", ["text.tiff", "empty.svs", "cut-3.tiff", "corrupt.tiff", "missing.tiff"])
def test_a_bad_slide_alone(aspirate: Runner, cohort: Path, tmp_path: Path, name: str) -> None:
    path = bad_files(tmp_path, cohort / "slides" / "slide-001.tiff")[name]
    said = aspirate("doctor", path, "--deep", "--mpp", 0.25)
    assert said.code != 0
    assert path.stem in said.all and "Traceback" not in said.all


def test_one_pixel_is_a_slide_with_one_tile(aspirate: Runner, tmp_path: Path) -> None:
    Image.new("RGB", (1, 1), "red").save(tmp_path / "dot.png")
    said = aspirate("doctor", tmp_path / "dot.png", "--mpp", 0.25, "--json", tmp_path / "d.json")
    assert said.code == 0
    slide = json.loads((tmp_path / "d.json").read_text(encoding="utf-8"))["slides"][0]
    assert (slide["width_px0"], slide["height_px0"], slide["tiles"]) == (1, 1, 1)
    assert "too few for U: no usable slide has annotations" in said.all


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_no_permission(aspirate: Runner, cohort: Path, tmp_path: Path) -> None:
    path = tmp_path / "secret.tiff"
    path.write_bytes((cohort / "slides" / "slide-001.tiff").read_bytes())
    path.chmod(0)
    said = aspirate("doctor", path)
    assert said.code != 0 and "secret" in said.all and "permission" in said.all


def test_doctor_without_a_cohort(aspirate: Runner, tmp_path: Path) -> None:
    said = aspirate("doctor", tmp_path / "nowhere.csv")
    assert said.code == 2 and "nowhere.csv" in said.err and "Traceback" not in said.all


def test_bench_read_writes_its_figures(aspirate: Runner, cohort: Path, tmp_path: Path) -> None:
    slide = cohort / "slides" / "slide-001.tiff"
    said = aspirate("bench", "read", slide, "--repeats", 1, "--json", tmp_path / "b.json")
    assert said.code == 0
    figures = json.loads((tmp_path / "b.json").read_text(encoding="utf-8"))
    assert figures["tiles"] == 256
    assert figures["ratio_openslide"] > 1 and figures["ratio_raw_decode"] > 0
    assert all(not isinstance(value, dict | list) for value in figures.values()), "flat"


def test_an_output_that_cannot_be_written(aspirate: Runner, cohort: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    said = aspirate("doctor", cohort, "--json", tmp_path / "file" / "d.json")
    assert said.code == 2 and "file" in said.err and "Traceback" not in said.all


def test_interrupted_synth_goes_on_to_the_same_bytes(cohort: Path, tmp_path: Path) -> None:
    command = [*ASPIRATE, "synth", str(tmp_path / "c"), *SYNTH, "--workers", "2"]
    first = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not any((tmp_path / "c").rglob("*.part")) and time.monotonic() < deadline:
        time.sleep(0.02)
    first.send_signal(signal.SIGINT)
    said = first.communicate(timeout=60)[1]
    assert first.returncode == 130
    assert "interrupted" in said and "Traceback" not in said
    assert not list((tmp_path / "c").rglob("*.part")), "nothing half-written"
    subprocess.run(command, check=True, capture_output=True)
    for name in files_under(cohort):
        assert (tmp_path / "c" / name).read_bytes() == (cohort / name).read_bytes(), name
    assert files_under(tmp_path / "c") == files_under(cohort)


def test_version_and_help_answer_at_once(aspirate: Runner) -> None:
    assert aspirate("--version").out.startswith("aspirate 0.")
    assert aspirate("--help").code == 0
    unknown = aspirate("diagnose")
    assert unknown.code == 2 and "diagnose" in unknown.err


def test_demo_says_how_well_it_did_and_where_to_look(
    aspirate: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The demonstration itself takes minutes, and has its own test in miniature."""
    rows = (Prediction("a", malignant=True, score=1.0), Prediction("b", status="failed", error="b: is torn"))
    predicted = PredictSummary(rows, (), tmp_path / "predictions.csv", tmp_path / "index.html")
    report = tmp_path / "report.html"
    summary = DemoSummary(tmp_path / "cohort.html", predicted, report, {"AUC": 0.75}, {"b": "b: is torn"})
    monkeypatch.setattr("aspirate.workflow.demo.run_demo", lambda folder, workers, stages: summary)
    said = aspirate("demo", "--out", tmp_path)
    assert said.code == 1 and "failed b: b: is torn" in said.err
    assert "on 2 slides of patients not trained on" in said.out and "0.75" in said.out
    said_in_one = said.out.replace("\n", "")
    assert f"open {tmp_path / 'index.html'}" in said_in_one and f"the report: {report}" in said_in_one


def test_a_comparison_of_which_nothing_was_done_says_so(
    aspirate: "Runner", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing(cohort: Path, recipe: object, run: Path, *_: object) -> CrossvalSummary:
        write_predictions(run / "predictions.csv", [])
        return CrossvalSummary(run, run / "predictions.csv", (), 5, {}, failed={"0/CNN (Y,S)": "no room"})

    monkeypatch.setattr("aspirate.workflow.crossval.crossval", nothing)
    said = aspirate("crossval", tmp_path, "-o", tmp_path / "run", "--methods", "cnn")
    assert said.code == 1
    assert "failed 0/CNN (Y,S): no room" in said.err
    assert "no unit was done, so there is nothing to compare; mend the cause" in said.err


def test_methods_to_compare_are_named_with_commas_or_one_by_one(
    aspirate: "Runner", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def noted(cohort: Path, recipe: object, run: Path, plan: Plan, *_: object) -> CrossvalSummary:
        asked.append([method.slug for method in plan.methods])
        write_predictions(run / "predictions.csv", [])
        return CrossvalSummary(run, run / "predictions.csv", (), 5, {})

    monkeypatch.setattr("aspirate.workflow.crossval.crossval", noted)
    start = ("crossval", tmp_path, "-o", tmp_path / "run")
    aspirate(*start, "--methods", "cnn,Proposed (U,Y,S)", "--methods", "mixture")
    aspirate(*start, "--methods", "proposed", "--labels", "UY,US", "--labels", "uv")
    assert asked == [
        ["cnn-ys", "mixture-ys", "proposed-uys", "mixture-uys"],
        ["proposed-uy", "proposed-us", "proposed-uv"],
    ]
