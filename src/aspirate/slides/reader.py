"""Open a slide, whatever it is: the one door to pixels."""

import os
from dataclasses import replace
from pathlib import Path

from aspirate.core.errors import UnreadableSlide
from aspirate.core.geometry import checked_mpp
from aspirate.slides.direct import DirectSlide
from aspirate.slides.image import ImageSlide, is_plain_image
from aspirate.slides.resolution import mpp_in_file
from aspirate.slides.sampling import SampledSlide
from aspirate.slides.slide import Slide
from aspirate.slides.tiff import check_claims, read_pyramid
from aspirate.slides.vendor import VendorSlide, describe

DIRECT_VENDORS = frozenset({"aperio", "generic-tiff"})
"""Their levels are plain grids of tiles; others (NDPI, BIF, SCN, Philips …) have a geometry of their own."""
HIDDEN_LEVELS = "aspirate.hidden-levels"
"""Property: how many coarser levels of the file are out of reach, so that overviews are slow."""


def open_slide(
    path: str | os.PathLike[str],
    mpp: float | None = None,
    name: str | None = None,
    threads: int | None = None,
) -> Slide:
    """A slide by the fastest reader that suits the file; `mpp` overrules what the file says.

    `name` is what messages call it, by default the name of the file; `threads` is how many decode, by
    default as many as the process has CPUs.
    """
    path = Path(path)
    name = path.name if name is None else name
    if mpp is not None:
        checked_mpp(mpp, name)
    _check_file(path, name)
    slide = _open(path, name, mpp)
    if threads is not None:
        slide.threads = threads
    return slide


def _open(path: Path, name: str, mpp: float | None) -> SampledSlide:
    check_claims(path, name)
    what = describe(path, name)
    if what is None:
        if not is_plain_image(path):
            raise UnreadableSlide(
                f"{name}: not a slide of any known kind, or one that is cut short; check the path or copy the "
                "file again (a plain TIFF: convert it to a tiled one, or to PNG)"
            )
        return ImageSlide(path, name, mpp)
    if mpp is None:
        mpp = mpp_in_file(what.vendor, what.properties, what.level_sizes[0])
    if what.vendor not in DIRECT_VENDORS:
        return VendorSlide(path, name, what, mpp)
    pyramid = read_pyramid(path, name, what.level_sizes)
    if pyramid.obstacle is None:
        return DirectSlide(path, name, what.vendor, pyramid.levels, mpp, what.properties)
    if pyramid.hidden_levels:
        what = replace(what, properties={**what.properties, HIDDEN_LEVELS: str(pyramid.hidden_levels)})
    return VendorSlide(path, name, what, mpp)


def _check_file(path: Path, name: str) -> None:
    """Say plainly what is wrong with the file itself before any library words it in its own way."""
    try:
        if path.is_dir():
            raise UnreadableSlide(f"{name}: {path} is a folder; give the file of the slide")
        with path.open("rb") as file:
            if not file.read(1):
                raise UnreadableSlide(f"{name}: {path} is empty; copy the file again")
    except FileNotFoundError as exc:
        raise UnreadableSlide(f"{name}: there is no file {path}; check the path") from exc
    except PermissionError as exc:
        raise UnreadableSlide(f"{name}: no permission to read {path}; ask for it, or copy the file") from exc
    except OSError as exc:
        raise UnreadableSlide(f"{name}: {path} cannot be read ({exc.strerror})") from exc
