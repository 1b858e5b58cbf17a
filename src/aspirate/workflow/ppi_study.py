"""The PPI study: every method on the same bags, for every prevalence of positive tiles, again and again.

config.toml provenance.json                        the protocol, and which images it is run on
runs/<training>_<classes>_<ppi>_<repeat>/          scores.safetensors, what a training says of its bags;
                                                   rows.json, what each method that reads it makes of that
runs.csv                                           all rows so far, one for each method × PPI × split × repeat
summary.csv ppi.svg ppi.pdf ppi.png                see workflow/ppi_summary.py

A run is done when its `rows.json` is there, and a training when its scores are: a new way of reading them costs no
training. The grid may grow; the protocol of a folder may not change.
"""

import csv
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, astuple, dataclass, fields
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from aspirate.core.config import parse_changes
from aspirate.core.errors import ConfigError
from aspirate.core.lock import locked
from aspirate.core.log import log_of
from aspirate.core.progress import Advance, Stages, silent_stages
from aspirate.core.ranking import auc
from aspirate.core.store import clear_parts, write_json, write_text
from aspirate.learning.checkpoints import load_tensors, save_tensors
from aspirate.learning.cifar import Cifar10, read_cifar10
from aspirate.learning.device import choose_compute
from aspirate.learning.loop import CHECKPOINT_FILE, fit
from aspirate.nn.mixture import even_score
from aspirate.nn.tile_pooling import Pooling
from aspirate.stages.calibration import decision_threshold
from aspirate.workflow.jobs import done_by
from aspirate.workflow.launch import HERE, Executor, Needs
from aspirate.workflow.ppi_bags import Draw, check_classes, draw_parts
from aspirate.workflow.ppi_methods import METHODS, READINGS, PpiMethod, StudyLearner, StudyProtocol
from aspirate.workflow.run_folder import RunFolder

PROTOCOLS = {
    "reduced": StudyProtocol(),
    "paper": StudyProtocol(
        bags=1000,
        validation_bags=200,
        tiles=100,
        validation_images=10_000,
        width=0.25,
        epochs=30,
        mirror=False,
        keep="last",
        average=0,
    ),
}
"""`paper` is the paper's as far as it says; it does not say which net, batch or optimiser."""
REPEATS = {"reduced": 3, "paper": 10}
PPIS = (0.02, 0.04, 0.06, 0.1, 0.15, 0.2, 0.4, 0.8)
SPLIT = (0, 1, 2, 8, 9)
"""Positive classes unless others are named: vehicles and birds."""


def load_protocol(name: str, seed: int = 0, changes: Sequence[str] = ()) -> StudyProtocol:
    """One of `PROTOCOLS`, with settings changed, as `epochs=4` or `rates.attention=0.002`."""
    if name not in PROTOCOLS:
        raise ConfigError(f"--protocol {name}: no such protocol; use {' or '.join(PROTOCOLS)}")
    values = PROTOCOLS[name].model_dump() | {"seed": seed}
    for key, value in parse_changes(list(changes)).items():
        if key.startswith("rates."):
            values["rates"][key.removeprefix("rates.")] = value
        else:
            values[key] = value
    return StudyProtocol.of(values, source=f"protocol {name}")


SCORES_FILE, ROWS_FILE, RUNS_FOLDER, RUNS_FILE = "scores.safetensors", "rows.json", "runs", "runs.csv"


@dataclass(frozen=True, slots=True)
class PpiRun:
    """One method on one draw of bags; the fields are the columns of `runs.csv`."""

    method: str
    positive_classes: str
    ppi: float
    repeat: int
    accuracy: float
    """Of test bags, at `threshold`, where a logistic curve over scores of validation bags crosses one half."""
    accuracy_youden: float
    """The same at the threshold with the highest sensitivity + specificity on validation bags."""
    auc: float
    threshold: float
    validation_accuracy: float
    validation_auc: float
    learning_rate: float
    seconds: float
    """Training, scoring and reading."""
    fingerprint: str
    """Of the protocol."""


@dataclass(frozen=True, slots=True)
class Unit:
    """One training on one draw of bags."""

    training: str
    draw: Draw

    @property
    def name(self) -> str:
        return f"{self.training}_{self.draw.classes}_{self.draw.ppi:g}_{self.draw.repeat}"

    @property
    def methods(self) -> tuple[PpiMethod, ...]:
        return tuple(method for method in METHODS if method.training == self.training)

    def is_done(self, folder: Path) -> bool:
        path = folder / ROWS_FILE
        return path.exists() and {m.name for m in self.methods} <= {row.method for row in _rows(path)}


@dataclass(frozen=True, slots=True)
class StudyPlan:
    """The grid; of a study that is stopped, whole repeats come first."""

    trainings: tuple[str, ...]
    ppis: tuple[float, ...] = PPIS
    splits: tuple[tuple[int, ...], ...] = (SPLIT,)
    repeats: int = REPEATS["reduced"]

    def __post_init__(self) -> None:
        for ppi in self.ppis:
            if not 0 < ppi <= 1:
                raise ConfigError(f"--ppi {ppi:g}: a share of positive tiles is above 0 and at most 1")
        for classes in self.splits:
            check_classes(classes)

    def units(self) -> Iterator[Unit]:
        for repeat in range(self.repeats):
            for classes in self.splits:
                for ppi in self.ppis:
                    for training in self.trainings:
                        yield Unit(training, Draw(tuple(sorted(classes)), ppi, repeat))


@dataclass(frozen=True, slots=True)
class Job:
    """A unit as another process can do it."""

    cifar10: Path
    out: Path
    protocol: StudyProtocol
    unit: Unit

    def __call__(self, advance: Advance) -> None:
        do(_images(self.cifar10), self.protocol, self.unit, self.out / RUNS_FOLDER / self.unit.name, advance)
        gather(self.out)


@cache
def _images(folder: Path) -> Cifar10:
    """Once in each process."""
    return read_cifar10(folder)


def study(
    cifar10: Path,
    out: Path,
    protocol: StudyProtocol,
    plan: StudyPlan,
    executor: Executor = HERE,
    stages: Stages = silent_stages,
) -> dict[str, str]:
    """Does what is left to do; names units that failed, with their reason. Several at once have a core each."""
    with locked(out):
        RunFolder(out).claim(protocol, _images(cifar10).fingerprint)
        clear_parts(out)
        left = [unit for unit in plan.units() if not unit.is_done(out / RUNS_FOLDER / unit.name)]
        jobs = {unit.name: Job(cifar10.absolute(), out.absolute(), protocol, unit) for unit in left}
        run = done_by(executor, Needs(0 if executor is HERE else 1))
        with log_of(out, "ppi", runs=len(jobs)), stages("PPI study", len(jobs), "runs") as bar:
            failed = run(jobs, bar, 1)
        gather(out)
    return failed


def do(cifar: Cifar10, protocol: StudyProtocol, unit: Unit, folder: Path, advance: Advance) -> None:
    """Learn unless that is done; then let each method read."""
    if not (folder / SCORES_FILE).exists():
        learn(cifar, protocol, unit, folder, advance)
    tensors, note = load_tensors(folder / SCORES_FILE)
    made = [read(method, unit.draw, tensors, note, protocol.fingerprint()) for method in unit.methods]
    write_json(folder / ROWS_FILE, [asdict(row) for row in made])
    (folder / CHECKPOINT_FILE).unlink(missing_ok=True)


def learn(cifar: Cifar10, protocol: StudyProtocol, unit: Unit, folder: Path, advance: Advance) -> None:
    """Leaves the scores of validation and test bags, and all that is needed to read them."""
    started = time.perf_counter()
    parts = draw_parts(cifar, protocol, unit.draw)
    learner = StudyLearner(unit.training, cifar, parts, protocol, 1000 * protocol.seed + unit.draw.repeat)
    part = 1 / learner.plan.steps
    history = fit(learner, learner.plan, folder, choose_compute("fp32"), lambda _step, _loss: advance(part))
    tensors = {
        "validation": learner.scores(parts.validation, cifar.training.pixels),
        "validation_positive": torch.from_numpy(parts.validation.positive),
        "test": learner.scores(parts.test, cifar.test.pixels),
        "test_positive": torch.from_numpy(parts.test.positive),
    }
    note = {
        "pooling": asdict(learner.module.pooling()),
        "learning_rate": learner.plan.learning_rate,
        "seconds": time.perf_counter() - started,
        "history": history,
    }
    save_tensors(folder / SCORES_FILE, tensors, note)


def read(method: PpiMethod, draw: Draw, tensors: dict[str, Tensor], note: dict[str, Any], fingerprint: str) -> PpiRun:
    """Score and thresholds are made of validation bags before test bags are looked at."""
    started = time.perf_counter()
    seen, positive = tensors["validation"], tensors["validation_positive"]
    bag_score = READINGS[method.reading](seen, positive, Pooling(**note["pooling"]))
    on_validation = bag_score(seen)
    even, youden = even_score(on_validation, positive), decision_threshold(on_validation, positive)
    on_test, truth = bag_score(tensors["test"]).numpy(), tensors["test_positive"].numpy()
    seconds = float(note["seconds"]) + time.perf_counter() - started
    return PpiRun(
        method.name,
        draw.classes,
        draw.ppi,
        draw.repeat,
        float(np.mean((on_test > even) == truth)),
        float(np.mean((on_test > youden) == truth)),
        auc(on_test, truth),
        even,
        float(((on_validation > even) == positive).double().mean()),
        auc(on_validation, positive),
        float(note["learning_rate"]),
        seconds,
        fingerprint,
    )


def _rows(path: Path) -> list[PpiRun]:
    return [PpiRun(**row) for row in json.loads(path.read_text(encoding="utf-8"))]


def runs_of(out: Path) -> tuple[PpiRun, ...]:
    """All rows so far of methods there are, in their order."""
    order = {method.name: number for number, method in enumerate(METHODS)}
    found = [row for path in (out / RUNS_FOLDER).glob(f"*/{ROWS_FILE}") for row in _rows(path) if row.method in order]
    return tuple(sorted(found, key=lambda r: (r.positive_classes, r.ppi, r.repeat, order[r.method])))


def gather(out: Path) -> None:
    text = StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(field.name for field in fields(PpiRun))
    table.writerows([f"{v:.6g}" if isinstance(v, float) else v for v in astuple(row)] for row in runs_of(out))
    write_text(out / RUNS_FILE, text.getvalue())
