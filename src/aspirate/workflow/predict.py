"""A trained model on slides it has not seen: scores, evidence, and no diagnosis where there is too little to see."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from aspirate.core.errors import ImplausibleResolution
from aspirate.core.geometry import TileGrid, checked_mpp
from aspirate.core.log import Laps
from aspirate.core.logits import sigmoid
from aspirate.core.predictions import Prediction
from aspirate.core.progress import Advance, silent
from aspirate.core.records import SlideEntry
from aspirate.core.tile_file import TileTable
from aspirate.engines.engine import Engine
from aspirate.slides.reader import open_slide
from aspirate.slides.slide import Slide
from aspirate.stages.cascade import Looked
from aspirate.stages.selection import tile_weights
from aspirate.stages.slide_score import Adequacy, adequacy
from aspirate.workflow.bundle import Bundle, load_bundle
from aspirate.workflow.cascade import Cascade, Seen, cells_of, seen_whole
from aspirate.workflow.opinion import Opinion, prediction_of
from aspirate.workflow.scorers import scorers_for
from aspirate.workflow.screen import score_cells, score_tiles

SCOUTING = 0.5
"""Of the time that a slide takes, for whoever watches."""
COARSER = 1.25
"""A slide may be so much coarser than the coarsest trained on; a finer one is scaled down and always fits."""


def judged(bundle: Bundle, entry: SlideEntry, opinion: Opinion, enough: Adequacy, fold: str = "") -> Prediction:
    """A slide's score in words."""
    family = "Mixture" if bundle.recipe.malignancy.link == "mixture" else "Proposed"
    method = f"{family} (U,{','.join(bundle.recipe.malignancy.labels)})"
    return prediction_of(entry, opinion, bundle.calibration, bundle.threshold, enough, fold, method)


@dataclass(frozen=True, slots=True)
class SlideResult:
    """What a model says of a slide, tile by tile and as a whole."""

    prediction: Prediction
    tiles: TileTable
    groups: int
    looked: Looked | None = None
    """What the cascade did; None where every tile was looked at closely."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """Of each stage, reading included."""

    @property
    def probability(self) -> float | None:
        return self.prediction.probability

    @property
    def bethesda(self) -> int | None:
        return self.prediction.predicted_bethesda

    @property
    def score(self) -> float | None:
        return self.prediction.score

    @property
    def adequate(self) -> bool:
        return bool(self.prediction.adequate)


class Model:
    """A loaded bundle that reproduced its reference scores, ready to be asked."""

    def __init__(self, bundle: Bundle, engine: str = "auto") -> None:
        """`engine` is one of `engines.choice.CHOICES`; `notes` say what a person should know about what was taken."""
        self.bundle = bundle
        scorers = scorers_for(bundle, engine)
        self.engine, self.notes = scorers.name, scorers.notes
        self._informativeness, self._malignancy = scorers.informativeness, scorers.malignancy
        self._scout = scorers.scout

    def predict(
        self,
        slide: str | Path | SlideEntry,
        mpp: float | None = None,
        any_resolution: bool = False,
        advance: Advance = silent,
        informativeness: NDArray[np.float32] | None = None,
        exact: bool = False,
    ) -> SlideResult:
        """`advance` is told of parts of the slide, 1 in all; `informativeness` of every tile, where it is known.

        Where the model has a scout, only tiles that may matter are looked at closely, unless it shall be `exact`.
        """
        entry = slide if isinstance(slide, SlideEntry) else SlideEntry(Path(slide).stem, Path(slide), mpp=mpp)
        recipe = self.bundle.recipe
        with open_slide(entry.path, mpp=entry.mpp, name=entry.slide_id) as opened:
            slide_mpp = checked_mpp(opened.mpp, opened.name)
            if not any_resolution:
                self._refuse_resolution(opened.name, slide_mpp)
            grid = TileGrid.cover(opened.size_px0, slide_mpp, recipe.side_px, recipe.mpp)
            laps = Laps()
            if informativeness is not None:
                seen = seen_whole(informativeness, self.bundle.confident, recipe.selection)
            else:
                seen = self._look(opened, grid, None if exact else self._scout, advance)
            laps.lap("stage_1")
            informativeness, kept = seen.informativeness, seen.kept
            scores = score_tiles(opened, grid, self._malignancy, np.flatnonzero(kept))
            laps.lap("stage_2")
        enough = adequacy(informativeness >= self.bundle.confident, grid.corners_px0(), grid.side_px0, recipe.adequacy)
        reading, malignancy = self.bundle.reading, np.full(len(grid), np.nan, np.float32)
        malignancy[kept] = reading.of_tiles(scores)
        opinion = reading.opinion(scores, tile_weights(informativeness[kept], recipe.selection))
        values = {"informativeness": informativeness, "exact": seen.exact, "selected": kept, "malignancy": malignancy}
        table = TileTable.of_grid(entry.slide_id, grid, values)
        return SlideResult(judged(self.bundle, entry, opinion, enough), table, enough.groups, seen.looked, laps.seconds)

    def _look(self, slide: Slide, grid: TileGrid, scout: Engine | None, advance: Advance) -> Seen:
        """Stage 1, in the cascade or everywhere."""
        confident, selection = self.bundle.confident, self.bundle.recipe.selection
        if scout is None or self.bundle.trust is None:
            logits = score_tiles(slide, grid, self._informativeness, advance=advance)
            return seen_whole(sigmoid(logits).astype(np.float32), confident, selection)
        cells = cells_of(grid, self.bundle.recipe.scout.shrink)
        scouted = score_cells(slide, cells, scout, advance=lambda part: advance(part * SCOUTING))
        cascade = Cascade(self.bundle.trust.margin, confident, selection)

        def enough(confident: NDArray[np.bool_]) -> bool:
            return adequacy(confident, grid.corners_px0(), grid.side_px0, self.bundle.recipe.adequacy).adequate

        seen = cascade.see(scouted, lambda tiles: score_tiles(slide, grid, self._informativeness, tiles), enough=enough)
        advance(1 - SCOUTING)
        return seen

    def _refuse_resolution(self, name: str, slide_mpp: float) -> None:
        coarsest = self.bundle.mpp_range[1]
        if slide_mpp > coarsest * COARSER:
            raise ImplausibleResolution(
                f"{name}: {slide_mpp:.4g} µm/px is coarser than the slides this model was trained on (up to "
                f"{coarsest:.4g}); scan it finer, or insist with --any-resolution"
            )


def load_model(folder: str | Path, engine: str = "auto") -> Model:
    return Model(load_bundle(folder), engine)
