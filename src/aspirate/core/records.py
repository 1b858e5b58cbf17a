"""What stages hand to each other: frozen, typed, free of open handles."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from aspirate.core.labels import Abnormality

if TYPE_CHECKING:
    from shapely.geometry.base import BaseGeometry


@dataclass(frozen=True, slots=True)
class SlideEntry:
    """One row of a cohort; None is unknown."""

    slide_id: str
    path: Path
    patient_id: str | None = None
    malignant: bool | None = None
    bethesda: int | None = None
    mpp: float | None = None
    site: str | None = None
    fold: int | None = None
    readers: Mapping[str, int] = field(default_factory=dict)

    @property
    def patient(self) -> str:
        """The group that must stay together; a slide of unknown patient is its own."""
        return self.patient_id if self.patient_id is not None else f"slide:{self.slide_id}"


@dataclass(frozen=True, slots=True)
class Annotation:
    """A place that someone marked as informative, in level-0 pixels of the slide."""

    geometry_px0: "BaseGeometry"
    abnormality: Abnormality | None = None
    measurements: Mapping[str, float] = field(default_factory=dict)
