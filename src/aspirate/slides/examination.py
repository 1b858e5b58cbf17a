"""What the doctor found, as a record: facts of each slide, findings, counts, and what can be trained."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from aspirate import __version__

Level = Literal["error", "warning", "note"]
LEVELS: tuple[Level, ...] = ("error", "warning", "note")
Status = Literal["ok", "no mpp", "damaged", "unreadable"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a person should know, and what to do about it; `slide_id` None is the cohort itself."""

    level: Level
    slide_id: str | None
    what: str
    remedy: str

    @classmethod
    def error(cls, slide_id: str | None, message: str) -> "Finding":
        """From a message of our own, which ends with what to do."""
        what, _, remedy = message.rpartition("; ")
        return cls("error", slide_id, what or message, remedy if what else "correct it")


@dataclass(frozen=True, slots=True)
class SlideFacts:
    """What the file says of itself; None is unknown. `tiles` is the number at the default size and mpp."""

    slide_id: str
    path: Path
    status: Status
    width_px0: int | None = None
    height_px0: int | None = None
    levels: int | None = None
    mpp: float | None = None
    vendor: str | None = None
    reader: str | None = None
    tiles: int | None = None
    annotations: int = 0


@dataclass(frozen=True, slots=True)
class Trainable:
    """Whether a set of labels (letters of U, Y, S, V) suffices to train, to cross-validate, and why."""

    labels: str
    possible: bool
    crossval: bool
    why: str


@dataclass(frozen=True, slots=True)
class Examination:
    source: Path
    deep: bool
    slides: tuple[SlideFacts, ...]
    findings: tuple[Finding, ...]
    counts: Mapping[str, Any]
    trainable: tuple[Trainable, ...]

    @property
    def ok(self) -> bool:
        return self.count("error") == 0

    def count(self, level: Level) -> int:
        return sum(finding.level == level for finding in self.findings)

    @property
    def verdict(self) -> str:
        """One line."""
        slides = _plural(len(self.slides), "slide")
        warnings = _plural(self.count("warning"), "warning")
        if not self.ok:
            unusable = sum(slide.status != "ok" for slide in self.slides)
            errors = _plural(self.count("error"), "error")
            return f"not ready: {errors} and {warnings}; {unusable} of {slides} cannot be used"
        richest = max((row.labels for row in self.trainable if row.possible), key=len, default=None)
        use = f"can be trained from {' + '.join(richest)}" if richest else "too few labels to train from"
        return f"fine: {slides}, no error, {warnings}; {use}"

    def rows(self) -> tuple[tuple[str, ...], ...]:
        """A table a person can read, its header first."""
        header = ("slide", "status", "size", "levels", "µm/px", "vendor", "reader", "tiles", "annotations")
        return (header, *map(_row, self.slides))

    def as_json(self) -> dict[str, Any]:
        """The whole record in plain values.

        `ok`, `verdict`, `source`, `deep`, `aspirate_version`; `slides`: list of the fields of `SlideFacts`;
        `findings`: list of `level`, `slide_id`, `what`, `remedy`, errors first; `counts`: numbers of
        `slides`, `usable`, `patients`, `annotated_slides`, `annotations`, and numbers by value in
        `malignant`, `bethesda`, `abnormality`, `sites`, `folds`, `readers`; `trainable`: list of
        `labels`, `possible`, `crossval`, `why`.
        """
        return {
            "ok": self.ok,
            "verdict": self.verdict,
            "source": str(self.source),
            "deep": self.deep,
            "aspirate_version": __version__,
            "slides": [asdict(slide) | {"path": str(slide.path)} for slide in self.slides],
            "findings": [asdict(finding) for finding in self.findings],
            "counts": dict(self.counts),
            "trainable": [asdict(row) for row in self.trainable],
        }


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _row(slide: SlideFacts) -> tuple[str, ...]:
    size = "" if slide.width_px0 is None else f"{slide.width_px0} × {slide.height_px0}"
    mpp = "" if slide.mpp is None else f"{slide.mpp:.4g}"
    values = (slide.levels, mpp, slide.vendor, slide.reader, slide.tiles, slide.annotations or None)
    return (slide.slide_id, slide.status, size, *("" if value is None else str(value) for value in values))
