"""One model on many slides: a table, a page, and the evidence of each slide; a second start goes on where it stopped.

predictions.csv               one row per slide, failed ones with their error
index.html                    the same to look at
predictions.json              which model and settings made each row
tiles/<slide_id>.h5           every tile's informativeness, which are kept, their malignancy
heatmaps/ geojson/ sheets/ thumbnails/
"""

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import Field

from aspirate import __version__
from aspirate.core.config import Settings
from aspirate.core.errors import AspirateError, CohortError, ConfigError
from aspirate.core.predictions import Prediction, read_predictions, write_predictions
from aspirate.core.progress import Advance, Stages, silent_stages
from aspirate.core.records import SlideEntry
from aspirate.core.store import TILE_FOLDER, provenance, write_json
from aspirate.core.tile_file import write_tiles
from aspirate.slides.cohort import canonical_id, id_problem
from aspirate.slides.doctor import TABLE_SUFFIXES, slides_at
from aspirate.slides.reader import open_slide
from aspirate.workflow.bundle import Bundle
from aspirate.workflow.evidence import EvidencePaths, write_evidence
from aspirate.workflow.predict import Model, SlideResult
from aspirate.workflow.predictions_page import write_predictions_page

SCORING = 0.9
"""Of the time a slide takes; the rest goes into its evidence."""


class PredictSettings(Settings):
    """How slides are predicted and shown."""

    mpp: float | None = None
    """Micrometres per pixel for slides that have none, in the file or the cohort."""
    any_resolution: bool = False
    """Also slides coarser than those the model was trained on."""
    tiles_shown: int = Field(64, ge=1, le=500)
    """On a slide's sheet, at most."""


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


@dataclass(frozen=True, slots=True)
class PredictFolder:
    root: Path

    @property
    def table(self) -> Path:
        return self.root / "predictions.csv"

    @property
    def record(self) -> Path:
        return self.root / "predictions.json"

    @property
    def page(self) -> Path:
        return self.root / "index.html"

    def tiles(self, slide_id: str) -> Path:
        return self.root / TILE_FOLDER / f"{slide_id}.h5"

    def evidence(self, slide_id: str) -> EvidencePaths:
        return EvidencePaths(
            heat_map=self.root / "heatmaps" / f"{slide_id}.png",
            geojson=self.root / "geojson" / f"{slide_id}.geojson",
            thumbnail=self.root / "thumbnails" / f"{slide_id}.jpg",
            sheet=self.root / "sheets" / f"{slide_id}.html",
        )

    def outputs(self, slide_id: str) -> tuple[Path, ...]:
        evidence = self.evidence(slide_id)
        return self.tiles(slide_id), evidence.heat_map, evidence.geojson, evidence.thumbnail, evidence.sheet


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
) -> PredictSummary:
    """Every slide in turn; one that fails is a row with its error, and the rest go on."""
    _refuse_names(entries)
    batch = _Batch(model, entries, PredictFolder(out), settings or PredictSettings())
    with stages("predicting", len(entries), "slides") as bar:
        bar(len(batch.skipped))
        for entry in entries:
            if entry.slide_id not in batch.skipped:
                bar.note(entry.slide_id)
                batch.do(entry, bar)
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
    """Rows so far, and what made each; both on disk after every slide."""

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
            self.rows, self.made_from = rows, dict(record["slides"])
            self.files = dict(record.get("files", {}))
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
            and self.made_from.get(entry.slide_id) == _made_from(entry)
            and all(path.exists() for path in self.folder.outputs(entry.slide_id))
        )

    def do(self, entry: SlideEntry, advance: Advance) -> None:
        """`advance` is told of 1 in all, whatever becomes of the slide."""
        done = 0.0

        def part(share: float) -> None:
            nonlocal done
            done += SCORING * share
            advance(SCORING * share)

        made_from = _made_from(entry)
        self._clear(entry.slide_id)
        try:
            row = self._predict(entry, part).prediction
        except Exception as error:  # noqa: BLE001 - the boundary of one slide: named in its row, the rest go on
            self._clear(entry.slide_id)
            said = str(error) if isinstance(error, AspirateError) else f"{entry.slide_id}: {_described(error)}"
            row = Prediction(
                entry.slide_id, malignant=entry.malignant, bethesda=entry.bethesda, status="failed", error=said
            )
        self.rows[entry.slide_id] = row
        self.made_from[entry.slide_id] = made_from
        self._save()
        advance(1 - done)

    def _predict(self, entry: SlideEntry, advance: Advance) -> SlideResult:
        with open_slide(entry.path, mpp=entry.mpp, name=entry.slide_id) as slide:
            if slide.mpp is None:
                entry = replace(entry, mpp=self.settings.mpp)
            result = self.model.predict(entry, any_resolution=self.settings.any_resolution, advance=advance)
            write_tiles(self.folder.tiles(entry.slide_id), replace(result.tiles, model_sha256=self.model_sha256))
            paths = self.folder.evidence(entry.slide_id)
            write_evidence(slide, result, self.model.bundle, self.model_sha256, paths, self.settings.tiles_shown)
        return result

    def _clear(self, slide_id: str) -> None:
        """Nothing stays that another model, or half a run, made of a slide."""
        for path in self.folder.outputs(slide_id):
            path.unlink(missing_ok=True)

    def _ordered(self) -> list[Prediction]:
        """Slides asked for in their order, then those of earlier starts."""
        asked = [entry.slide_id for entry in self.entries]
        names = dict.fromkeys([*asked, *self.rows])
        return [self.rows[name] for name in names if name in self.rows]

    def _save(self) -> None:
        rows = self._ordered()
        slides = {row.slide_id: self.made_from[row.slide_id] for row in rows if row.slide_id in self.made_from}
        settings = {"model_sha256": self.model_sha256, **self.settings.model_dump(mode="json")}
        record = {**provenance(settings), "made_by": self.made_by, "slides": slides, "files": self.files}
        write_json(self.folder.record, record)
        write_predictions(self.folder.table, rows)
        write_predictions_page(self.folder.page, rows, self.model_sha256, self.model.bundle.threshold)

    def summary(self) -> PredictSummary:
        rows = tuple(self.rows[entry.slide_id] for entry in self.entries)
        return PredictSummary(rows, self.skipped, self.folder.table, self.folder.page)


def _made_by(bundle: Bundle, model_sha256: str, settings: PredictSettings) -> str:
    """The same only where the same program, model and settings would give the same results."""
    return _fingerprint(
        {
            "aspirate_version": __version__,
            "model_sha256": model_sha256,
            "recipe": bundle.recipe.model_dump(mode="json"),
            "confident": bundle.confident,
            "cuts": bundle.cuts,
            "threshold": bundle.threshold,
            "calibration": asdict(bundle.calibration),
            "mpp_range": bundle.mpp_range,
            "settings": settings.model_dump(mode="json"),
        }
    )


def _made_from(entry: SlideEntry) -> str:
    """Changes when the file or its resolution does."""
    try:
        state = entry.path.stat()
    except OSError:
        return "unreadable"
    return _fingerprint({"bytes": state.st_size, "changed_ns": state.st_mtime_ns, "mpp": entry.mpp})


def _fingerprint(values: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]


def _read_record(folder: PredictFolder) -> dict[str, Any]:
    try:
        record = json.loads(folder.record.read_text(encoding="utf-8"))
        return {"made_by": str(record["made_by"]), "slides": dict(record["slides"])}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{folder.record}: cannot be understood ({error}); choose another folder") from error


def _described(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
