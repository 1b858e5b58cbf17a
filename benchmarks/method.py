"""The two-stage method against planted truth: trained on some sites, tested on slides and a site never seen.

python benchmarks/method.py OUT [--slides 330] [--size 6144] [--train 160] [--set key=value …]
python benchmarks/method.py OUT --run fixed --stage1 run --set selection.mode=fixed
python benchmarks/method.py OUT --levels   # afterwards: what if only tiles from a higher level on had counted

Writes as it goes and resumes: OUT/cohort, OUT/run, OUT/predictions, OUT/figures.json. Test slides are read only after
training has ended; nothing was tuned on them.
"""

import argparse
import csv
import json
from collections import defaultdict
from pathlib import Path

import numpy as np
import shapely

from aspirate.cli.display import progress
from aspirate.core.config import parse_changes
from aspirate.core.geometry import Size, TileGrid
from aspirate.core.labels import Abnormality
from aspirate.core.predictions import read_predictions
from aspirate.core.ranking import auc
from aspirate.core.records import Annotation, SlideEntry
from aspirate.core.store import write_json
from aspirate.core.tile_file import TileTable, read_tiles, write_tiles
from aspirate.evaluation.agreement import weighted_kappa
from aspirate.slides.cohort import Cohort
from aspirate.slides.tile_labels import tiles_met
from aspirate.stages.calibration import fit_cuts
from aspirate.stages.selection import SelectionSettings, tile_weights
from aspirate.stages.slide_score import bethesda_of, slide_score
from aspirate.synth.cohort import make_cohort
from aspirate.synth.settings import SynthSettings
from aspirate.workflow.bundle import load_bundle
from aspirate.workflow.jobs import done_by
from aspirate.workflow.local_pool import LocalPool
from aspirate.workflow.predict import load_model
from aspirate.workflow.recipe import load_recipe
from aspirate.workflow.train import train

UNSEEN_SITE = "site-C"
BOOTSTRAPS = 2000
LEVELS = (0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--slides", type=int, default=330)
    parser.add_argument("--size", type=int, default=6144)
    parser.add_argument("--train", type=int, default=160)
    parser.add_argument("--seed", type=int, default=12)
    parser.add_argument("--run", default="run")
    parser.add_argument("--stage1", help="another run of OUT, whose stage 1 and screening are taken over")
    parser.add_argument("--levels", action="store_true")
    parser.add_argument("--set", action="append", default=[])
    given = parser.parse_args()
    settings = SynthSettings(slides=given.slides, size=(given.size, given.size), seed=given.seed)
    folder = given.out / "cohort"
    with progress("drawing slides", settings.megapixels, "Mpx") as bar:
        make_cohort(settings, folder, lambda pixels: bar(pixels / 1e6), done_by(LocalPool(2)))
    training, testing = divide(Cohort.read(folder), given.train)
    Cohort.write(folder / "train.csv", training)
    run = given.out / given.run
    shared = given.out / given.stage1 if given.stage1 else None
    summary = train(
        folder / "train.csv", load_recipe("compact", parse_changes(given.set)), run, progress, stage_1=shared
    )
    screened = None if shared is None else shared / "predictions"
    results = predict(summary.model, testing, run / "predictions", screened)
    truth, bundle = truth_of(folder / "truth.csv"), load_bundle(summary.model)
    figures = judge(testing, results, truth, bundle.confident)
    figures["category"] = categories(testing, results, run / "predictions.csv", bundle.cuts["S"])
    write_json(run / "figures.json", {"validation": summary.figures, **figures})
    print(json.dumps(figures, indent=1))
    if given.levels:
        print(json.dumps(at_levels(testing, results, truth, bundle.recipe.selection), indent=1))


def divide(cohort: Cohort, count: int) -> tuple[list[SlideEntry], list[SlideEntry]]:
    """The first slides of the seen sites train, patients whole; all others test."""
    training: list[SlideEntry] = []
    for entry in cohort.entries:
        if entry.site != UNSEEN_SITE and len(training) < count:
            training.append(entry)
    patients = {entry.patient for entry in training}
    return training, [entry for entry in cohort.entries if entry.patient not in patients]


def predict(
    model_folder: Path, testing: list[SlideEntry], out: Path, screened: Path | None
) -> dict[str, tuple[float, TileTable]]:
    """Slide scores and tiles of every test slide; those already there, or screened by the same net, are read."""
    model = load_model(model_folder)
    results = {}
    with progress("predicting", len(testing), "slides") as advance:
        for entry in testing:
            tiles, score = out / f"{entry.slide_id}.h5", out / f"{entry.slide_id}.json"
            if not score.exists():
                known = None
                if screened is not None and (screened / tiles.name).exists():
                    known = read_tiles(screened / tiles.name).values["informativeness"]
                result = model.predict(entry, informativeness=known)
                write_tiles(tiles, result.tiles)
                write_json(score, result.score)
            results[entry.slide_id] = (json.loads(score.read_text()), read_tiles(tiles))
            advance(1)
    return results


def grid_of(table: TileTable) -> TileGrid:
    return TileGrid(table.size_px0 or Size(0, 0), table.side_px0, table.side_px, table.slide_mpp or 0.25)


def truth_of(path: Path) -> dict[str, list[Annotation]]:
    groups = defaultdict(list)
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            x, y, width, height = (float(row[k]) for k in ("x", "y", "width", "height"))
            box = shapely.box(x, y, x + width, y + height)
            groups[row["slide_id"]].append(Annotation(box, Abnormality(int(row["abnormality"]))))
    return groups


def oracle(groups: list[Annotation]) -> float:
    """Share of malignant groups and a quarter of the share of atypical ones."""
    grades = np.array([group.abnormality for group in groups])
    return float((grades == 2).mean() + (grades == 1).mean() / 4)


def judge(
    testing: list[SlideEntry],
    results: dict[str, tuple[float, TileTable]],
    truth: dict[str, list[Annotation]],
    confident: float,
) -> dict[str, object]:
    informativeness, informative, found, groups = [], [], 0, 0
    for entry in testing:
        _, table = results[entry.slide_id]
        grid = grid_of(table)
        owners, tiles = tiles_met(grid, truth[entry.slide_id])
        labels = np.zeros(len(grid), bool)
        labels[tiles] = True
        informativeness.append(table.values["informativeness"])
        informative.append(labels)
        chosen = table.values["selected"]
        hit = np.zeros(len(truth[entry.slide_id]), bool)
        np.logical_or.at(hit, owners, chosen[tiles])
        found, groups = found + int(hit.sum()), groups + len(hit)
    flat = np.concatenate(informative)
    per_slide = [auc(p, y) for p, y in zip(informativeness, informative, strict=True)]
    figures: dict[str, object] = {
        "stage1_auc": auc(np.concatenate(informativeness), flat),
        "stage1_auc_worst_slide": min(per_slide),
        "group_recall": found / groups,
        "confident_precision": float(flat[np.concatenate(informativeness) >= confident].mean()),
    }
    for name, chosen_slides in (
        ("all", testing),
        ("seen_sites", [e for e in testing if e.site != UNSEEN_SITE]),
        ("unseen_site", [e for e in testing if e.site == UNSEEN_SITE]),
    ):
        f = np.array([results[e.slide_id][0] for e in chosen_slides])
        o = np.array([oracle(truth[e.slide_id]) for e in chosen_slides])
        y = np.array([bool(e.malignant) for e in chosen_slides])
        figures[name] = {"slides": len(y), "malignant": int(y.sum()), "auc": auc(f, y), "oracle_auc": auc(o, y)}
        figures[name] |= {"gap": auc(o, y) - auc(f, y), "gap_95": bootstrap_gap(f, o, y)}  # type: ignore[operator]
    return figures


def categories(
    testing: list[SlideEntry], results: dict[str, tuple[float, TileTable]], validation: Path, learned: list[float]
) -> dict[str, float]:
    """κ with the report by the cuts learned for tiles, and by those fitted to validation slides."""
    rows = [r for r in read_predictions(validation) if r.score is not None and r.bethesda is not None]
    fitted = fit_cuts([r.score or 0.0 for r in rows], [r.bethesda or 0 for r in rows])
    known = [(e.bethesda, results[e.slide_id][0]) for e in testing if e.bethesda is not None]
    report, scores = [category for category, _ in known], [score for _, score in known]
    return {
        name: weighted_kappa(report, [bethesda_of(score, cuts) for score in scores]).value
        for name, cuts in (("kappa_learned_cuts", learned), ("kappa_cuts_of_slides", fitted))
    }


def at_levels(
    testing: list[SlideEntry],
    results: dict[str, tuple[float, TileTable]],
    truth: dict[str, list[Annotation]],
    selection: SelectionSettings,
) -> dict[float, dict[str, float]]:
    """Of the tiles that were kept, only those from a level on: how many are real, and how slides would be ordered."""
    malignant = np.array([bool(entry.malignant) for entry in testing])
    seen = np.array([entry.site != UNSEEN_SITE for entry in testing])
    figures = {}
    for level in LEVELS:
        scores, real, kept, found, groups = [], 0, 0, 0, 0
        for entry in testing:
            table = results[entry.slide_id][1]
            p, selected = table.values["informativeness"], table.values["selected"]
            best = np.flatnonzero(selected)[np.argsort(-p[selected], kind="stable")]
            still = best[: max(selection.least, int((p[best] >= level).sum()))]
            owners, tiles = tiles_met(grid_of(table), truth[entry.slide_id])
            scores.append(slide_score(table.values["malignancy"][still], tile_weights(p[still], selection)))
            real, kept = real + int(np.isin(still, tiles).sum()), kept + len(still)
            found += len(np.unique(owners[np.isin(tiles, still)]))
            groups += len(truth[entry.slide_id])
        f = np.array(scores)
        figures[level] = {
            "precision": real / kept,
            "group_recall": found / groups,
            "auc_seen_sites": auc(f[seen], malignant[seen]),
            "auc_unseen_site": auc(f[~seen], malignant[~seen]),
        }
    return figures


def bootstrap_gap(f: np.ndarray, o: np.ndarray, y: np.ndarray) -> list[float]:
    """Paired: oracle and method on the same resampled slides."""
    rng = np.random.default_rng(0)
    gaps = []
    for _ in range(BOOTSTRAPS):
        pick = rng.integers(0, len(y), len(y))
        gaps.append(auc(o[pick], y[pick]) - auc(f[pick], y[pick]))
    return [float(g) for g in np.nanpercentile(gaps, [2.5, 97.5])]


if __name__ == "__main__":
    main()
