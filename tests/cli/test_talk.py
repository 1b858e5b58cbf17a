"""What --quiet, --verbose and --log-names change: the screen and the log, never the results."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.workflow.small_model import save_small_model, write_tiff

ASPIRATE = [sys.executable, "-m", "aspirate"]


@pytest.fixture(scope="module")
def material(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("talk")
    save_small_model(folder / "model")
    write_tiff(folder / "Ewa_Kowalska.tiff", seed=1)
    return folder


def predict(material: Path, out: Path, *options: str) -> tuple[str, str, list[dict[str, object]]]:
    slides = [str(material / f"{name}.tiff") for name in ("Ewa_Kowalska", "Jan_Nowak")]  # the second is not there
    command = [*ASPIRATE, "predict", str(material / "model"), *slides, "-o", str(out), *options]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 1, ended.stderr
    return ended.stdout, ended.stderr, [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]


def test_quiet_says_only_what_went_wrong_and_the_log_names_nobody(material: Path, tmp_path: Path) -> None:
    stdout, stderr, log = predict(material, tmp_path / "out", "--quiet")
    assert stdout == ""
    said = stderr.splitlines()
    assert len(said) == 1
    assert said[0].startswith("failed Jan_Nowak: Jan_Nowak: there is no file")
    assert [line["event"] for line in log] == ["begun", "slide", "slide failed", "ended"]
    assert [line.get("slide") for line in log] == [None, 1, 2, None]
    assert not any(name in json.dumps(log) for name in ("Kowalska", "Nowak", str(tmp_path)))
    parts = log[1]["parts"]
    assert isinstance(parts, dict)
    assert set(parts) == {"open", "score", "evidence", "stage_1", "stage_2"}
    assert log[1]["seconds"] == pytest.approx(parts["open"] + parts["score"] + parts["evidence"], abs=2e-4)


def test_verbose_shows_events_and_names_only_where_asked_for(material: Path, tmp_path: Path) -> None:
    _, stderr, log = predict(material, tmp_path / "out", "--verbose", "--log-names")
    assert "info    slide · slide 1 · status" in stderr
    assert [line.get("slide_id") for line in log[1:3]] == ["Ewa_Kowalska", "Jan_Nowak"]
    assert "there is no file" in str(log[2]["error"])
