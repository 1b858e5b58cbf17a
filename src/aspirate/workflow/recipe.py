"""All settings of a training in one: what a recipe file holds."""

import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from aspirate.core.config import Settings, read_toml
from aspirate.core.errors import ConfigError
from aspirate.core.geometry import DEFAULT_MPP, DEFAULT_SIDE_PX
from aspirate.nn.shapes import SMALLEST_CELL
from aspirate.stages.selection import SelectionSettings
from aspirate.stages.settings import BagShape, CropShape, InformativenessSettings, MalignancySettings, ScoutSettings
from aspirate.stages.slide_score import AdequacySettings

BUILT_IN = ("compact", "quick", "paper")


class Recipe(Settings):
    """A training, whole."""

    side_px: int = Field(DEFAULT_SIDE_PX, ge=16)
    """Side of a tile."""
    mpp: float = Field(DEFAULT_MPP, ge=0.05, le=10)
    """Resolution at which tiles are read."""
    seed: int = Field(0, ge=0)
    parts: int = Field(4, ge=2)
    """Patients are dealt into so many parts; one of them validates."""
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    informativeness: InformativenessSettings = InformativenessSettings()
    selection: SelectionSettings = SelectionSettings()
    scout: ScoutSettings = ScoutSettings()
    malignancy: MalignancySettings = MalignancySettings()
    adequacy: AdequacySettings = AdequacySettings()
    bags: BagShape = BagShape()
    """Rivals on kept tiles; all else they share with `malignancy`."""
    crops: CropShape = CropShape()
    """Rivals on whole slides, likewise."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        first, second = self.informativeness.encoder, self.malignancy.encoder
        if self.malignancy.start == "informativeness" and first != second:
            raise ValueError(
                f"malignancy.start: stage 2 ({second}) cannot start from stage 1 ({first}), a different encoder; "
                'use one encoder, or malignancy.start = "random"'
            )
        if self.scout.use and self.side_px % (self.scout.shrink * SMALLEST_CELL):
            raise ValueError(
                f"scout.shrink: the side of a tile, {self.side_px}, is no multiple of {self.scout.shrink} × "
                f"{SMALLEST_CELL}; use another divisor, or scout.use = false"
            )
        return self


def load_recipe(name: str, changes: dict[str, Any] | None = None) -> Recipe:
    """A built-in recipe or a TOML file, with single settings changed (`{"malignancy.epochs": 5}`)."""
    if name in BUILT_IN:
        text = (files("aspirate.workflow") / "recipes" / f"{name}.toml").read_text(encoding="utf-8")
        values = tomllib.loads(text)
    elif Path(name).is_file():
        values = read_toml(Path(name))
    else:
        raise ConfigError(f"recipe {name!r}: neither {' nor '.join(BUILT_IN)}, nor a file; give one of them")
    for key, value in (changes or {}).items():
        place = values
        *rooms, last = key.split(".")
        for room in rooms:
            place = place.setdefault(room, {})
            if not isinstance(place, dict):
                raise ConfigError(f"{key}: {room} is a value and has no settings beneath it")
        place[last] = value
    return Recipe.of(values, source=f"recipe {name}")


def labels_change(labels: str | None) -> dict[str, str]:
    """`UYS`, as people name label sets, as a change of the recipe; U is always learned from."""
    if labels is None:
        return {}
    letters = labels.upper()
    own = "".join(letter for letter in "YSV" if letter in letters)
    if not letters.startswith("U") or not own or sorted(letters) != sorted("U" + own):
        raise ConfigError(f"--labels {labels}: expected U and some of Y, S, V, as UYS")
    return {"malignancy.labels": own}
