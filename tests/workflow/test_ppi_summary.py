"""Gaps, intervals and shares of planted runs by hand; the figure shows all methods; the command says it all."""

from pathlib import Path

import numpy as np
import pytest
from matplotlib.container import ErrorbarContainer
from scipy.stats import ttest_rel
from tests.workflow.ppi_images import RECORDS, SMALL, write_small_cifar
from typer.testing import CliRunner

from aspirate.cli.app import app
from aspirate.cli.ppi import comparison
from aspirate.learning import cifar
from aspirate.workflow import ppi_study
from aspirate.workflow.ppi_methods import METHODS
from aspirate.workflow.ppi_study import PpiRun
from aspirate.workflow.ppi_summary import STYLES, Cell, draw_figure, paired, summarise, write_figure, write_summary

LEVELS = {"NoisyOr": 0.60, "AttentionMIL": 0.80, "Proposed": 0.70, "Mixture": 0.85, "Tile labels known": 0.90}


def planted(splits: tuple[str, ...] = ("01289",), repeats: int = 5, ppis: tuple[float, ...] = (0.1,)) -> list[PpiRun]:
    rng = np.random.default_rng(0)
    runs = []
    for split in splits:
        for ppi in ppis:
            for repeat in range(repeats):
                for name, level in LEVELS.items():
                    value = level + rng.normal(0, 0.02)
                    runs.append(PpiRun(name, split, ppi, repeat, value, value, value, 0, value, value, 0.001, 1, "key"))
    return runs


def cell(cells: tuple[Cell, ...], method: str, split: str = "01289", figure: str = "accuracy") -> Cell:
    (found,) = [c for c in cells if (c.method, c.positive_classes, c.figure) == (method, split, figure)]
    return found


def test_gaps_against_scipy() -> None:
    runs = planted()
    cells = summarise(runs)
    ours, rival, ceiling = (
        np.array([run.accuracy for run in runs if run.method == name])
        for name in ("Mixture", "AttentionMIL", "Tile labels known")
    )
    found, other = cell(cells, "Mixture"), ttest_rel(ours, rival)
    assert found.best_rival == "AttentionMIL" and found.role == "ours"
    assert (found.mean, found.gap.value) == pytest.approx((ours.mean(), (ours - rival).mean()))
    interval = other.confidence_interval(0.95)
    assert (found.gap.low, found.gap.high) == pytest.approx((interval.low, interval.high))
    assert found.standard_error == pytest.approx(ours.std(ddof=1) / np.sqrt(5))
    assert found.closed == pytest.approx((ours.mean() - rival.mean()) / (ceiling.mean() - rival.mean()))
    assert cell(cells, "AttentionMIL").gap.value == 0 and cell(cells, "Tile labels known").closed == pytest.approx(1)
    assert len(cells) == 3 * 5


def test_only_draws_that_every_method_has_seen_count() -> None:
    runs = [run for run in planted() if not (run.method == "NoisyOr" and run.repeat == 2)]
    assert cell(summarise(runs), "Mixture").gap.n == 4
    kept = [run.accuracy for run in runs if run.method == "Mixture" and run.repeat != 2]
    assert cell(summarise(runs), "Mixture").mean == pytest.approx(np.mean(kept))


def test_all_splits_together() -> None:
    runs = planted(("01289", "02468"))
    together = cell(summarise(runs), "Mixture", "all")
    assert together.gap.n == 10
    assert together.mean == pytest.approx(np.mean([run.accuracy for run in runs if run.method == "Mixture"]))


def test_what_is_not_there_is_not_claimed() -> None:
    (one,) = [c for c in summarise(planted(repeats=1)) if (c.method, c.figure) == ("Mixture", "accuracy")]
    assert np.isnan(one.gap.low) and one.gap.note == "an interval needs two repeats"
    near = [run for run in planted() if run.method in ("AttentionMIL", "Mixture")]
    assert np.isnan(cell(summarise(near), "Mixture").closed), "no ceiling"
    alone = [run for run in near if run.method == "Mixture"]
    assert np.isnan(cell(summarise(alone), "Mixture").gap.value) and cell(summarise(alone), "Mixture").best_rival == ""
    assert summarise([]) == ()
    assert paired(np.array([0.1, 0.1])).low == pytest.approx(0.1)


def test_table_of_the_summary(tmp_path: Path) -> None:
    write_summary(tmp_path / "summary.csv", summarise(planted()))
    lines = (tmp_path / "summary.csv").read_text().splitlines()
    assert lines[0].startswith("figure,positive_classes,ppi,method,role,repeats,mean,standard_error,best_rival,gap")
    assert len(lines) == 16 and lines[1].startswith("accuracy,01289,0.1,NoisyOr,rival,5,0.")


def test_lines_a_person_reads() -> None:
    header, line = comparison(summarise(planted()))
    assert header[2] == "best rival" and line[:3] == ("01289", "0.1", "AttentionMIL")
    assert line[5].startswith("+") and "[" in line[5] and line[7].endswith("%")
    assert comparison(summarise([run for run in planted() if run.method == "NoisyOr"])) == []


def test_the_figure(tmp_path: Path) -> None:
    assert list(STYLES) == [method.name for method in METHODS]
    cells = summarise(planted(("01289", "02468"), ppis=(0.02, 0.1, 0.8)))
    figure = draw_figure(cells)
    assert len(figure.axes) == 4 and all(axes.get_xscale() == "log" for axes in figure.axes)
    first_line = figure.axes[0].containers[0]
    assert isinstance(first_line, ErrorbarContainer)
    drawn = first_line.lines[0]
    assert drawn is not None and np.asarray(drawn.get_xdata()).tolist() == [0.02, 0.1, 0.8]
    wanted = [c.mean for c in cells if (c.figure, c.positive_classes, c.method) == ("accuracy", "01289", "NoisyOr")]
    assert np.asarray(drawn.get_ydata()).tolist() == wanted
    assert write_figure(tmp_path, cells).read_text().startswith("<?xml")
    assert (tmp_path / "ppi.png").read_bytes().startswith(b"\x89PNG")
    first = (tmp_path / "ppi.pdf").read_bytes()
    write_figure(tmp_path, cells)
    assert first.startswith(b"%PDF") and (tmp_path / "ppi.pdf").read_bytes() == first, "the same bytes"


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cifar, "RECORDS", RECORDS)
    ppi_study._images.cache_clear()
    images, out = write_small_cifar(tmp_path / "cifar"), tmp_path / "out"
    asked = [f"--set={key}={value}" for key, value in SMALL.model_dump(exclude_defaults=True).items()]
    words = ["ppi", "--cifar10", str(images), "-o", str(out), "--workers", "1", "--ppi", "0.4,0.5", "--repeats", "2"]
    done = CliRunner().invoke(app, [*words, "--methods", "mixture", "--methods", "proposed", *asked])
    assert done.exit_code == 0, done.output
    assert "Proposed" in done.output and "research use only" in done.output and "ppi.svg" in done.output
    assert {path.name for path in out.iterdir()} >= {"runs.csv", "summary.csv", "ppi.svg", "ppi.pdf", "ppi.png"}
    assert len((out / "runs.csv").read_text().splitlines()) == 1 + 4 * 4
    wrong = CliRunner().invoke(app, [*words, "--ppi", "half"])
    assert wrong.exit_code != 0 and "--ppi 0.4,0.5 half: expected numbers" in str(wrong.exception)
