"""One slide by one model, wherever it is done: its tiles and evidence as files, its row to whoever asked for it."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import Field

from aspirate.core.config import Settings
from aspirate.core.errors import AspirateError
from aspirate.core.log import ERROR, Laps, tell
from aspirate.core.predictions import Prediction
from aspirate.core.progress import Advance, Stages
from aspirate.core.records import SlideEntry
from aspirate.core.store import TILE_FOLDER
from aspirate.core.tile_file import write_tiles
from aspirate.slides.reader import open_slide
from aspirate.workflow.evidence import EvidencePaths, write_evidence
from aspirate.workflow.launch import described
from aspirate.workflow.opinion import failed_row
from aspirate.workflow.predict import Model, load_model

SCORING = 0.9
"""Of the time a slide takes; the rest goes into its evidence."""


class PredictSettings(Settings):
    """How slides are predicted and shown."""

    mpp: float | None = None
    """Micrometres per pixel for slides that have none, in the file or the cohort."""
    any_resolution: bool = False
    """Also slides coarser than those the model was trained on."""
    exact: bool = False
    """Every tile is looked at closely, also where the model has a scout that tells which matter."""
    engine: str = "auto"
    """Who does the arithmetic, as it was asked for; one of `engines.choice.CHOICES`."""
    tiles_shown: int = Field(64, ge=1, le=500)
    """On a slide's sheet, at most."""


@dataclass(frozen=True, slots=True)
class PredictFolder:
    """Where the results of slides lie."""

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

    def clear(self, slide_id: str) -> None:
        """Nothing stays that another model, or half a run, made of a slide."""
        for path in self.outputs(slide_id):
            path.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class ModelAt:
    """Where another process finds the model, and what tells it from others."""

    folder: Path
    sha256: str
    engine: str
    """The one that was chosen where the command was started, so that all score alike."""

    def __call__(self) -> Model:
        return _loaded(self)


@lru_cache(maxsize=1)
def _loaded(at: ModelAt) -> Model:
    """Once in a process, for all its slides."""
    model = load_model(at.folder, at.engine)
    if model.bundle.sha256() != at.sha256:
        raise AspirateError(
            f"{at.folder}: the model there is not the one that was asked for; do not change it meanwhile"
        )
    return model


@dataclass(frozen=True, slots=True)
class SlideJob:
    entry: SlideEntry
    folder: PredictFolder
    settings: PredictSettings
    model_sha256: str
    model: Callable[[], Model]
    number: int = 1
    """In the list of slides asked for; the log tells them apart by it."""

    def __call__(self, stages: Stages, /) -> tuple[Prediction, str]:
        """The slide's row, which says what went wrong where something did, and what the row was made from."""
        entry = self.entry
        origin = made_from(entry)
        self.folder.clear(entry.slide_id)
        model = self.model()  # outside: without a model no slide is to blame
        with stages(entry.slide_id, 1, "slides") as bar:
            try:
                return self._predicted(model, lambda share: bar(SCORING * share)), origin
            except Exception as error:  # noqa: BLE001 - the boundary of one slide: named in its row, the rest go on
                self.folder.clear(entry.slide_id)
                said = str(error) if isinstance(error, AspirateError) else f"{entry.slide_id}: {described(error)}"
                private = {"slide_id": entry.slide_id, "error": said}
                tell("slide failed", ERROR, private, slide=self.number, kind=type(error).__name__)
                return failed_row(entry, said), origin

    def _predicted(self, model: Model, advance: Advance) -> Prediction:
        entry, settings, laps = self.entry, self.settings, Laps()
        with open_slide(entry.path, mpp=entry.mpp, name=entry.slide_id) as slide:
            if slide.mpp is None:
                entry = replace(entry, mpp=settings.mpp)
            laps.lap("open")
            result = model.predict(entry, any_resolution=settings.any_resolution, advance=advance, exact=settings.exact)
            laps.lap("score")
            write_tiles(self.folder.tiles(entry.slide_id), replace(result.tiles, model_sha256=self.model_sha256))
            paths = self.folder.evidence(entry.slide_id)
            write_evidence(slide, result, model.bundle, self.model_sha256, paths, settings.tiles_shown)
            laps.lap("evidence")
        tell(
            "slide",
            private={"slide_id": entry.slide_id},
            slide=self.number,
            status=result.prediction.status,
            tiles=len(result.tiles),
            kept=int(result.tiles.values["selected"].sum()),
            seconds=laps.whole,
            parts={**laps.seconds, **result.seconds},
        )
        return result.prediction


def made_from(entry: SlideEntry) -> str:
    """Changes when the file or its resolution does."""
    try:
        state = entry.path.stat()
    except OSError:
        return "unreadable"
    return fingerprint({"bytes": state.st_size, "changed_ns": state.st_mtime_ns, "mpp": entry.mpp})


def fingerprint(values: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]
