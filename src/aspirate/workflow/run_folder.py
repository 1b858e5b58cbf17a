"""Where a training keeps its files, and whose folder it is."""

from dataclasses import dataclass
from pathlib import Path

from aspirate.core.config import Settings
from aspirate.core.errors import ConfigError
from aspirate.core.store import PROVENANCE_FILE, TILE_FOLDER, provenance, write_json, write_text


@dataclass(frozen=True, slots=True)
class RunFolder:
    root: Path

    @property
    def config(self) -> Path:
        return self.root / "config.toml"

    @property
    def splits(self) -> Path:
        return self.root / "splits.json"

    @property
    def cache(self) -> Path:
        """Tiles read once; may be removed when the run is done."""
        return self.root / "cache"

    @property
    def informativeness(self) -> Path:
        return self.root / "informativeness"

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

    def claim(self, settings: Settings) -> None:
        """Mark the folder as this run's, unless it is another's."""
        if not self.config.exists():
            if self.root.exists() and (not self.root.is_dir() or any(self.root.iterdir())):
                raise ConfigError(f"{self.root}: is not empty and not a run of this program; choose another folder")
            write_text(self.config, settings.to_toml())
            write_json(self.root / PROVENANCE_FILE, provenance(settings.model_dump(mode="json")))
            return
        if type(settings).from_toml(self.config) != settings:
            raise ConfigError(
                f"{self.root}: holds a run with other settings (see {self.config}); choose another folder"
            )
