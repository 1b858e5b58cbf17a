"""What a synthetic cohort is made from; the same settings give the same pixels."""

from typing import Literal, Self

from pydantic import Field, model_validator

from aspirate.core.config import Settings
from aspirate.core.errors import ConfigError
from aspirate.core.geometry import DEFAULT_MPP, Size, px0_of_um

SMALLEST_SIDE_UM = 256.0
"""Six follicular groups need some room."""


def read_size(text: str) -> tuple[int, int]:
    """Width and height as people type them."""
    width, _, height = text.lower().replace("×", "x").partition("x")
    if not (width.isdecimal() and height.isdecimal()):
        raise ConfigError(f"--size {text}: expected width and height in pixels, as 8192x8192")
    return int(width), int(height)


class SynthSettings(Settings):
    """Every knob of a synthetic cohort."""

    slides: int = Field(60, ge=2, le=100_000)
    """Number of slides."""
    size: tuple[int, int] = (8192, 8192)
    """Width and height of every slide in level-0 pixels."""
    seed: int = Field(0, ge=0)
    """The same seed and settings give the same cohort, pixel for pixel."""
    mpp: float = Field(DEFAULT_MPP, ge=0.1, le=1.0)
    """Micrometres per level-0 pixel; cells keep their size in micrometres."""
    format: Literal["tiff", "svs"] = "tiff"
    """Generic tiled TIFF (pyramid by 2) or Aperio SVS (pyramid by 4)."""

    patients: int | None = Field(None, ge=2)
    """Number of patients, whose slides share one diagnosis and one site; None is 1.1 slides a patient."""
    sites: int = Field(3, ge=1, le=26)
    """Laboratories, each with its stain habits and its scanner (colour, sharpness, noise, compression)."""
    malignant: float = Field(0.27, gt=0.0, lt=1.0)
    """Share of malignant patients."""
    overdispersion: float = Field(3.0, gt=0.0)
    """Concentration κ of the Dirichlet around P(grade | Y, S) from which each slide draws its own shares
    of grades: small κ makes slides of one kind differ, κ → ∞ makes them alike."""
    grade_spread: float = Field(0.6, ge=0.0, le=2.0)
    """σ of a group's latent atypia around its grade 0, 1 or 2: how far grades overlap to the eye."""
    informative: tuple[float, float] = (1e-4, 2e-2)
    """Range of the share of a slide's area that groups cover, drawn log-uniformly. On small slides the
    minimum number of groups sets a higher floor."""
    min_groups: int = Field(6, ge=1, le=50)
    """Groups of an adequate slide at the least (The Bethesda System asks for six)."""
    inadequate: float = Field(0.0, ge=0.0, le=0.5)
    """Share of slides with fewer groups than `min_groups`, labelled TBS 1 and left unread by readers."""

    readers: int = Field(3, ge=0, le=20)
    """Further readers, each giving a TBS category 2..6."""
    reader_agreement: float = Field(0.65, ge=0.0, le=1.0)
    """Chance that a reader sees what the reported category rests on; otherwise the reader's category is a
    fresh draw from P(S | Y), so readers err on different slides at the same AUC."""
    reader_slip: float = Field(0.06, ge=0.0, le=1.0)
    """Chance that a reader's category ends one step up or down."""

    annotated: float = Field(0.25, ge=0.0, le=1.0)
    """Share of slides with annotations."""
    annotation_recall: float = Field(0.9, ge=0.0, le=1.0)
    """Chance that a group of an annotated slide is marked."""
    annotation_noise: float = Field(0.05, ge=0.0, le=1.0)
    """Chance that a mark's grade is one step off."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        smallest_px0 = px0_of_um(SMALLEST_SIDE_UM, self.mpp)
        if min(self.size) < smallest_px0:
            raise ValueError(
                f"size {self.size[0]}x{self.size[1]} is too small for {self.min_groups} groups of cells: "
                f"give at least {smallest_px0:.0f} pixels each way at {self.mpp:g} µm/px"
            )
        low, high = self.informative
        if not 0.0 < low <= high <= 0.05:
            raise ValueError(f"informative {low:g}–{high:g} must rise within 0 to 0.05 of a slide's area")
        if self.patients is not None and self.patients > self.slides:
            raise ValueError(f"patients {self.patients} cannot outnumber slides {self.slides}")
        return self

    @property
    def size_px0(self) -> Size:
        return Size(*self.size)

    @property
    def megapixels(self) -> float:
        """Of all slides together."""
        return self.slides * self.size[0] * self.size[1] / 1e6

    @property
    def patient_count(self) -> int:
        return self.patients or max(2, round(self.slides / 1.1))
