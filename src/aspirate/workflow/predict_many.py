"""One model on many slides: a table, a page, and the evidence of each slide; a second start goes on where it stopped.

predictions.csv               one row per slide, failed ones with their error
index.html                    the same to look at
predictions.json              which model and settings made each row
tiles/<slide_id>.h5           every tile's informativeness, which are kept, their malignancy
heatmaps/ geojson/ sheets/ thumbnails/
"""

import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from aspirate import __version__
from aspirate.core.errors import CohortError, ConfigError
from aspirate.core.lock import locked
from aspirate.core.log import ERROR, log_of, tell
from aspirate.core.predictions import Prediction, read_predictions, write_predictions
from aspirate.core.progress import Stages, silent_stages
from aspirate.core.records import SlideEntry
from aspirate.core.store import clear_parts, provenance, write_json
from aspirate.slides.cohort import canonical_id, id_problem
from aspirate.slides.doctor import TABLE_SUFFIXES, slides_at
from aspirate.workflow.bundle import SCOUT, Bundle
from aspirate.workflow.launch import HERE, Executor, Needs, Outcome, Unit
from aspirate.workflow.opinion import failed_row
from aspirate.workflow.predict import Model
from aspirate.workflow.predictions_page import write_predictions_page
from aspirate.workflow.slide_job import (
    ModelAt,
    PredictFolder,
    PredictSettings,
    SlideJob,
    fingerprint,
    made_from,
)
from aspirate.workflow.unit_progress import OneBar

AS_IT_IS = Needs(cpus=0)
SAVE_EVERY_S, SAVE_SHARE = 1.0, 0.02
"""The table is written whole, the more rarely the longer that takes, so that it costs no more than a share of the time.
What a kill loses of it is done again."""


@dataclass(frozen=True, slots=True)
class PredictSummary:
    """What a prediction of many slides leaves behind."""

    predictions: tuple[Prediction, ...]
    """Of the slides asked for, in their order."""
    skipped: tuple[str, ...]
    """Of these, the slides an earlier start had finished."""
    table: Path
    page: Path

    @property
    def failures(self) -> dict[str, str]:
        return {row.slide_id: row.error for row in self.predictions if row.status == "failed"}


def entries_at(paths: Sequence[str | Path]) -> tuple[SlideEntry, ...]:
    """Slides, folders of slides and cohorts as one list; a slide's name is its file's, where it can without suffix."""
    named: list[SlideEntry] = []
    files: list[Path] = []
    for path in map(Path, paths):
        if path.is_dir() or path.suffix.lower() in TABLE_SUFFIXES:
            cohort, problems = slides_at(path)
            if problems:
                raise CohortError(str(path), problems)
            named += cohort.entries
        else:  # also one that does not exist: it becomes a row that says so
            files.append(path)
    stems = Counter([canonical_id(entry.slide_id) for entry in named] + [canonical_id(file.stem) for file in files])
    names = (file.stem if stems[canonical_id(file.stem)] == 1 else file.name for file in files)
    return (*named, *(SlideEntry(name, file) for name, file in zip(names, files, strict=True)))


def predict_many(
    model: Model,
    entries: Sequence[SlideEntry],
    out: Path,
    settings: PredictSettings | None = None,
    stages: Stages = silent_stages,
    executor: Executor = HERE,
    source: Path | None = None,
    needs: Needs = AS_IT_IS,
) -> PredictSummary:
    """Every slide; one that fails is a row with its error, and the rest go on.

    Where slides are done in other processes, these load the model from `source`; `needs` is what a slide gets.
    """
    _refuse_names(entries)
    entries = [replace(e, path=e.path.absolute()) for e in entries]  # elsewhere another folder may be the current one
    with locked(out):
        batch = _Batch(model, entries, PredictFolder(out), settings or PredictSettings())
        clear_parts(out)
        units = [Unit(job.entry.slide_id, job, needs) for job in batch.jobs(None if executor is HERE else source)]
        before = len(batch.skipped)
        log = log_of(out, "predict", slides=len(entries), before=before, engine=model.engine, threads=needs.cpus)
        with log, stages("predicting", len(entries), "slides") as bar, batch.kept():
            bar(before)
            shown = OneBar(bar)
            with closing(executor.run(units, shown)) as outcomes:
                for outcome in outcomes:
                    batch.take(outcome)
                    shown.end(outcome.name)
        return batch.summary()


def _refuse_names(entries: Sequence[SlideEntry]) -> None:
    if not entries:
        raise ConfigError("there is no slide to predict; name at least one")
    counts = Counter(canonical_id(entry.slide_id) for entry in entries)
    twice = sorted({entry.slide_id for entry in entries if counts[canonical_id(entry.slide_id)] > 1})
    if twice:
        raise ConfigError(f"several slides are called {', '.join(twice)}; name them in a cohort.csv, each its own way")
    for entry in entries:
        if why := id_problem(entry.slide_id):
            raise ConfigError(f"slide_id {entry.slide_id!r} {why}")


class _Batch:
    """Rows so far, and what made each; both on disk as slides end."""

    def __init__(
        self, model: Model, entries: Sequence[SlideEntry], folder: PredictFolder, settings: PredictSettings
    ) -> None:
        self.model, self.entries, self.folder, self.settings = model, entries, folder, settings
        self.model_sha256 = model.bundle.sha256()
        self.made_by = _made_by(model.bundle, self.model_sha256, settings)
        self.rows: dict[str, Prediction] = {}
        self.made_from: dict[str, str] = {}
        self.files: dict[str, list[str | float | None]] = {}
        self._take_up()
        self.files |= {e.slide_id: [str(e.path.resolve()), e.mpp or settings.mpp] for e in entries}
        self.skipped = tuple(entry.slide_id for entry in entries if self._finished(entry))
        for entry in entries:
            if entry.slide_id in self.skipped:  # its labels may have become known since
                row = self.rows[entry.slide_id]
                self.rows[entry.slide_id] = replace(row, malignant=entry.malignant, bethesda=entry.bethesda)
            else:
                self.rows.pop(entry.slide_id, None)
        self._save()

    def jobs(self, source: Path | None) -> list[SlideJob]:
        """What is still to be done; others load the model from `source`, this process has it."""
        at = None if source is None else ModelAt(source.resolve(), self.model_sha256, self.model.engine)
        load = at or (lambda: self.model)
        folder = PredictFolder(self.folder.root.absolute())
        return [
            SlideJob(entry, folder, self.settings, self.model_sha256, load, number)
            for number, entry in enumerate(self.entries, 1)
            if entry.slide_id not in self.skipped
        ]

    def take(self, outcome: Outcome) -> None:
        """A row; without one the slide took its process along, or could not begin."""
        if outcome.error is not None:
            self.folder.clear(outcome.name)
            number, entry = next((n, e) for n, e in enumerate(self.entries, 1) if e.slide_id == outcome.name)
            tell("slide lost", ERROR, {"slide_id": entry.slide_id, "error": outcome.error}, slide=number)
            self.rows[outcome.name] = failed_row(entry, outcome.error)
        else:
            self.rows[outcome.name], self.made_from[outcome.name] = outcome.value
        if time.monotonic() - self.saved > max(SAVE_EVERY_S, self.save_s / SAVE_SHARE):
            self._save()

    @contextmanager
    def kept(self) -> Iterator[None]:
        """However this ends, what is done is written down."""
        try:
            yield
        finally:
            self._save()

    def _take_up(self) -> None:
        """Rows that an earlier start of the same model with the same settings left; others must not be lost unasked."""
        folder = self.folder
        if not folder.record.exists():
            root = folder.root
            if root.exists() and (not root.is_dir() or any(not path.name.startswith(".") for path in root.iterdir())):
                raise ConfigError(
                    f"{root}: is not empty and holds no predictions of this program; choose another folder"
                )
            return
        record, rows = _read_record(folder), {}
        if folder.table.exists():
            rows = {row.slide_id: row for row in read_predictions(folder.table)}
        if record["made_by"] == self.made_by:
            self.rows, self.made_from, self.files = rows, record["slides"], record["files"]
            return
        asked = {entry.slide_id for entry in self.entries}
        if others := sorted(set(rows) - asked):
            raise ConfigError(
                f"{folder.root}: holds {len(others)} slides predicted by another model or with other settings "
                f"({', '.join(others[:3])}{' …' if len(others) > 3 else ''}); choose another folder"
            )

    def _finished(self, entry: SlideEntry) -> bool:
        row = self.rows.get(entry.slide_id)
        return (
            row is not None
            and row.status != "failed"
            and self.made_from.get(entry.slide_id) == made_from(entry)
            and all(path.exists() for path in self.folder.outputs(entry.slide_id))
        )

    def _ordered(self) -> list[Prediction]:
        """Slides asked for in their order, then those of earlier starts."""
        asked = [entry.slide_id for entry in self.entries]
        names = dict.fromkeys([*asked, *self.rows])
        return [self.rows[name] for name in names if name in self.rows]

    def _save(self) -> None:
        began = time.monotonic()
        rows = self._ordered()
        slides = {row.slide_id: self.made_from[row.slide_id] for row in rows if row.slide_id in self.made_from}
        settings = {"model_sha256": self.model_sha256, **self.settings.model_dump(mode="json")}
        engine = {"engine": self.model.engine, "engine_notes": list(self.model.notes)}
        made = {**provenance(settings), **engine, "made_by": self.made_by}
        record = {**made, "slides": slides, "files": self.files}
        write_json(self.folder.record, record)
        write_predictions(self.folder.table, rows)
        write_predictions_page(self.folder.page, rows, self.model_sha256, self.model.bundle.threshold)
        self.saved = time.monotonic()
        self.save_s = self.saved - began

    def summary(self) -> PredictSummary:
        rows = tuple(self.rows[entry.slide_id] for entry in self.entries)
        return PredictSummary(rows, self.skipped, self.folder.table, self.folder.page)


def _made_by(bundle: Bundle, model_sha256: str, settings: PredictSettings) -> str:
    """The same only where the same program, model and settings would give the same results."""
    return fingerprint(
        {
            "aspirate_version": __version__,
            "model_sha256": model_sha256,
            "recipe": bundle.recipe.model_dump(mode="json"),
            "confident": bundle.confident,
            "cuts": [bundle.cuts, bundle.slide_cuts],
            "reading": [asdict(bundle.pooling), asdict(bundle.link)],
            "threshold": bundle.threshold,
            "calibration": asdict(bundle.calibration),
            "mpp_range": bundle.mpp_range,
            "scout": bundle.fingerprints.get(SCOUT),
            "trust": None if bundle.trust is None else asdict(bundle.trust),
            "settings": settings.model_dump(mode="json"),
        }
    )


def _read_record(folder: PredictFolder) -> dict[str, Any]:
    try:
        record = json.loads(folder.record.read_text(encoding="utf-8"))
        files = dict(record.get("files", {}))  # earlier versions did not write where slides are
        return {"made_by": str(record["made_by"]), "slides": dict(record["slides"]), "files": files}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{folder.record}: cannot be understood ({error}); choose another folder") from error
