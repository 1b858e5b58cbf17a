"""Every row of the comparison on every fold of a synthetic cohort, with the oracle and the readers beside them.

python -m benchmarks.comparison OUT [--slides 160] [--size 4096] [--seed 22] [--recipe quick] [--set key=value …]

Draws OUT/cohort, cross-validates into OUT/run, evaluates it there and, with the oracle as one more row, in OUT/oracle;
prints the tables as Markdown. Writes as it goes and resumes. The oracle sees the true grade of every group.
"""

import argparse
import json
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
from benchmarks.method import grid_of, oracle, truth_of

from aspirate.cli.crew import crew_for_units
from aspirate.cli.display import progress
from aspirate.cli.grid_view import GridView
from aspirate.core.config import parse_changes
from aspirate.core.predictions import Prediction, read_predictions, write_predictions
from aspirate.core.ranking import auc, rank_correlation
from aspirate.core.store import TRUTH_FILE
from aspirate.core.tile_file import read_tiles
from aspirate.evaluation.agreement import weighted_kappa
from aspirate.evaluation.material import PROPOSED, EvaluateSettings
from aspirate.evaluation.report_tables import tables
from aspirate.evaluation.tables import Table, text
from aspirate.slides.tile_labels import tiles_met
from aspirate.stages.calibration import fit_cuts
from aspirate.stages.selection import SelectionSettings, tile_weights
from aspirate.stages.slide_score import bethesda_of, slide_score
from aspirate.synth.cohort import make_cohort
from aspirate.synth.settings import SynthSettings
from aspirate.workflow.crossval import Plan, crossval
from aspirate.workflow.evaluate import Sources, evaluate, evaluate_run
from aspirate.workflow.jobs import done_by
from aspirate.workflow.recipe import load_recipe

ORACLE = "Oracle"
PREVALENCES = (0.001, 0.01, 0.1)
SHOWN = ("methods", "against_reference", "readers", "combination", "agreement", "stage_1")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--slides", type=int, default=160)
    parser.add_argument("--size", type=int, default=4096)
    parser.add_argument("--seed", type=int, default=22)
    parser.add_argument("--recipe", default="quick")
    parser.add_argument("--set", action="append", default=[])
    given = parser.parse_args()
    settings = SynthSettings(slides=given.slides, size=(given.size, given.size), seed=given.seed)
    cohort, run, view = given.out / "cohort", given.out / "run", GridView()
    crew = crew_for_units("local", 0, 1)
    with progress("drawing slides", settings.megapixels, "Mpx") as bar:
        make_cohort(settings, cohort, lambda pixels: bar(pixels / 1e6), done_by(crew))
    start = time.perf_counter()
    recipe = load_recipe(given.recipe, parse_changes(given.set))
    summary = crossval(cohort, recipe, run, Plan(), view.stages, view.plan, crew)
    of_run = tables(evaluate_run(run, EvaluateSettings(), progress).analysis)
    print(f"{(time.perf_counter() - start) / 60:.1f} minutes, drawing apart; failed: {summary.failed or 'nothing'}")
    beside = given.out / "oracle"
    rows = read_predictions(run / "predictions.csv")
    write_predictions(beside / "predictions.csv", [*rows, *oracles(rows, cohort / TRUTH_FILE)])
    sources = Sources(beside / "predictions.csv", cohort, validation=run / "validation.csv")
    with_oracle = tables(evaluate(sources, beside, EvaluateSettings(), progress).analysis)
    for name in SHOWN:
        print(markdown((with_oracle if name in with_oracle else of_run)[name]))
    print(markdown(counted_otherwise(rows, run, cohort / TRUTH_FILE)))
    print(markdown(cut_otherwise(rows, run)))


def oracles(rows: Iterable[Prediction], truth_file: Path) -> list[Prediction]:
    """What one who sees every true grade says of the slides that the proposed method judged, in the same folds."""
    truth = truth_of(truth_file)
    return [
        replace(row, method=ORACLE, score=said, probability=said, predicted_malignant=None, predicted_bethesda=None)
        for row in rows
        if row.method == PROPOSED and row.status == "ok"
        for said in (oracle(truth[row.slide_id]),)
    ]


def counted_otherwise(rows: Iterable[Prediction], run: Path, truth_file: Path) -> Table:
    """How the proposed method would order slides if its kept tiles counted otherwise, its nets as they are."""
    truth = truth_of(truth_file)
    judged = [row for row in rows if row.method == PROPOSED and row.status == "ok"]
    scores: dict[str, list[float]] = {}
    for row in judged:
        table = read_tiles(run / f"fold-{row.fold}" / "tiles" / f"{row.slide_id}.h5")
        kept = np.flatnonzero(table.values["selected"])
        g, p = table.values["malignancy"][kept], table.values["informativeness"][kept]
        real = np.isin(kept, tiles_met(grid_of(table), truth[row.slide_id])[1])
        weights = {
            "alike": np.ones(len(kept)),
            **{f"u for π = {pi:g}": tile_weights(p, SelectionSettings(prevalence=pi)) for pi in PREVALENCES},
            "only those with cells": (real if real.any() else ~real).astype(float),
        }
        for name, u in weights.items():
            scores.setdefault(name, []).append(slide_score(g, u))
    best, folds = (np.array(each) for each in zip(*((oracle(truth[r.slide_id]), r.fold) for r in judged), strict=True))
    malignant = np.array([bool(row.malignant) for row in judged])
    parts = [folds == fold for fold in np.unique(folds)]
    cells: list[tuple[str, float, float, int]] = []
    for name, own in scores.items():
        f = np.array(own)
        aucs = [auc(f[part], malignant[part]) for part in parts]
        follows = [rank_correlation(f[part], best[part]) for part in parts]
        cells.append((name, float(np.mean(aucs)), float(np.mean(follows)), len(judged)))
    columns = ("kept tiles count", "AUC, mean over folds", "rank correlation with the oracle", "slides")
    return Table("counted", "What if kept tiles counted otherwise", columns, tuple(cells))


def cut_otherwise(rows: Iterable[Prediction], run: Path) -> Table:
    """How categories agree with the report if cuts are those learned, or fitted to scores of validation slides."""
    learned = {name: note["cuts"].get("S", ()) for name, note in json.loads((run / "models.json").read_text()).items()}
    validation: dict[tuple[str, str], list[tuple[float, int]]] = {}
    for row in read_predictions(run / "validation.csv"):
        if row.bethesda is not None and row.score is not None:
            validation.setdefault((row.fold, row.method), []).append((row.score, row.bethesda))
    fitted = {name: fit_cuts(*zip(*own, strict=True)) for name, own in validation.items()}
    said: dict[str, list[tuple[int, ...]]] = {}
    for row in rows:
        cuts = learned[f"{row.fold}/{row.method}"], fitted.get((row.fold, row.method))
        if row.status == "ok" and row.bethesda is not None and row.score is not None and all(cuts):
            said.setdefault(row.method, []).append(
                (row.bethesda, *(bethesda_of(row.score, own) for own in cuts if own))
            )
    cells: list[tuple[str | float, ...]] = []
    for method, found in said.items():
        report, *ways = (np.array(column) for column in zip(*found, strict=True))
        kappas = [weighted_kappa(report, way).value for way in ways]
        cells.append((method, *kappas, *(" ".join(map(str, np.bincount(c, minlength=7)[2:])) for c in (report, *ways))))
    columns = ("row", "κ, learned cuts", "κ, cuts of slides", "report: 2 … 6", "learned: 2 … 6", "of slides: 2 … 6")
    return Table("cut", "What if categories were cut otherwise", columns, tuple(cells))


def markdown(table: Table) -> str:
    lines = [table.columns, ["---"] * len(table.columns), *([text(cell) for cell in row] for row in table.rows)]
    return "\n".join([f"\n### {table.title}", *(f"| {' | '.join(cells)} |" for cells in lines), f"\n{table.note}"])


if __name__ == "__main__":
    main()
