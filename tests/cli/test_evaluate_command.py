"""aspirate evaluate as a person runs it."""

import json
import sys
from pathlib import Path

import pytest
from tests.evaluation.simulated import RIVAL, simulated

from aspirate.cli.app import main
from aspirate.core.predictions import write_predictions


def run(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int | str | None:
    monkeypatch.setattr(sys, "argv", ["aspirate", "evaluate", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code


def test_evaluate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    material, out = simulated(40), tmp_path / "out"
    write_predictions(tmp_path / "p.csv", material.predictions)
    write_predictions(tmp_path / "v.csv", material.validation)
    (tmp_path / "r.csv").write_text(
        "slide_id,reader,bethesda\n" + "".join(f"s{i:03d},zoe,{2 + i % 5}\n" for i in range(30)), encoding="utf-8"
    )
    options = ("--validation", tmp_path / "v.csv", "--readers", tmp_path / "r.csv", "--prevalence", 0.2, "--alpha", 0.2)
    code = run(monkeypatch, tmp_path / "p.csv", "-o", out, "--resamples", 100, "--reference", RIVAL, *options)
    said = capsys.readouterr()
    assert code == 0, said.err
    assert f"{RIVAL} puts a malignant slide above a benign one in" in said.out and "reader zoe" in said.out
    assert f"open {out / 'report' / 'index.html'}" in said.out.replace("\n", "")
    assert "note: patients are not known" in said.err
    metrics = json.loads((out / "metrics.json").read_text(encoding="utf-8"))
    assert metrics["reference"] == RIVAL and metrics["prevalence"] == 0.2
    assert next(m for m in metrics["methods"] if m["name"] == RIVAL)["own_rates"]["prevalence"] == 0.2


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--benign-risk", "0.99"], "must be below malignant_risk"),
        (["--prevalence", "1.5"], "prevalence"),
        (["--reference", "none such"], "there is no such method"),
        (["--readers", "nowhere.csv"], "no such file"),
    ],
)
def test_wrong_use_is_told_before_anything_is_written(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    expected: str,
) -> None:
    write_predictions(tmp_path / "p.csv", simulated(20).predictions)
    assert run(monkeypatch, tmp_path / "p.csv", "-o", tmp_path / "out", *options) == 2
    assert expected in capsys.readouterr().err.replace("\n", " ")
    assert not (tmp_path / "out").exists()
