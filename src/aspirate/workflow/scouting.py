"""The scout of a training: cells of slides to learn from, the net they teach, and how far it may be trusted."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from aspirate.core.errors import AspirateError
from aspirate.core.logits import logit
from aspirate.core.records import SlideEntry
from aspirate.core.store import atomic_path
from aspirate.core.tile_file import read_tiles
from aspirate.engines.torch_engine import TorchEngine
from aspirate.nn.tile_net import TileNet
from aspirate.slides.reader import open_slide
from aspirate.stages.calibration import Calibration
from aspirate.stages.scout import ScoutLearner, collect_cells, tiles_to_learn, train_scout
from aspirate.stages.selection import tile_weights
from aspirate.stages.settings import CELLS_AT_ONCE
from aspirate.workflow.cascade import cells_of
from aspirate.workflow.first_stage import FirstStage, shown_on
from aspirate.workflow.screen import score_cells, score_tiles
from aspirate.workflow.second_stage import Proposed
from aspirate.workflow.trust import HeldSlide, Trust, decide


class ScoutTraining:
    """Follows a first stage, whose scores of every tile it learns from."""

    net: TileNet

    def __init__(self, first: FirstStage, confident: float) -> None:
        """`confident` is the probability from which a tile counts as informative."""
        self.first, self.slides, self.recipe = first, first.slides, first.recipe
        self.folder, self.confident = first.folder.scout, confident

    def run(self) -> None:
        self.collect()
        self.learn()

    def collect(self) -> None:
        wanted = self.slides.present((*self.first.split.train, *self.first.split.validation))
        with self.first.stages("reading cells for the scout", len(wanted), "slides") as advance:
            for entry in wanted:
                try:
                    with open_slide(entry.path, mpp=entry.mpp, name=entry.slide_id) as slide:
                        grid = self.first.grid(slide.size_px0, entry)
                        collect_cells(slide, grid, self.tiles(entry), self.first.bank, self.recipe.scout)
                except AspirateError as error:
                    self.slides.leave_out(entry, error)
                advance(1)

    def tiles(self, entry: SlideEntry) -> NDArray[np.int64]:
        """The same at every start."""
        return tiles_to_learn(self.scores(entry)[0], self.recipe.scout, self.recipe.seed)

    def scores(self, entry: SlideEntry) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Informativeness of every tile, and which are kept."""
        values = read_tiles(self.first.folder.tiles(entry.slide_id)).values
        return values["informativeness"], values["selected"]

    def learn(self) -> None:
        split, settings = self.first.split, self.recipe.scout
        logits = {
            entry.slide_id: logit(self.scores(entry)[0][self.tiles(entry)])
            for entry in self.slides.present((*split.train, *split.validation))
        }
        train, validation = (
            {name: logits[name] for name in names if name in logits} for names in (split.train, split.validation)
        )
        weakest = [p[kept].min() for p, kept in map(self.scores, self.slides.present(split.train))]
        level = float(logit(min(self.confident, float(np.median(weakest)))))
        cell_px = self.recipe.side_px // settings.shrink
        learner = ScoutLearner(self.first.bank, train, validation, level, cell_px, settings, self.recipe.seed)
        with self.first.stages("scout", settings.epochs * settings.steps_per_epoch, "steps") as bar:
            alone = replace(self.first.compute, devices=1)  # too small a net to be shared
            self.net = train_scout(learner, self.folder, alone, shown_on(bar))

    def trust(self, proposed: Proposed, calibration: Calibration) -> Trust:
        """Measured on validation slides, all of whose tiles r_φ has seen."""
        engine = TorchEngine(self.net, batch=CELLS_AT_ONCE)
        held = []
        validation = self.slides.present(self.first.split.validation)
        with self.first.stages("how far the scout is trusted", len(validation), "slides") as advance:
            for entry in validation:
                p, kept = self.scores(entry)
                of_kept = self._probability(entry, proposed, calibration)
                held.append(HeldSlide(self._scouted(entry, engine), logit(p).astype(np.float32), kept, of_kept))
                advance(1)
        return decide(held, self.confident, self.recipe.selection)

    def _scouted(self, entry: SlideEntry, engine: TorchEngine) -> NDArray[np.float32]:
        path: Path = self.folder / f"{entry.slide_id}.npy"
        if not path.exists():
            with open_slide(entry.path, mpp=entry.mpp, name=entry.slide_id) as slide:
                cells = cells_of(self.first.grid(slide.size_px0, entry), self.recipe.scout.shrink)
                guesses = score_cells(slide, cells, engine)
            with atomic_path(path) as part, part.open("wb") as file:
                np.save(file, guesses)
        scouted: NDArray[np.float32] = np.load(path, allow_pickle=False)
        return scouted

    def _probability(
        self, entry: SlideEntry, proposed: Proposed, calibration: Calibration
    ) -> Callable[[NDArray[np.bool_]], float]:
        """Of malignancy, were other tiles kept; those that stage 2 has not seen yet are read when asked for."""
        p, usual = self.scores(entry)
        malignancy = np.full(len(p), np.nan, np.float32)

        def probability(kept: NDArray[np.bool_]) -> float:
            if np.isnan(malignancy[usual]).any():
                malignancy[usual] = proposed.tile_scores(entry)
            unknown = np.flatnonzero(kept & np.isnan(malignancy))
            if len(unknown):
                engine = TorchEngine(proposed.learner.module.net)
                with open_slide(entry.path, mpp=entry.mpp, name=entry.slide_id) as slide:
                    malignancy[unknown] = score_tiles(slide, self.first.grid(slide.size_px0, entry), engine, unknown)
            score = proposed.reading.score(malignancy[kept], tile_weights(p[kept], self.recipe.selection))
            return float(calibration.probability(score))

        return probability
