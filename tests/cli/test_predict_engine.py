"""`aspirate predict --engine`: what is asked for is taken, and what a person should know is said and kept."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.workflow.test_bundle import REFERENCE, bundle
from typer.testing import CliRunner

from aspirate.cli.app import app
from aspirate.core.errors import ConfigError
from aspirate.engines.machine import this_machine
from aspirate.slides.threads import available_threads
from aspirate.workflow import predict
from aspirate.workflow.bundle import save_bundle
from aspirate.workflow.predict import Model, load_model


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model, and a slide of 20 tiles."""
    folder = tmp_path_factory.mktemp("engine")
    save_bundle(folder / "model", bundle(), REFERENCE)
    pixels = np.random.default_rng(5).integers(0, 256, (128, 160, 3), np.uint8)
    Image.fromarray(pixels).save(folder / "a.png")
    return folder


def arguments(place: Path, out: Path, *more: str) -> list[str]:
    return ["predict", str(place / "model"), str(place / "a.png"), "-o", str(out), "--mpp", "0.25", *more]


@pytest.mark.parametrize("engine", ["torch", "openvino-fp32"])
def test_the_one_asked_for_is_taken_and_noted(engine: str, place: Path, tmp_path: Path) -> None:
    said = CliRunner().invoke(app, arguments(place, tmp_path / "out", "--engine", engine))
    assert said.exit_code == 0, said.output
    record = json.loads((tmp_path / "out" / "predictions.json").read_text(encoding="utf-8"))
    assert record["engine"] == engine and record["engine_notes"] == [] and record["settings"]["engine"] == engine


def test_one_that_is_not_admitted_is_taken_if_asked_for_and_that_is_said(place: Path, tmp_path: Path) -> None:
    if "int8" not in this_machine().speeds:
        pytest.skip("this processor has no 8-bit arithmetic")
    path = place / "model" / "model.json"
    before = path.read_text(encoding="utf-8")
    note = json.loads(before)
    for each in note["precisions"]:
        each |= {"admitted": False, "why": "not admitted: rank correlation 0.9 …"}
    path.write_text(json.dumps(note), encoding="utf-8")
    try:
        said = CliRunner().invoke(app, arguments(place, tmp_path / "out", "--engine", "openvino-int8"))
    finally:
        path.write_text(before, encoding="utf-8")
    assert said.exit_code == 0, said.output
    assert "note: openvino-int8 is used because it was asked for, though it is not admitted" in " ".join(
        said.output.split()
    )
    record = json.loads((tmp_path / "out" / "predictions.json").read_text(encoding="utf-8"))
    assert record["engine"] == "openvino-int8" and "not admitted" in record["engine_notes"][0]


def test_an_unknown_one_is_refused_before_anything_is_written(place: Path, tmp_path: Path) -> None:
    said = CliRunner().invoke(app, arguments(place, tmp_path / "out", "--engine", "abacus"))
    assert isinstance(said.exception, ConfigError) and "engine=abacus: choose one of auto, torch" in str(said.exception)
    assert not (tmp_path / "out").exists()


HEAVY = (
    "matplotlib",
    "sklearn",
    "lightning_fabric",
    "scipy.stats",
    "scipy.optimize",
    "onnx",
    "fastapi",
    "sympy",
    "ray",
)


def test_a_prediction_does_not_wait_for_libraries_it_does_not_need(place: Path, tmp_path: Path) -> None:
    """Neither when the nets are compiled already, nor before."""
    code = (
        "import sys; from aspirate.cli.app import app\n"
        f"try: app({arguments(place, tmp_path / 'out')!r})\n"
        "except SystemExit as done: assert not done.code, done.code\n"
        f"sys.exit(' '.join(name for name in {HEAVY!r} if name in sys.modules) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"imported: {done.stderr[-500:]}"
    assert (tmp_path / "out" / "predictions.csv").exists()


def test_as_many_threads_compute_as_were_asked_for(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "2")  # and put back after the test
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2}, raising=False)
    seen: list[int] = []

    def load(folder: Path, engine: str) -> Model:
        seen.append(available_threads())
        return load_model(folder, engine)

    monkeypatch.setattr(predict, "load_model", load)
    for more in ((), ("--threads", "1"), ("--threads", "3")):
        said = CliRunner().invoke(app, arguments(place, tmp_path / f"out{len(seen)}", *more))
        assert said.exit_code == 0, said.output
    assert seen == [2, 1, 3]
