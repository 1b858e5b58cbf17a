"""What is served: slides, predictions and a model, found in the places that a person names.

A place is a cohort (table or folder), a folder of slides or one slide, the results of `predict`, a run, a model, or a
folder that holds some of these, as `aspirate demo` leaves one.
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from aspirate.core.errors import CohortError, ConfigError
from aspirate.core.predictions import Prediction, read_predictions
from aspirate.core.records import SlideEntry
from aspirate.core.store import COHORT_FILE, PROVENANCE_FILE, REPORT_FILE, TILE_FOLDER
from aspirate.evaluation.material import PROPOSED
from aspirate.slides.cohort import canonical_id
from aspirate.slides.doctor import slides_at
from aspirate.stages.calibration import Calibration

PREDICTIONS_FILE, RECORD_FILE = "predictions.csv", "predictions.json"
MODEL_FOLDER, MODEL_FILE = "model", "model.json"
OURS = "Proposed"
SAME_PROBABILITY = 1e-3
"""Predictions are written with six digits of score and probability."""


@dataclass(frozen=True, slots=True)
class ServedSlide:
    """One slide as the reading room knows it; only `name` is ever told to a browser."""

    name: str
    slide_id: str
    entry: SlideEntry | None
    """None where a prediction names a slide whose file is in none of the places."""
    prediction: Prediction | None = None
    tiles: Path | None = None
    annotations: Path | None = None
    """The cohort's folder, beside whose table annotations belong."""


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What turns scores into words, as the model bundle says it; no nets."""

    confident: float
    cuts: tuple[float, ...]
    threshold: float
    calibration: Calibration
    groups_needed: int
    provenance: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Served:
    slides: Mapping[str, ServedSlide]
    """By the name that browsers use."""
    model: ModelFacts | None
    report: Path | None
    desk: Path
    """Folder where what readers enter is kept."""


@dataclass(frozen=True, slots=True)
class _Found:
    cohorts: tuple[Path, ...]
    results: tuple[Path, ...]
    models: tuple[Path, ...]


def find(places: Sequence[Path], mpp: float | None = None, file_names: bool = False, method: str = "") -> Served:
    """`mpp` serves slides that have none; `file_names` lets names of bare files be seen, else they are numbered."""
    found = _found(places)
    cohorts = found.cohorts or tuple(_cohorts_of_runs(found.results))
    slides = list(_entries(cohorts, mpp))
    known = {slide.slide_id for slide in slides}
    slides += [slide for slide in _entries_of_results(found.results) if slide.slide_id not in known]
    if not slides:
        raise ConfigError(
            f"{', '.join(map(str, places))}: no slides here; name their cohort or folder too, "
            "as in: aspirate serve RESULTS COHORT"
        )
    predicted = dict(_predicted(found.results, method))
    known = {slide.slide_id for slide in slides}
    slides = [replace(slide, **predicted.get(slide.slide_id, {})) for slide in slides]
    slides += [ServedSlide(name, name, None, **what) for name, what in predicted.items() if name not in known]
    slides = list(_named(slides, file_names))
    _refuse_twice(slides)
    reports = [root / REPORT_FILE for root in found.results if (root / REPORT_FILE).is_file()]
    first = Path(places[0])
    return Served(
        slides={slide.name: slide for slide in slides},
        model=_model(found.models, [slide.prediction for slide in slides if slide.prediction]),
        report=reports[0] if reports else None,
        desk=first if first.is_dir() else first.parent,
    )


def _found(places: Sequence[Path]) -> _Found:
    cohorts: list[Path] = []
    results: list[Path] = []
    models: list[Path] = []
    for place in _expanded(places):
        if (place / PREDICTIONS_FILE).is_file():
            results.append(place)
            if (place / MODEL_FOLDER / MODEL_FILE).is_file():
                models.append(place / MODEL_FOLDER / MODEL_FILE)
        elif (place / MODEL_FILE).is_file():
            models.append(place / MODEL_FILE)
        elif (place / MODEL_FOLDER / MODEL_FILE).is_file():
            models.append(place / MODEL_FOLDER / MODEL_FILE)
        else:
            cohorts.append(place)
    # what was predicted on purpose goes before the validation slides of a run
    return _Found(
        tuple(cohorts), tuple(sorted(results, key=lambda root: (root / MODEL_FOLDER).exists())), tuple(models)
    )


def _expanded(places: Sequence[Path]) -> Iterator[Path]:
    marks = (PREDICTIONS_FILE, MODEL_FILE, COHORT_FILE, f"{MODEL_FOLDER}/{MODEL_FILE}")
    for place in map(Path, places):
        inside = sorted(place.iterdir()) if place.is_dir() else []
        if not inside or any((place / mark).is_file() for mark in marks):
            yield place
            continue
        held = [path for path in inside if any((path / mark).is_file() for mark in marks)]
        yield from held or [place]


def _cohorts_of_runs(results: Sequence[Path]) -> Iterator[Path]:
    """A training or a cross-validation says which cohort it was made on; one that has moved since is no help."""
    for root in results:
        try:
            path = Path(json.loads((root / PROVENANCE_FILE).read_text(encoding="utf-8"))["cohort_path"])
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if path.exists():
            yield path


def _entries_of_results(results: Sequence[Path]) -> Iterator[ServedSlide]:
    """Predictions say from which files they were made; a slide that is called as its file has no other name."""
    for root in results:
        try:
            files = json.loads((root / RECORD_FILE).read_text(encoding="utf-8"))["files"]
            entries = [SlideEntry(str(name), Path(path), mpp=mpp) for name, (path, mpp) in files.items()]
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue
        for entry in entries:
            name = "" if entry.slide_id in (entry.path.stem, entry.path.name) else entry.slide_id
            yield ServedSlide(name, entry.slide_id, entry)


def _named(slides: Sequence[ServedSlide], file_names: bool) -> Iterator[ServedSlide]:
    """Slides that have no name but their file's, which may be a patient's, are numbered unless told otherwise."""
    number = 0
    for slide in slides:
        if slide.name:
            yield slide
            continue
        number += 1
        yield replace(slide, name=slide.slide_id if file_names else f"slide {number}")


def _entries(cohorts: Sequence[Path], mpp: float | None) -> Iterator[ServedSlide]:
    for place in cohorts:
        cohort, problems = slides_at(place)
        if problems:
            raise CohortError(str(place), problems)
        writable = os.access(cohort.folder, os.W_OK)
        for entry in cohort.entries:
            if entry.mpp is None and mpp is not None:
                entry = replace(entry, mpp=mpp)
            if cohort.columns:
                folder = cohort.folder if writable else None
                yield ServedSlide(entry.slide_id, entry.slide_id, entry, annotations=folder)
            else:
                yield ServedSlide("", entry.slide_id, entry)


def _predicted(results: Sequence[Path], method: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The first result of each slide, by one method where a table has several."""
    seen: set[str] = set()
    for root in results:
        rows = read_predictions(root / PREDICTIONS_FILE)
        wanted = method or _usual_method(rows)
        if method and rows and method not in {row.method for row in rows}:
            names = ", ".join(sorted({row.method for row in rows}))
            raise ConfigError(f"{root / PREDICTIONS_FILE}: no method {method!r}; it has {names}")
        for row in rows:
            if row.slide_id in seen or (row.method != wanted and row.status != "failed"):
                continue
            seen.add(row.slide_id)
            files = (root / TILE_FOLDER, root / f"fold-{row.fold}" / TILE_FOLDER)
            tiles = [folder / f"{row.slide_id}.h5" for folder in files if (folder / f"{row.slide_id}.h5").is_file()]
            yield row.slide_id, {"prediction": row, "tiles": tiles[0] if tiles else None}


def _usual_method(rows: Sequence[Prediction]) -> str:
    """Ours goes before its rivals, with the labels that serve it best; else whatever comes first."""
    names = [row.method for row in rows if row.method]
    ours = [name for name in names if name.startswith(OURS)]
    return PROPOSED if PROPOSED in ours else next(iter(ours or names), "")


def _refuse_twice(slides: Sequence[ServedSlide]) -> None:
    names = [canonical_id(slide.name) for slide in slides]
    if twice := sorted({slide.name for slide in slides if names.count(canonical_id(slide.name)) > 1}):
        raise ConfigError(f"several slides are called {', '.join(twice)}; serve their cohorts one at a time")


def _model(files: Sequence[Path], predictions: Sequence[Prediction]) -> ModelFacts | None:
    """The model that gives the probabilities which were predicted; another one would explain nothing."""
    rows = [row for row in predictions if row.probability is not None]
    scores, said = [row.score or 0.0 for row in rows], [row.probability or 0.0 for row in rows]
    for model in map(_read_model, files):
        if np.allclose(model.calibration.probability(scores), said, atol=SAME_PROBABILITY):
            return model
    return None


def _cuts(note: Mapping[str, Any]) -> tuple[float, ...]:
    """On the axis of slide scores: those of slides, or the learned ones where they lie there, which those of two heads
    and of the mixture method do not."""
    malignancy = note["recipe"]["malignancy"]
    elsewhere = malignancy["two_heads"] or malignancy.get("link", "plain") != "plain"
    return tuple(note.get("slide_cuts", ())) or (() if elsewhere else tuple(sorted(note["cuts"].get("S", ()))))


def _read_model(path: Path) -> ModelFacts:
    try:
        note = json.loads(path.read_text(encoding="utf-8"))
        recipe = note["recipe"]
        return ModelFacts(
            confident=float(note["confident"]),
            cuts=_cuts(note),
            threshold=float(note["threshold"]),
            calibration=Calibration(**note["calibration"]),
            groups_needed=int(recipe["adequacy"]["groups"]),
            provenance={
                "program": f"Aspirate {note['aspirate_version']}",
                "trained on": f"{note['slides']['train']} slides, validated on {note['slides']['validation']}",
                "labels": "U" + recipe["malignancy"]["labels"],
                "tiles": f"{recipe['side_px']} px at {recipe['mpp']:g} µm per pixel",
                "nets": f"{recipe['informativeness']['encoder']}, {recipe['malignancy']['encoder']}",
                "weights": note["sha256"]["malignancy"][:12],
            },
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{path}: not the description of a model ({error}); train or copy it again") from error
