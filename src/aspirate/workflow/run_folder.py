"""Where a training keeps its files, and whose folder it is."""

import hashlib
import json
import shutil
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aspirate.core.config import Settings
from aspirate.core.errors import ConfigError
from aspirate.core.store import (
    CONFIG_FILE,
    PROVENANCE_FILE,
    SPLITS_FILE,
    TILE_FOLDER,
    atomic_path,
    provenance,
    write_json,
    write_text,
)
from aspirate.learning.device import Precision, choose_compute
from aspirate.slides.annotations import AnnotationIndex
from aspirate.slides.cohort import Cohort


@dataclass(frozen=True, slots=True)
class RunFolder:
    root: Path

    @property
    def config(self) -> Path:
        return self.root / CONFIG_FILE

    @property
    def splits(self) -> Path:
        return self.root / SPLITS_FILE

    @property
    def cache(self) -> Path:
        """Tiles read once; may be removed when the run is done."""
        return self.root / "cache"

    @property
    def informativeness(self) -> Path:
        return self.root / "informativeness"

    @property
    def scout(self) -> Path:
        return self.root / "scout"

    @property
    def malignancy(self) -> Path:
        return self.root / "malignancy"

    @property
    def model(self) -> Path:
        return self.root / "model"

    @property
    def predictions(self) -> Path:
        return self.root / "predictions.csv"

    @property
    def metrics(self) -> Path:
        return self.root / "metrics.json"

    def tiles(self, slide_id: str) -> Path:
        return self.root / TILE_FOLDER / f"{slide_id}.h5"

    def claim(self, settings: Settings, cohort: str, cohort_path: Path | None = None) -> None:
        """Mark the folder as the run of these settings on this cohort, unless it is another's.

        `cohort` is what tells cohorts apart; `cohort_path` is where it lay, for whoever looks for its slides.
        """
        if not self.config.exists():
            if self.root.exists() and (not self.root.is_dir() or any(p.name[0] != "." for p in self.root.iterdir())):
                raise ConfigError(f"{self.root}: is not empty and not a run of this program; choose another folder")
            note = provenance(settings.model_dump(mode="json")) | {"cohort": cohort}
            if cohort_path is not None:
                note["cohort_path"] = str(cohort_path.resolve())
            write_json(self.root / PROVENANCE_FILE, note)
            write_text(self.config, settings.to_toml())  # last: where it is, the folder is a run's
            return
        if type(settings).from_toml(self.config) != settings:
            raise ConfigError(
                f"{self.root}: holds a run with other settings (see {self.config}); choose another folder"
            )
        if json.loads((self.root / PROVENANCE_FILE).read_text(encoding="utf-8")).get("cohort", cohort) != cohort:
            raise ConfigError(
                f"{self.root}: holds a run on other slides, labels or annotations; choose another folder, or remove it"
            )

    def rounding(self, precision: Precision) -> bool:
        """Whether this run multiplies in bf16: decided at its first start, since on a busy machine a second one might
        decide otherwise, and go on to other weights."""
        path = self.root / PROVENANCE_FILE
        note = json.loads(path.read_text(encoding="utf-8"))
        if "bf16" not in note:
            note["bf16"] = choose_compute(precision).bf16
            write_json(path, note)
        return bool(note["bf16"])

    def take_over_stage_1(self, source: "RunFolder") -> None:
        """Its patients, its net and its scores of every tile; what stage 1 learned from must be the same."""
        mine, theirs = (_stage_1_of(folder) for folder in (self, source))
        if differing := [name for name in mine if mine[name] != theirs[name]]:
            raise ConfigError(
                f"{source.root}: its stage 1 was trained with other {', '.join(differing)} than {self.root} asks for; "
                "train stage 1 anew, without --stage1"
            )
        for path in [*source.informativeness.iterdir(), *(source.root / TILE_FOLDER).iterdir(), source.splits]:
            with atomic_path(self.root / path.relative_to(source.root)) as part:
                shutil.copyfile(path, part)


def _stage_1_of(folder: RunFolder) -> dict[str, Any]:
    """All that stage 1 depends on."""
    try:
        recipe = tomllib.loads(folder.config.read_text(encoding="utf-8"))
        cohort = json.loads((folder.root / PROVENANCE_FILE).read_text(encoding="utf-8"))["cohort"]
    except (OSError, ValueError, KeyError) as error:
        raise ConfigError(f"{folder.root}: is not a run of this program ({error})") from error
    names = ("informativeness", "side_px", "mpp", "seed", "parts")
    return {"slides, labels or annotations": cohort, **{name: recipe.get(name) for name in names}}


def cohort_fingerprint(cohort: Cohort, annotations: AnnotationIndex) -> str:
    """The same for the same slides, labels and annotations, wherever they lie and whatever else the table says."""
    digest = hashlib.sha256()
    for e in cohort.entries:
        digest.update(f"{e.slide_id}\t{e.patient}\t{e.malignant}\t{e.bethesda}\t{e.mpp}\n".encode())
    for slide_id in sorted(annotations.slide_ids):
        digest.update(f"{slide_id}\n".encode())
        for path in annotations.files.get(slide_id, ()):
            digest.update(path.read_bytes())
        for mark in annotations.rows.get(slide_id, ()):
            digest.update(f"{mark.geometry_px0.wkt} {mark.abnormality}\n".encode())
    if annotations.share < 1:
        digest.update(f"{annotations.share}\n".encode())
    return digest.hexdigest()[:16]
