"""Exports: whole folders that were checked, or nothing."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.workflow.test_bundle import REFERENCE, bundle
from typer.testing import CliRunner

from aspirate.cli.app import app
from aspirate.core.errors import ConfigError
from aspirate.engines.formats import FORMATS
from aspirate.engines.torch_engine import TorchEngine
from aspirate.workflow import export as export_module
from aspirate.workflow.bundle import load_bundle, save_bundle
from aspirate.workflow.export import ExportDiffers, export

FILES = {
    "onnx": {"model.onnx"},
    "torchscript": {"torchscript_model.pt", "config.json"},
    "openvino": {"model.xml", "model.bin"},
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bundle") / "model"
    save_bundle(folder, bundle(), REFERENCE)
    return folder


@pytest.mark.parametrize("to", FORMATS)
def test_a_folder_for_each_net(to: str, made: Path, tmp_path: Path) -> None:
    done = export(made, to, tmp_path / "out")
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"informativeness", "malignancy", "README.md"}
    for name, net in bundle().nets.items():
        assert {path.name for path in (tmp_path / "out" / name).iterdir()} == FILES[to]
        found = FORMATS[to].score(tmp_path / "out" / name / FORMATS[to].file, REFERENCE)
        expected = TorchEngine(net).score(REFERENCE)
        assert done.differences[name] == pytest.approx(np.abs(found - expected).max(), abs=1e-6)
        assert done.differences[name] < 1e-3
    text = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    for words in ("Research use only", "32 × 32 pixels at 0.25 µm", "σ(1.2 · f + -0.7)", bundle().sha256()):
        assert words in text
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_what_wsinfer_reads(made: Path, tmp_path: Path) -> None:
    export(made, "torchscript", tmp_path / "out")
    for name, classes in (("informativeness", ["other", "informative"]), ("malignancy", ["benign", "malignant"])):
        config = json.loads((tmp_path / "out" / name / "config.json").read_text(encoding="utf-8"))
        assert config == {
            "spec_version": "1.0",
            "architecture": "vgg11-quarter",
            "num_classes": 2,
            "class_names": classes,
            "patch_size_pixels": 32,
            "spacing_um_px": 0.25,
            "transform": [{"name": "Resize", "arguments": {"size": 32}}, {"name": "ToTensor"}],
        }


def test_nothing_is_left_of_an_export_that_computes_something_else(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = FORMATS["torchscript"]
    wrong = replace(honest, score=lambda path, tiles: honest.score(path, tiles) + 0.01)
    monkeypatch.setitem(FORMATS, "torchscript", wrong)
    with pytest.raises(ExportDiffers, match=r"informativeness as torchscript is off by 0\.01 .*allowed 0\.001.*"):
        export(made, "torchscript", tmp_path / "out")
    assert list(tmp_path.iterdir()) == []
    said = CliRunner().invoke(app, ["export", str(made), "--to", "torchscript", "-o", str(tmp_path / "out")])
    assert said.exit_code == 1 and "is off by 0.01" in " ".join(said.output.split())
    assert list(tmp_path.iterdir()) == []


def test_a_folder_with_something_in_it_is_left_alone(made: Path, tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("mine")
    with pytest.raises(ConfigError, match="exists and is not empty; choose another folder"):
        export(made, "torchscript", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["note.txt"]
    (tmp_path / "empty").mkdir()
    export(made, "torchscript", tmp_path / "empty")
    assert (tmp_path / "empty" / "README.md").exists()


def test_an_unknown_form_is_refused_with_those_there_are(made: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--to keras: choose one of onnx, torchscript, openvino"):
        export(made, "keras", tmp_path / "out")


def test_the_command_says_how_far_it_is_off(made: Path, tmp_path: Path) -> None:
    said = CliRunner().invoke(app, ["export", str(made), "--to", "torchscript", "-o", str(tmp_path / "out")])
    assert said.exit_code == 0, said.output
    words = " ".join(said.output.split())
    for net in ("informativeness", "malignancy"):
        assert f"{net}: largest difference " in words
    assert "on 6 reference tiles" in words and "research use only" in words
    assert export_module.TOLERANCE == 1e-3 and load_bundle(made).sha256() == bundle().sha256()
