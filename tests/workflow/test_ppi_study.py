"""The study whole, on a few small pictures: every method a row, nothing done twice, thresholds blind to test bags."""

import csv
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.workflow.ppi_images import RECORDS, SMALL, small_cifar, write_small_cifar

from aspirate.core.errors import ConfigError
from aspirate.core.progress import silent
from aspirate.core.ranking import auc
from aspirate.learning import cifar
from aspirate.learning.checkpoints import load_tensors
from aspirate.learning.cifar import Cifar10, Images, read_cifar10
from aspirate.learning.loop import CHECKPOINT_FILE
from aspirate.nn.mixture import SHARES, SPREADS
from aspirate.workflow import ppi_study
from aspirate.workflow.ppi_bags import Draw
from aspirate.workflow.ppi_methods import METHODS, TRAININGS
from aspirate.workflow.ppi_study import (
    PPIS,
    PROTOCOLS,
    StudyPlan,
    Unit,
    do,
    learn,
    load_protocol,
    read,
    runs_of,
    study,
)

DRAW = Draw((0, 1, 2, 8, 9), 0.5, 0)


@pytest.fixture
def images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(cifar, "RECORDS", RECORDS)
    ppi_study._images.cache_clear()
    return write_small_cifar(tmp_path / "cifar")


def test_every_method_on_the_same_bags(images: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert study(images, out, SMALL, StudyPlan(tuple(TRAININGS), ppis=(0.5,), repeats=1)) == {}
    rows = runs_of(out)
    assert [row.method for row in rows] == [method.name for method in METHODS]
    assert {row.fingerprint for row in rows} == {SMALL.fingerprint()}
    assert all(row.seconds > 0 and 0 <= row.accuracy <= 1 for row in rows)
    best = {row.method: row.auc for row in rows}
    assert best["Tile labels known"] > 0.95 and best["Mixture"] > 0.95 and best["Proposed"] > 0.95, "easy pictures"
    truths = [load_tensors(path)[0]["test_positive"] for path in (out / "runs").glob("*/scores.safetensors")]
    assert len(truths) == 9 and all(torch.equal(truth, truths[0]) for truth in truths)
    with (out / "runs.csv").open(encoding="utf-8", newline="") as file:
        table = list(csv.DictReader(file))
    assert [row["method"] for row in table] == [method.name for method in METHODS]
    assert float(table[3]["auc"]) == pytest.approx(rows[3].auc, rel=1e-5)
    assert not list(out.rglob(CHECKPOINT_FILE)), "what a finished run does not need is gone"


def test_a_run_done_is_not_done_again(images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out"
    small = StudyPlan(("propagated",), ppis=(0.5,), repeats=1)
    study(images, out, SMALL, small)
    before = runs_of(out)
    learned: list[str] = []

    def counted(*args: object) -> None:
        unit = args[2]
        assert isinstance(unit, Unit)
        learned.append(unit.name)
        learn(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(ppi_study, "learn", counted)
    study(images, out, SMALL, small)
    assert learned == [] and runs_of(out) == before
    rows = out / "runs" / "propagated_01289_0.5_0" / "rows.json"
    kept = [row for row in json.loads(rows.read_text()) if row["method"] == "Proposed"]
    rows.write_text(json.dumps(kept))
    study(images, out, SMALL, small)
    assert learned == [], "another way of reading costs no training"
    again = runs_of(out)
    assert [replace(row, seconds=0) for row in again] == [replace(row, seconds=0) for row in before]
    study(images, out, SMALL, replace(small, repeats=2))
    assert learned == ["propagated_01289_0.5_1"], "the grid may grow"


def test_a_folder_keeps_its_protocol_and_its_images(images: Path, tmp_path: Path) -> None:
    out, plan = tmp_path / "out", StudyPlan(("propagated",), ppis=(0.5,), repeats=0)
    study(images, out, SMALL, plan)
    with pytest.raises(ConfigError, match="holds a run with other settings"):
        study(images, out, SMALL.model_copy(update={"epochs": 3}), plan)


def test_an_interrupted_run_goes_on_and_ends_the_same(tmp_path: Path) -> None:
    whole, broken, unit = tmp_path / "whole", tmp_path / "broken", Unit("mixture", DRAW)
    do(small_cifar(), SMALL, unit, whole, silent)

    def stop(_: float) -> None:
        steps.append(1)
        if len(steps) == SMALL.steps_per_epoch + 2:
            raise KeyboardInterrupt

    steps: list[int] = []
    with pytest.raises(KeyboardInterrupt):
        do(small_cifar(), SMALL, unit, broken, stop)
    assert not (broken / "rows.json").exists()
    steps.clear()
    do(small_cifar(), SMALL, unit, broken, lambda n: steps.append(1))
    assert len(steps) == SMALL.steps_per_epoch, "the first epoch was kept"
    one, other = (load_tensors(folder / "scores.safetensors")[0] for folder in (whole, broken))
    for name in one:
        torch.testing.assert_close(one[name], other[name])


@pytest.mark.parametrize("training", ["attention", "mixture"])
def test_nothing_learned_or_chosen_sees_test_bags(tmp_path: Path, training: str) -> None:
    """With other test images and labels, scores of validation bags and thresholds are the same, bit for bit."""
    true = small_cifar()
    other = Cifar10(true.training, Images(255 - true.test.pixels, true.test.classes[::-1].copy()), "other")
    found = []
    for number, each in enumerate((true, other)):
        folder = tmp_path / str(number)
        do(each, SMALL, Unit(training, DRAW), folder, silent)
        found.append((load_tensors(folder / "scores.safetensors")[0], json.loads((folder / "rows.json").read_text())))
    (first, rows), (second, other_rows) = found
    assert torch.equal(first["validation"], second["validation"])
    assert not torch.equal(first["test"], second["test"])
    chosen = ("threshold", "validation_accuracy", "validation_auc")
    for row, twin in zip(rows, other_rows, strict=True):
        assert [row[name] for name in chosen] == [twin[name] for name in chosen]


def test_rows_are_what_scores_say() -> None:
    positive = torch.tensor([False, True] * 10)
    rng = np.random.default_rng(0)
    scores = torch.from_numpy(rng.normal(0, 1, 20)).float() + 2 * positive
    test = torch.from_numpy(rng.normal(0, 1, 20)).float() + 2 * positive
    tensors = {"validation": scores, "validation_positive": positive, "test": test, "test_positive": positive}
    note = {"pooling": {"share": 1.0, "slope": 1.0, "offset": 0.0}, "seconds": 3.0, "learning_rate": 0.01}
    row = read(METHODS[3], DRAW, tensors, note, "key")
    assert row.method == "AttentionMIL" and row.auc == auc(test, positive) and row.seconds > 3
    assert row.accuracy == np.mean((test.numpy() > row.threshold) == positive.numpy())
    assert row.validation_auc == auc(scores, positive)
    assert row.threshold == pytest.approx(1.0, abs=0.5)


def test_whole_repeats_come_first() -> None:
    plan = StudyPlan(("mixture", "attention"), ppis=(0.1, 0.2), splits=((9, 0), (1, 2)), repeats=2)
    names = [unit.name for unit in plan.units()]
    assert names[:3] == ["mixture_09_0.1_0", "attention_09_0.1_0", "mixture_09_0.2_0"]
    assert len(names) == len(set(names)) == 16
    assert all(name.endswith("_0") for name in names[:8])
    with pytest.raises(ConfigError, match="--ppi 2"):
        StudyPlan(("mixture",), ppis=(2.0,))


def test_protocols() -> None:
    paper = PROTOCOLS["paper"]
    assert (paper.bags, paper.tiles, paper.epochs, paper.spread, ppi_study.REPEATS["paper"]) == (1000, 100, 30, 0.2, 10)
    assert PPIS == (0.02, 0.04, 0.06, 0.1, 0.15, 0.2, 0.4, 0.8)
    changed = load_protocol("reduced", 4, ["epochs=3", "rates.noisy-or=0.01"])
    assert (changed.seed, changed.epochs, changed.rates) == (4, 3, {"noisy-or": 0.01})
    assert PROTOCOLS["reduced"].rates == {}, "the protocol itself is as it was"
    with pytest.raises(ConfigError, match="--protocol quick: no such protocol; use reduced or paper"):
        load_protocol("quick")
    with pytest.raises(ConfigError, match="protocol reduced: epoch: "):
        load_protocol("reduced", 0, ["epoch=3"])


def test_every_setting_of_both_protocols_is_documented() -> None:
    text = (Path(__file__).resolve().parents[2] / "docs" / "ppi.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| (\S+) \| (\S+) \|$", text, flags=re.MULTILINE)
    settled = [PROTOCOLS[name].model_dump() for name in ("reduced", "paper")]
    assert rows == [(key, str(settled[0][key]), str(settled[1][key])) for key in settled[0]]
    assert "grid of 49" in text and len(SHARES) * len(SPREADS) == 49


def test_a_unit_that_fails_is_named_and_the_others_go_on(
    images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fragile(*args: object) -> None:
        if "attention" in str(args[2]):
            raise MemoryError("no room")
        learn(*args)  # type: ignore[arg-type]

    line = fragile.__code__.co_firstlineno + 2
    monkeypatch.setattr(ppi_study, "learn", fragile)
    plan = StudyPlan(("attention", "mixture"), ppis=(0.5,), repeats=1)
    assert study(images, tmp_path / "out", SMALL, plan) == {
        "attention_01289_0.5_0": f"MemoryError: no room (test_ppi_study.py:{line})"
    }
    assert {row.method for row in runs_of(tmp_path / "out")} == {"Mixture", "Mixture, as learned"}


def test_the_images_are_read_as_they_are(images: Path) -> None:
    assert read_cifar10(images).training.pixels.shape == (5 * RECORDS, 32, 32, 3)
