"""The reading room without its walls: who may see what of which slide, and what readers enter."""

import csv
from dataclasses import asdict
from io import StringIO
from typing import Literal, get_args

import shapely

from aspirate.core.errors import AspirateError
from aspirate.core.labels import TRAINABLE_BETHESDA
from aspirate.core.predictions import Prediction
from aspirate.core.tile_file import TileTable
from aspirate.evaluation.readers import Rule, combine
from aspirate.viewer import messages
from aspirate.viewer.desk import Desk, Reading
from aspirate.viewer.evidence import grid_of, groups, guessed, histogram, kept_tiles, tile_table
from aspirate.viewer.marks import Canvas, Mark, MarkLog
from aspirate.viewer.open_slides import NO_FILE, OpenSlides, anonymous
from aspirate.viewer.places import Served, ServedSlide
from aspirate.viewer.pyramid import jpeg
from aspirate.viewer.sessions import Session
from aspirate.viewer.suggestions import spread, uncertain
from aspirate.workflow.heat_map import css_colours

THUMBNAIL_PX = 240
SQUARE_PX, LARGE_SQUARE_PX = 160, 640
SUGGESTED_SLIDES = 40
"""Of many slides, those with the fewest marks are looked through for one list of suggestions."""

Status = Literal["predicted", "inadequate", "failed", "unpredicted", "hidden"]


class NoSuchSlide(AspirateError):
    """A name that no slide has."""


class Room:
    def __init__(self, served: Served, desk: Desk, open_slides: OpenSlides | None = None) -> None:
        self.served, self.desk = served, desk
        self.open_slides = OpenSlides() if open_slides is None else open_slides
        self.marks = MarkLog(desk)

    def slide(self, name: str) -> ServedSlide:
        try:
            return self.served.slides[name]
        except KeyError:
            raise NoSuchSlide("there is no such slide; go back to the worklist") from None

    # what may be seen

    def hidden(self, slide: ServedSlide, session: Session) -> bool:
        """Whether the algorithm's result is still to be kept from this reader."""
        return session.mode == "reading" and not self.desk.readings(slide.slide_id, session.reader)

    def worklist(self, session: Session) -> messages.Worklist:
        own: dict[str, list[Reading]] = {}
        for reading in self.desk.readings(reader=session.reader):
            own.setdefault(reading.slide_id, []).append(reading)
        marks = self.marks.counts(self.served.slides.values())
        rows, shown = [], []
        for slide in self.served.slides.values():
            readings = own.get(slide.slide_id, [])
            hidden = session.mode == "reading" and not readings
            if not hidden and slide.prediction is not None:
                shown.append(slide.slide_id)
            rows.append(
                messages.SlideRow(
                    name=slide.name,
                    status=status_of(slide, hidden),
                    result=None if hidden else result_of(slide.prediction),
                    error=self._error(slide),
                    own_bethesda=readings[-1].bethesda if readings else None,
                    readings=len(readings),
                    marks=0 if hidden else marks.get(slide.slide_id, 0),
                )
            )
        self.desk.note_shown(shown, session.reader)
        return messages.Worklist(slides=rows, mode=session.mode)

    def view(self, slide: ServedSlide, session: Session) -> messages.SlideView:
        hidden = self.hidden(slide, session)
        if not hidden and slide.prediction is not None:
            self.desk.note_shown([slide.slide_id], session.reader)
        names = list(self.served.slides)
        at = names.index(slide.name)
        shape, error = None, self._error(slide)
        try:
            shape = self._shape(slide)
        except AspirateError as problem:
            error = str(problem)
        whose = None if session.role == "admin" and not hidden else session.reader
        readings = self.desk.readings(slide.slide_id, whose)
        own = [reading for reading in readings if reading.reader == session.reader]
        return messages.SlideView(
            name=slide.name,
            previous=names[at - 1] if at else None,
            next=names[at + 1] if at + 1 < len(names) else None,
            status=status_of(slide, hidden),
            error=error,
            pyramid=shape,
            result=None if hidden else result_of(slide.prediction),
            model=None if hidden else self._model(),
            blind=not self.desk.was_shown(slide.slide_id, session.reader),
            readings=[_reading(reading) for reading in readings],
            combined=combinations(slide, own[-1] if own else None),
            marks_kept="the cohort's annotations, where training finds them"
            if slide.annotations
            else "this reading room; export them to train with them",
        )

    def _error(self, slide: ServedSlide) -> str:
        said = anonymous(slide.prediction.error, slide) if slide.prediction is not None else ""
        return said or (NO_FILE.format(slide.name) if slide.entry is None else "")

    def _shape(self, slide: ServedSlide) -> messages.PyramidShape:
        with self.open_slides.lease(slide) as (pyramid, _):
            shape = pyramid.shape
            mpp = pyramid.slide.mpp
            if mpp is None and slide.tiles is not None:
                mpp = tile_table(slide.tiles).slide_mpp
            return messages.PyramidShape(
                width=shape.size_px0.width,
                height=shape.size_px0.height,
                tile_px=shape.tile_px,
                max_level=shape.max_level,
                mpp=mpp,
            )

    def _model(self) -> messages.ModelNote | None:
        model = self.served.model
        if model is None:
            return None
        return messages.ModelNote(
            confident=model.confident,
            cuts=list(model.cuts),
            threshold=model.threshold,
            calibration_slope=model.calibration.slope,
            calibration_offset=model.calibration.offset,
            calibration_limits=list(model.calibration.limits),
            calibration_slides=model.calibration.slides,
            groups_needed=model.groups_needed,
            provenance=dict(model.provenance),
        )

    # evidence

    def table(self, slide: ServedSlide) -> TileTable:
        if slide.tiles is None:
            raise NoSuchSlide(f"{slide.name}: no model has looked at its tiles; predict it first")
        return tile_table(slide.tiles)

    def evidence(self, slide: ServedSlide, session: Session) -> messages.Evidence:
        """Where to look is no secret; how malignant it looks is, until the reader has said so."""
        table, hidden = self.table(slide), self.hidden(slide, session)
        rows, columns = grid_of(table).shape
        tiles = [
            messages.EvidenceTile(
                rank=tile.rank,
                x=tile.x_px0,
                y=tile.y_px0,
                informativeness=tile.informativeness,
                # of an inadequate slide nothing is said of malignancy
                malignancy=None if hidden or status_of(slide, hidden) != "predicted" else tile.malignancy,
            )
            for tile in kept_tiles(table)
        ]
        model = self.served.model
        return messages.Evidence(
            side_px0=table.side_px0,
            columns=columns,
            rows=rows,
            tiles=tiles,
            histogram=histogram(table),
            groups=None if model is None or hidden else groups(table, model.confident),
            colours=css_colours(),
            guessed=guessed(table),
        )

    def square(self, slide: ServedSlide, x_px0: int, y_px0: int, around: int = 1) -> bytes:
        """One tile as a small picture, or in the middle of `around` × `around` tiles."""
        side_px0 = self.table(slide).side_px0
        margin_px0 = side_px0 * (around - 1) // 2
        with self.open_slides.lease(slide) as (pyramid, fingerprint):
            key = f"{slide.name}/{fingerprint}/square/{x_px0}/{y_px0}/{around}"
            kept = self.open_slides.cache.get(key)
            if kept is None:
                corner, side_px = (
                    (x_px0 - margin_px0, y_px0 - margin_px0),
                    SQUARE_PX if around == 1 else LARGE_SQUARE_PX,
                )
                kept = jpeg(pyramid.slide.read_squares([corner], side_px0 * around, side_px)[0])
                self.open_slides.cache.put(key, kept)
            return kept

    def thumbnail(self, slide: ServedSlide) -> bytes:
        with self.open_slides.lease(slide) as (pyramid, fingerprint):
            key = f"{slide.name}/{fingerprint}/thumbnail"
            kept = self.open_slides.cache.get(key)
            if kept is None:
                kept = jpeg(pyramid.slide.thumbnail(THUMBNAIL_PX))
                self.open_slides.cache.put(key, kept)
            return kept

    # what readers enter

    def give_reading(self, slide: ServedSlide, session: Session, given: messages.NewReading) -> messages.SlideView:
        self.desk.give_reading(slide.slide_id, session.reader, given.bethesda, given.comment)
        return self.view(slide, session)

    def canvas(self, slide: ServedSlide) -> Canvas:
        with self.open_slides.lease(slide) as (pyramid, _):
            return Canvas(pyramid.shape.size_px0, pyramid.slide.bounds_px0)

    def marks_of(self, slide: ServedSlide, session: Session) -> list[Mark]:
        """While the result is hidden, also what others marked is."""
        marks = self.marks.current(slide, self.canvas(slide))
        return [mark for mark in marks if mark.reader == session.reader] if self.hidden(slide, session) else marks

    def suggestions(self, session: Session, most: int) -> list[messages.Suggestion]:
        spots = {}
        marks = self.marks.counts(self.served.slides.values())
        candidates = [slide for slide in self.served.slides.values() if slide.tiles and slide.entry]
        candidates.sort(key=lambda slide: marks.get(slide.slide_id, 0))
        for slide in candidates[:SUGGESTED_SLIDES]:
            try:
                marked = [shapely.from_geojson(mark.geometry) for mark in self.marks_of(slide, session)]
                own = uncertain(slide.name, self.table(slide), marked, self.desk.dismissed(slide.slide_id))
            except AspirateError:
                continue  # its own page says what is wrong
            spots[slide.name] = own
        return [
            messages.Suggestion(
                slide=s.slide, x=s.x_px0, y=s.y_px0, side_px0=s.side_px0, informativeness=s.informativeness
            )
            for s in spread(spots, most)
        ]

    def readers_csv(self) -> str:
        """As `aspirate evaluate --readers` reads it: the first blind reading of each reader on each slide."""
        rows = [(r.slide_id, r.reader, r.bethesda) for r in self.desk.blind_readings()]
        return _csv([("slide_id", "reader", "bethesda"), *rows])

    def readings_csv(self) -> str:
        """Everything that was ever entered, in its order."""
        head = ("slide_id", "reader", "bethesda", "comment", "time", "blind")
        rows = ((r.slide_id, r.reader, r.bethesda, r.comment, r.time, int(r.blind)) for r in self.desk.readings())
        return _csv([head, *rows])


def status_of(slide: ServedSlide, hidden: bool) -> Status:
    if slide.entry is None or (slide.prediction is not None and slide.prediction.status == "failed"):
        return "failed"
    if slide.prediction is None:
        return "unpredicted"
    if hidden:
        return "hidden"
    return "predicted" if slide.prediction.status == "ok" else "inadequate"


def result_of(prediction: Prediction | None) -> messages.Result | None:
    if prediction is None or prediction.status == "failed":
        return None
    return messages.Result(
        method=prediction.method,
        score=prediction.score,
        probability=prediction.probability,
        bethesda=prediction.predicted_bethesda,
        malignant=prediction.predicted_malignant,
        adequate=prediction.adequate,
        informative_tiles=prediction.informative_tiles,
    )


def combinations(slide: ServedSlide, own: Reading | None) -> list[messages.Combination]:
    """The reader with the algorithm, by both rules; none where either says nothing between 2 and 6."""
    said = slide.prediction.predicted_bethesda if slide.prediction is not None else None
    if own is None or said is None or own.bethesda not in TRAINABLE_BETHESDA:
        return []
    found = []
    for rule in get_args(Rule):
        both = combine(slide.name, own.bethesda, said, rule)
        found.append(
            messages.Combination(rule=rule, bethesda=both.bethesda, decided_by=both.decided_by, conflict=both.conflict)
        )
    return found


def _reading(reading: Reading) -> messages.Reading:
    values = asdict(reading)
    del values["slide_id"]
    return messages.Reading(**values)


def _csv(rows: list[tuple[object, ...]]) -> str:
    text = StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()
