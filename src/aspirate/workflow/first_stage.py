"""Everything up to the kept tiles: read what stage 1 learns from, train it, score every tile of every slide, keep the
best. Each step leaves files and is skipped where they are there; a slide that fails is left out from there on."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from aspirate.core.errors import AspirateError
from aspirate.core.geometry import Size, TileGrid, checked_mpp
from aspirate.core.log import WARNING, Laps, tell
from aspirate.core.logits import sigmoid
from aspirate.core.progress import Bar, Stages
from aspirate.core.records import SlideEntry
from aspirate.core.tile_file import TileTable, read_tiles, write_tiles
from aspirate.engines.choice import engine_for
from aspirate.engines.engine import Engine
from aspirate.evaluation.splits import Split
from aspirate.learning.checkpoints import tensors_sha256
from aspirate.learning.device import Compute
from aspirate.learning.loop import Watch
from aspirate.learning.tile_bank import TileBank
from aspirate.slides.annotations import AnnotationIndex
from aspirate.slides.cohort import Cohort
from aspirate.slides.examination import Examination
from aspirate.slides.reader import open_slide
from aspirate.stages.informativeness import (
    MARKED,
    Informativeness,
    InformativenessLearner,
    collect,
    marked_tiles,
    train_informativeness,
)
from aspirate.stages.malignancy import KEPT, MarkedTile
from aspirate.stages.selection import confident_from, select, tile_weights
from aspirate.workflow.recipe import Recipe
from aspirate.workflow.run_folder import RunFolder
from aspirate.workflow.screen import score_tiles


@dataclass(slots=True)
class Slides:
    """The slides of a cohort that can be used, what is marked on them, and why others cannot."""

    entries: dict[str, SlideEntry]
    annotations: AnnotationIndex
    annotated: frozenset[str]
    failures: dict[str, str] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)
    """In the cohort's table, from 1; the log tells slides apart by them."""

    @classmethod
    def of(cls, cohort: Cohort, examination: Examination) -> Self:
        """Those the doctor could open, with their resolution; TBS 1 is out of scope."""
        mpp = {slide.slide_id: slide.mpp for slide in examination.slides if slide.status == "ok"}
        usable = (e for e in cohort.entries if e.slide_id in mpp and e.bethesda != 1)
        return cls(
            {e.slide_id: replace(e, mpp=mpp[e.slide_id]) for e in usable},
            AnnotationIndex.of(cohort.folder),
            frozenset(slide.slide_id for slide in examination.slides if slide.annotations),
            {
                finding.slide_id: finding.what
                for finding in examination.findings
                if finding.level == "error" and finding.slide_id is not None and finding.slide_id not in mpp
            },
            {entry.slide_id: number for number, entry in enumerate(cohort.entries, 1)},
        )

    def copy(self) -> Self:
        """The same slides; one left out of the copy stays here."""
        return replace(self, entries=dict(self.entries), failures=dict(self.failures))

    def leave_out(self, entry: SlideEntry, error: AspirateError) -> None:
        private = {"slide_id": entry.slide_id, "error": str(error)}
        tell("slide left out", WARNING, private, slide=self.numbers.get(entry.slide_id), kind=type(error).__name__)
        self.failures[entry.slide_id] = str(error)
        del self.entries[entry.slide_id]

    def present(self, slide_ids: Iterable[str]) -> list[SlideEntry]:
        return [self.entries[slide_id] for slide_id in slide_ids if slide_id in self.entries]


def shown_on(bar: Bar) -> Watch:
    """Each step of a training, with its loss."""

    def watch(step: int, loss: float) -> None:
        bar(1)
        bar.note(f"loss {loss:.3f}")

    return watch


class FirstStage:
    """Slides, a split of them and a folder in; a net, every tile's score and the kept tiles' pixels out."""

    def __init__(
        self,
        slides: Slides,
        split: Split,
        recipe: Recipe,
        folder: RunFolder,
        compute: Compute,
        stages: Stages,
        shared: TileBank | None = None,
    ) -> None:
        """`shared` keeps what stage 1 learns from, which is the same in every fold."""
        self.slides, self.split, self.recipe, self.folder = slides, split, recipe, folder
        self.compute, self.stages = compute, stages
        self.bank = TileBank(folder.cache, beneath=shared)
        self.collected = shared or self.bank

    def run(self) -> Informativeness:
        found = self.learned()
        self.screen(found, self.split.everyone)
        return found

    def learned(self) -> Informativeness:
        """Before it has looked at whole slides."""
        self.collect()
        return self.learn()

    def confident(self, informativeness: Informativeness) -> float:
        """Probability from which a tile counts as confidently informative."""
        return confident_from(informativeness.held, self.recipe.selection.recall)

    def collect(self) -> None:
        """Pixels of stage 1 from slides to learn from and to validate on."""
        wanted = self.slides.present((*self.split.train, *self.split.validation))
        numbers = {slide_id: number for number, slide_id in enumerate(self.slides.entries)}
        with self.stages("reading tiles to learn from", len(wanted), "slides") as advance:
            for entry in wanted:
                try:
                    with open_slide(entry.path, mpp=entry.mpp, name=entry.slide_id) as slide:
                        marks = self.slides.annotations.read(entry.slide_id, slide.bounds_px0)
                        grid = self.grid(slide.size_px0, entry)
                        seed = self.recipe.seed * 1_000_003 + numbers[entry.slide_id]
                        collect(slide, grid, marks, self.collected, self.recipe.informativeness, seed)
                except AspirateError as error:
                    self.slides.leave_out(entry, error)
                advance(1)

    def grid(self, size_px0: Size, entry: SlideEntry) -> TileGrid:
        mpp = checked_mpp(entry.mpp, entry.slide_id)
        return TileGrid.cover(size_px0, mpp, self.recipe.side_px, self.recipe.mpp)

    def learn(self) -> Informativeness:
        train = [entry.slide_id for entry in self.slides.present(self.split.train)]
        validation = [entry.slide_id for entry in self.slides.present(self.split.validation)]
        settings = self.recipe.informativeness
        learner = InformativenessLearner(self.bank, train, validation, self.recipe.side_px, settings, self.recipe.seed)
        steps = settings.epochs * learner.steps_per_epoch
        with self.stages("stage 1, informativeness", steps, "steps") as bar:
            return train_informativeness(learner, self.folder.informativeness, self.compute, shown_on(bar))

    def screen(self, informativeness: Informativeness, slide_ids: Iterable[str]) -> None:
        """Score every tile of these slides, keep the best, put their pixels into the bank."""
        engine = engine_for(informativeness.net)
        sha256 = tensors_sha256(informativeness.net.state_dict())
        confident = self.confident(informativeness)
        wanted = self.slides.present(slide_ids)
        with self.stages("screening", len(wanted), "slides") as advance:
            for entry in wanted:
                try:
                    self.screen_slide(entry, engine, confident, sha256)
                except AspirateError as error:
                    self.slides.leave_out(entry, error)
                advance(1)

    def screen_slide(self, entry: SlideEntry, engine: Engine, confident: float, sha256: str) -> None:
        path, stack = self.folder.tiles(entry.slide_id), f"{entry.slide_id}.{KEPT}"
        if path.exists() and self.bank.has(stack):
            return
        laps = Laps()
        with open_slide(entry.path, mpp=entry.mpp, name=entry.slide_id) as slide:
            grid = self.grid(slide.size_px0, entry)
            scores = self.scored(path, sha256)
            if scores is None:
                scores = sigmoid(score_tiles(slide, grid, engine)).astype(np.float32)
            laps.lap("score")
            kept = select(scores, confident, self.recipe.selection)
            self.bank.add(stack, slide.read_squares(grid.corners_px0()[kept], grid.side_px0, grid.side_px))
        values = {"informativeness": scores, "selected": kept}
        write_tiles(path, TileTable.of_grid(entry.slide_id, grid, values, sha256))
        laps.lap("keep")
        tell(
            "slide screened",
            private={"slide_id": entry.slide_id},
            slide=self.slides.numbers.get(entry.slide_id),
            tiles=len(grid),
            kept=len(scores[kept]),
            seconds=laps.whole,
            parts=laps.seconds,
        )

    def scored(self, path: Path, sha256: str) -> NDArray[np.float32] | None:
        """What the same net said of a slide in another run."""
        if not path.exists():
            return None
        table = read_tiles(path)
        return table.values["informativeness"] if table.model_sha256 == sha256 else None

    def kept(self, entry: SlideEntry) -> NDArray[np.uint8]:
        return self.bank.stack(f"{entry.slide_id}.{KEPT}")

    def weights(self, entry: SlideEntry) -> NDArray[np.float64]:
        """u of the kept tiles, in the order in which the bank has them."""
        values = read_tiles(self.folder.tiles(entry.slide_id)).values
        return tile_weights(values["informativeness"][values["selected"]], self.recipe.selection)

    def any_tiles(self) -> "FirstStage":
        """The same slides without stage 1: tiles drawn from anywhere take the place of those kept, and count alike."""
        found = _AnyTiles(self)
        found.collect()
        return found

    def marked(self, train: list[SlideEntry]) -> list[MarkedTile]:
        """Tiles with a grade of their own, as they stand in the bank."""
        found = []
        for number, entry in enumerate(train):
            stack = f"{entry.slide_id}.{MARKED}"
            if not self.bank.has(stack):
                continue
            with open_slide(entry.path, mpp=entry.mpp, name=entry.slide_id) as slide:
                grid = self.grid(slide.size_px0, entry)
                marks = marked_tiles(grid, self.slides.annotations.read(entry.slide_id, slide.bounds_px0))
            found += [
                MarkedTile(stack, row, int(grade), number) for row, grade in enumerate(marks.grades) if grade >= 0
            ]
        return found


class _AnyTiles(FirstStage):
    """Drawn once for all folds, each slide's as its number in the cohort and the seed say."""

    def __init__(self, first: FirstStage) -> None:
        alike = first.recipe.selection.model_copy(update={"weights": "binary"})
        recipe = first.recipe.model_copy(update={"selection": alike})
        super().__init__(first.slides, first.split, recipe, first.folder, first.compute, first.stages)
        self.bank = TileBank(first.collected.folder / "anywhere")

    def collect(self) -> None:
        """Of slides to learn from and to validate on, so that one which cannot be read is left out in time."""
        wanted = self.slides.present((*self.split.train, *self.split.validation))
        with self.stages("drawing tiles from anywhere", len(wanted), "slides") as advance:
            for entry in wanted:
                try:
                    self.kept(entry)
                except AspirateError as error:
                    self.slides.leave_out(entry, error)
                advance(1)

    def kept(self, entry: SlideEntry) -> NDArray[np.uint8]:
        name = f"{entry.slide_id}.{KEPT}"
        if not self.bank.has(name):
            with open_slide(entry.path, mpp=entry.mpp, name=entry.slide_id) as slide:
                grid = self.grid(slide.size_px0, entry)
                rng = np.random.default_rng([self.recipe.seed, self.slides.numbers[entry.slide_id]])
                chosen = rng.choice(len(grid), min(self.recipe.crops.drawn, len(grid)), replace=False)
                self.bank.add(name, slide.read_squares(grid.corners_px0()[chosen], grid.side_px0, grid.side_px))
        return super().kept(entry)

    def weights(self, entry: SlideEntry) -> NDArray[np.float64]:
        return np.ones(len(self.kept(entry)))
