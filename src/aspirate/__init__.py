"""Aspirate: thyroid malignancy from cytology whole-slide images. Research use only."""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = ["Cohort", "__version__", "load_model", "open_slide"]

if TYPE_CHECKING:
    from aspirate.slides.cohort import Cohort
    from aspirate.slides.reader import open_slide
    from aspirate.workflow.predict import load_model

_HOMES = {
    "Cohort": "aspirate.slides.cohort",
    "load_model": "aspirate.workflow.predict",
    "open_slide": "aspirate.slides.reader",
}


def __getattr__(name: str) -> Any:
    """The public names, imported on first use: `aspirate --help` must not wait for any library."""
    if name not in _HOMES:
        raise AttributeError(f"module 'aspirate' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
