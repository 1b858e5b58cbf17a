"""From a table of predictions to what can be said of them: figures with intervals, tables, and one page."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from aspirate import __version__
from aspirate.core.errors import AspirateError, TableError
from aspirate.core.learning_points import read_learning_points
from aspirate.core.predictions import Prediction
from aspirate.core.progress import Stages, silent_stages
from aspirate.core.records import Annotation
from aspirate.core.store import (
    CONFIG_FILE,
    LEARNING_CURVE_FILE,
    PROVENANCE_FILE,
    REPORT_FILE,
    SPLITS_FILE,
    atomic_path,
    write_json,
    write_text,
)
from aspirate.core.tile_file import TileTable
from aspirate.evaluation.analysis import Analysis, analyse
from aspirate.evaluation.material import EvaluateSettings, Learned, Material, TileFacts, brought_together
from aspirate.evaluation.metrics import as_json
from aspirate.evaluation.readers import readers_of
from aspirate.evaluation.report_tables import tables
from aspirate.evaluation.summary import sentences
from aspirate.evaluation.tables import as_csv, as_latex
from aspirate.slides.annotations import AnnotationIndex
from aspirate.slides.cohort import Cohort
from aspirate.workflow.prediction_tables import read_any_predictions, read_readers
from aspirate.workflow.report_page import write_report
from aspirate.workflow.report_pictures import collect_pictures, fold_tiles

if TYPE_CHECKING:  # it needs matplotlib, which takes its time
    from aspirate.evaluation.drawing import Drawing

BINS = 50
"""Of the histogram of informativeness."""
USE = "Research use only. Not for diagnosis."


@dataclass(frozen=True, slots=True)
class Sources:
    """Files to evaluate; those not named are looked for beside the predictions."""

    predictions: Path
    cohort: Path | None = None
    readers: Path | None = None
    validation: Path | None = None


@dataclass(frozen=True, slots=True)
class EvaluateSummary:
    analysis: Analysis
    sentences: tuple[str, ...]
    """What was found, in words."""
    metrics: Path
    page: Path
    figures: Path
    tables: Path


def evaluate_run(run: Path, settings: EvaluateSettings, stages: Stages = silent_stages) -> EvaluateSummary:
    """Of a cross-validation, into its own folder."""
    return evaluate(Sources(run / "predictions.csv"), run, settings, stages)


def evaluate(
    sources: Sources, out: Path, settings: EvaluateSettings, stages: Stages = silent_stages
) -> EvaluateSummary:
    """Writes `metrics.json`, `report/index.html`, `figures/` and `tables/` into `out`."""
    material = gather(sources, settings)
    with stages("comparing", len(material.methods), "methods") as bar:
        analysis = analyse(material, settings, bar)
    places = (out / "metrics.json", out / REPORT_FILE, out / "figures", out / "tables")
    summary = EvaluateSummary(analysis, sentences(analysis), *places)
    origin = _origin(sources)
    write_json(summary.metrics, {"use": USE, **origin, **as_json(analysis)})
    made = tables(analysis)
    for table in made.values():
        write_text(summary.tables / f"{table.name}.csv", as_csv(table))
        write_text(summary.tables / f"{table.name}.tex", as_latex(table))
    drawings = _drawings(analysis, summary.figures, stages)
    entries = {entry.slide_id: entry for entry in material.entries}
    pictures = collect_pictures(sources.predictions.parent, material.methods[analysis.reference], entries)
    write_report(summary.page, analysis, made, drawings, pictures, origin)
    return summary


def _drawings(analysis: Analysis, folder: Path, stages: Stages) -> dict[str, "Drawing"]:
    """Each as SVG and PDF."""
    from aspirate.evaluation.figures import draw_figures, planned

    plan = planned(analysis)
    with stages("drawing", len(plan), "figures") as bar:
        drawings = draw_figures(plan, bar)
    for drawing in drawings.values():
        write_text(folder / f"{drawing.name}.svg", drawing.svg)
        with atomic_path(folder / f"{drawing.name}.pdf") as part:
            part.write_bytes(drawing.pdf)
    return drawings


def _origin(sources: Sources) -> dict[str, str]:
    """Version, and what the figures rest on; of a run of ours its recipe, folds and cohort too."""
    folder = sources.predictions.parent
    files = {"predictions": sources.predictions, "recipe": folder / CONFIG_FILE, "splits": folder / SPLITS_FILE}
    origin = {"aspirate_version": __version__}
    for name, path in files.items():
        if path.exists():
            origin[f"{name}_sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
    if cohort := _json(folder / PROVENANCE_FILE).get("cohort"):
        origin["cohort_fingerprint"] = str(cohort)
    return origin


def gather(sources: Sources, settings: EvaluateSettings) -> Material:
    """Everything that is known of the predictions; what was looked for and cannot be used is noted."""
    folder = sources.predictions.parent
    predictions = read_any_predictions(sources.predictions)
    beside = folder / "validation.csv"
    validation = sources.validation or (beside if beside.exists() else None)
    run = _json(folder / "crossval.json")
    notes: list[str] = []
    cohort = _cohort(sources, run, notes)
    readers = readers_of(cohort.entries) if cohort else ()
    notes += [f"{unit} failed: {why}" for unit, why in run.get("failed", {}).items()]
    found = Material(
        predictions=predictions,
        validation=read_any_predictions(validation) if validation else (),
        entries=cohort.entries if cohort else (),
        readers=read_readers(sources.readers) if sources.readers else readers,
        learned=_learned(_json(folder / "models.json")),
        stage_1=_json(folder / "stage1.json"),
        marks=_marks(cohort, notes) if cohort else {},
        learning_curve=read_learning_points(curve) if (curve := folder / LEARNING_CURVE_FILE).exists() else (),
        skipped=run.get("skipped", {}),
    )
    material = brought_together(replace(found, notes=tuple(notes)))
    return replace(material, tiles=tile_facts(folder, material.methods[material.reference(settings)]))


def _json(path: Path) -> dict[str, Any]:
    """Empty where there is no such file."""
    if not path.exists():
        return {}
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise TableError(str(path), [f"is no JSON ({error}); remove it, or make it anew"]) from error
    if not isinstance(found, dict):
        raise TableError(str(path), ["holds no JSON object; remove it, or make it anew"])
    return found


def _cohort(sources: Sources, run: Mapping[str, Any], notes: list[str]) -> Cohort | None:
    if sources.cohort is not None:
        return Cohort.read(sources.cohort)
    named = run.get("cohort")
    if named is None:
        return None
    try:
        return Cohort.read(named)
    except AspirateError:
        notes.append(
            f"the cohort of the run, {named}, cannot be read: patients, sites, readers and annotations are unknown"
        )
        return None


def _learned(models: Mapping[str, Any]) -> dict[tuple[str, str], Learned]:
    found = {}
    for key, model in models.items():
        fold, _, method = key.partition("/")
        found[fold, method] = Learned(tuple(model.get("cuts", {}).get("S", ())), model.get("threshold"))
    return found


def _marks(cohort: Cohort, notes: list[str]) -> dict[str, tuple[Annotation, ...]]:
    index = AnnotationIndex.of(cohort.folder)
    marks = {}
    for entry in cohort.entries:
        if entry.slide_id in index.slide_ids:
            try:
                marks[entry.slide_id] = index.read(entry.slide_id)
            except AspirateError as error:
                notes.append(f"annotations of {entry.slide_id} are left out: {error}")
    return marks


def tile_facts(run: Path, rows: tuple[Prediction, ...]) -> tuple[TileFacts, ...]:
    """Of each test slide whose tiles are kept, as its own fold saw them."""
    found = ((row.slide_id, fold_tiles(run, row)) for row in sorted(rows, key=lambda row: row.slide_id))
    return tuple(facts_of(slide_id, tiles) for slide_id, tiles in found if tiles is not None)


def facts_of(slide_id: str, tiles: TileTable) -> TileFacts:
    informativeness = tiles.values["informativeness"]
    scores = tiles.values.get("malignancy", np.empty(0))
    scores = scores[np.isfinite(scores)].astype(np.float64)
    return TileFacts(
        slide_id=slide_id,
        informativeness=tuple(np.histogram(informativeness, bins=BINS, range=(0, 1))[0].tolist()),
        informative=int((informativeness > 0.5).sum()),
        judged=len(scores),
        positive=int((scores > 0).sum()),
        mean_probability=float((1 / (1 + np.exp(-scores))).mean()) if len(scores) else float("nan"),
    )
