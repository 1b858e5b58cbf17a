"""One slide before the doctor: does it open, are its pixels whole, is it where its annotations are."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import shapely
from numpy.typing import NDArray

from aspirate.core.errors import AnnotationError, SlideError
from aspirate.core.geometry import DEFAULT_MPP, TileGrid, checked_mpp
from aspirate.core.labels import Abnormality, grade_contradiction
from aspirate.core.records import Annotation, SlideEntry
from aspirate.slides.annotations import AnnotationIndex
from aspirate.slides.examination import Finding, Level, SlideFacts
from aspirate.slides.reader import HIDDEN_LEVELS, open_slide
from aspirate.slides.slide import Slide
from aspirate.slides.tile_labels import tiles_met

MPP_TOLERANCE = 0.05
SQUARE_TOLERANCE = 0.01
BLANK_SIDE_PX = 32
BLANK_RANGE = 16
"""A tile is blank if, averaged to 32 × 32 pixels, no channel spans this many grey levels.

Noise is averaged away, and only contrast counts, so bright glass and a dark fluorescent background are
blank alike; cells and even faint debris span more.
"""
BLANK_RIM_PX = 2
"""Left out: at the border of a slide, resampling mixes in the white beyond it."""
TILES_LOOKED_AT = 256
"""Of one annotation, evenly spread: a sparse region with cells in 2 % of its tiles is missed once in 170."""
TILES_AT_ONCE = 1024
PROBE_SIDE_PX0 = 256


@dataclass(frozen=True, slots=True)
class CheckedSlide:
    entry: SlideEntry
    facts: SlideFacts
    findings: tuple[Finding, ...]
    grades: Counter[Abnormality | None]
    """Of its annotations."""


def check_slide(entry: SlideEntry, index: AnnotationIndex, deep: bool, mpp: float | None, threads: int) -> CheckedSlide:
    """Everything about one slide; whatever goes wrong with it becomes its finding."""
    check = _Check(entry)
    try:
        with open_slide(entry.path, name=entry.slide_id, threads=threads) as slide:
            check.run(slide, index, deep, mpp)
    except Exception as exc:  # noqa: BLE001  one bad slide must not end the examination of all others
        check.failed(exc)
        opened = check.facts.levels is not None
        check.facts = replace(check.facts, status="damaged" if opened else "unreadable")
    return CheckedSlide(entry, check.facts, tuple(check.findings), check.grades)


def lost_slide(entry: SlideEntry, why: str) -> CheckedSlide:
    """One that took along the process that looked at it."""
    finding = Finding(
        "error", entry.slide_id, f"{why} while the slide was looked at", "copy the file again, or leave the slide out"
    )
    return CheckedSlide(entry, SlideFacts(entry.slide_id, entry.path, "unreadable"), (finding,), Counter())


class _Check:
    """Collects what is learnt of one slide, so that it is not lost when a later step fails."""

    def __init__(self, entry: SlideEntry) -> None:
        self.entry = entry
        self.facts = SlideFacts(entry.slide_id, entry.path, "unreadable")
        self.findings: list[Finding] = []
        self.grades: Counter[Abnormality | None] = Counter()

    def find(self, level: Level, what: str, remedy: str) -> None:
        self.findings.append(Finding(level, self.entry.slide_id, what, remedy))

    def failed(self, exc: Exception) -> None:
        """An error of our own says what and what to do; any other one is named."""
        slide_id = self.entry.slide_id
        if isinstance(exc, SlideError):
            message = str(exc).removeprefix(f"{slide_id}: ")
        else:
            message = f"{type(exc).__name__}: {exc}; copy the file again, or leave the slide out"
        self.findings.append(Finding.error(slide_id, message))

    def run(self, slide: Slide, index: AnnotationIndex, deep: bool, mpp: float | None) -> None:
        self.facts = replace(
            self.facts,
            width_px0=slide.size_px0.width,
            height_px0=slide.size_px0.height,
            levels=len(slide.level_sizes),
            vendor=slide.vendor,
            reader=slide.reader,
        )
        resolution = self._resolution(slide, mpp)
        # Places can be judged without a resolution, with tiles as wide as they would be at 40 ×.
        grid = TileGrid.cover(slide.size_px0, resolution or DEFAULT_MPP)
        whole = self._pixels_are_whole(slide, deep)
        self.facts = replace(
            self.facts,
            status="damaged" if not whole else "no mpp" if resolution is None else "ok",
            mpp=resolution,
            tiles=None if resolution is None else len(grid),
        )
        if HIDDEN_LEVELS in slide.properties:
            hidden = slide.properties[HIDDEN_LEVELS]
            self.find("note", f"{hidden} coarser levels cannot be reached", "overviews of it will be slow")
        self._annotations(slide, index, grid)

    def _resolution(self, slide: Slide, fallback: float | None) -> float | None:
        """The cohort's figure, else the file's, else the one given for all that have none."""
        stated, given = slide.mpp, self.entry.mpp
        axes = [slide.properties.get(f"openslide.mpp-{axis}") for axis in "xy"]
        if None not in axes:
            x, y = (float(axis or 0) for axis in axes)
            if _differ(x, y, SQUARE_TOLERANCE):
                self.find("warning", f"pixels are not square: {x:g} × {y:g} µm", "tiles will be distorted")
        if stated is not None and given is not None and _differ(stated, given, MPP_TOLERANCE):
            what = f"the cohort says {given:g} µm/px, the file {stated:g}"
            self.find("warning", what, "the cohort counts; correct it, or leave its mpp blank")
        known = [figure for figure in (given, stated, fallback) if figure is not None]
        try:
            return checked_mpp(known[0] if known else None, self.entry.slide_id)
        except SlideError as exc:
            self.failed(exc)
            return None

    def _pixels_are_whole(self, slide: Slide, deep: bool) -> bool:
        """Decodes all, or nine places spread over the finest level."""
        if not deep:
            try:
                slide.read_squares(_lattice(slide), PROBE_SIDE_PX0, PROBE_SIDE_PX0)
            except SlideError as exc:
                self.failed(exc)
                return False
            return True
        damaged = slide.damaged()
        if damaged:
            first = damaged[0]
            where = f"level {first.level}, column {first.column}, row {first.row}"
            what = f"damaged parts of the file: {len(damaged)}, the first at {where} ({first.reason})"
            self.find("error", what, "copy the file again, or leave the slide out")
        return not damaged

    def _annotations(self, slide: Slide, index: AnnotationIndex, grid: TileGrid) -> None:
        try:
            annotations = index.read(self.entry.slide_id, slide.bounds_px0)
        except AnnotationError as exc:
            self.findings += [Finding.error(self.entry.slide_id, f"annotations: {problem}") for problem in exc.problems]
            return
        self.facts = replace(self.facts, annotations=len(annotations))
        self.grades.update(annotation.abnormality for annotation in annotations)
        highest = max((grade for grade in self.grades if grade is not None), default=None)
        contradiction = grade_contradiction(self.entry.malignant, self.entry.bethesda, highest)
        if contradiction:
            self.find("warning", contradiction, "check the labels and the annotations")
        if annotations:
            self._places(slide, annotations, grid)

    def _places(self, slide: Slide, annotations: Sequence[Annotation], grid: TileGrid) -> None:
        owners, tiles = tiles_met(grid, annotations)
        remedy = "check that they were drawn on this slide, in pixels of its finest level"
        outside = np.setdiff1d(np.arange(len(annotations)), owners)
        self._report("error", annotations, outside, "lie outside the slide", remedy)
        edge = shapely.box(0, 0, slide.size_px0.width, slide.size_px0.height)
        covered = shapely.covered_by([annotation.geometry_px0 for annotation in annotations], edge)
        beyond = np.setdiff1d(np.flatnonzero(~covered), outside)
        self._report("warning", annotations, beyond, "reach beyond the slide", remedy)
        if self.facts.status == "damaged":
            return
        blank = _blank_annotations(slide, grid, owners, tiles)
        self._report("warning", annotations, blank, "lie on blank glass", "check that they are of this slide")

    def _report(
        self,
        level: Level,
        annotations: Sequence[Annotation],
        which: NDArray[np.int64],
        what: str,
        remedy: str,
    ) -> None:
        if len(which):
            x, y, *_ = annotations[which[0]].geometry_px0.bounds
            where = f"the first at x {x:.0f}, y {y:.0f}"
            self.find(level, f"{len(which)} of {len(annotations)} annotations {what}, {where}", remedy)


def _differ(a: float, b: float, tolerance: float) -> bool:
    return abs(a - b) > tolerance * max(a, b)


def _lattice(slide: Slide) -> NDArray[np.int64]:
    ends = [max(0, length - PROBE_SIDE_PX0) for length in (slide.size_px0.width, slide.size_px0.height)]
    xs, ys = (np.linspace(0, end, 3).astype(np.int64) for end in ends)
    return np.stack(np.meshgrid(xs, ys), axis=-1).reshape(-1, 2)


def _blank_annotations(
    slide: Slide, grid: TileGrid, owners: NDArray[np.int64], tiles: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Annotations none of whose tiles has any contrast."""
    kept = np.sort(np.concatenate(list(_spread(owners)))) if len(owners) else np.empty(0, np.int64)
    owners, tiles = owners[kept], tiles[kept]
    looked_at, place = np.unique(tiles, return_inverse=True)
    blank = _are_blank(slide, grid, looked_at)[place]
    return np.setdiff1d(owners, owners[~blank])


def _spread(owners: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """Positions of at most `TILES_LOOKED_AT` tiles of each owner; owners are in order."""
    starts = np.flatnonzero(np.diff(owners, prepend=-1))
    for start, end in zip(starts, [*starts[1:], len(owners)], strict=True):
        yield np.unique(np.linspace(start, end - 1, min(TILES_LOOKED_AT, end - start)).astype(np.int64))


def _are_blank(slide: Slide, grid: TileGrid, tiles: NDArray[np.int64]) -> NDArray[np.bool_]:
    corners_px0 = grid.corners_px0()[tiles]
    blank = np.empty(len(tiles), bool)
    for start in range(0, len(tiles), TILES_AT_ONCE):
        part = slice(start, start + TILES_AT_ONCE)
        squares = slide.read_squares(corners_px0[part], grid.side_px0, BLANK_SIDE_PX)
        squares = squares[:, BLANK_RIM_PX:-BLANK_RIM_PX, BLANK_RIM_PX:-BLANK_RIM_PX]
        span = squares.max(axis=(1, 2)).astype(int) - squares.min(axis=(1, 2))
        blank[part] = span.max(axis=1) < BLANK_RANGE
    return blank
