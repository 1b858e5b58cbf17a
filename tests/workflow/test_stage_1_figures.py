"""Figures of stage 1 on a planted fold: informativeness and marks are known, so every number can be counted."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from shapely import Point, box
from sklearn.metrics import roc_auc_score
from tests.workflow.small_model import tile_net, write_tiff

from aspirate.core.geometry import TileGrid
from aspirate.core.progress import silent_stages
from aspirate.core.records import Annotation, SlideEntry
from aspirate.core.tile_file import TileTable, write_tiles
from aspirate.evaluation.splits import Split
from aspirate.learning.device import Compute
from aspirate.slides.annotations import AnnotationIndex
from aspirate.slides.reader import open_slide
from aspirate.stages.informativeness import Informativeness
from aspirate.workflow.first_stage import FirstStage, Slides
from aspirate.workflow.fold import Fold
from aspirate.workflow.recipe import Recipe
from aspirate.workflow.run_folder import RunFolder

RECIPE = Recipe.of({"side_px": 32, "mpp": 0.25, "selection": {"recall": 0.9}})
MPP = {"fine": 0.25, "coarse": 0.5, "bare": 0.25, "lost": 0.25, "learned": 0.25}
"""272 × 208 pixels each: 9 × 7 tiles of 32 pixels, of the coarse one 17 × 13 of 16."""
MARKS: dict[str, tuple[Annotation, ...]] = {
    "fine": (
        Annotation(Point(40, 10)),  # column 1, row 0
        Annotation(Point(63, 31)),  # the same tile
        Annotation(box(64, 64, 128, 128)),  # columns 2 and 3, rows 2 and 3
        Annotation(Point(300, 10)),  # beyond the slide
    ),
    "coarse": (Annotation(Point(40, 10)), Annotation(Point(271, 207))),  # column 2, row 0; the last tile
    "lost": (Annotation(Point(40, 10)),),
    "learned": (Annotation(Point(40, 10)),),
}
MARKED = {"fine": [1, 2 * 9 + 2, 2 * 9 + 3, 3 * 9 + 2, 3 * 9 + 3], "coarse": [2, 17 * 13 - 1]}
HELD = np.array([0.99, 0.2, 0.95, 0.81, 0.97, 0.9, 0.93, 0.72, 0.96, 0.98, 0.88, 0.94])
HISTORY = [
    {"judged": 0.0, "mean_positive": 0.5, "auc": 0.75},
    {"judged": 0.0, "mean_positive": 0.625, "auc": 0.875},
]


def planted(folder: Path, test: tuple[str, ...], marks: dict[str, tuple[Annotation, ...]]) -> Fold:
    """A fold whose slides were screened; one of them was lost since."""
    entries = {
        name: SlideEntry(name, write_tiff(folder / f"{name}.tiff", seed), mpp=mpp)
        for seed, (name, mpp) in enumerate(MPP.items())
    }
    del entries["lost"]
    slides = Slides(entries, AnnotationIndex({}, marks), frozenset(marks))
    run = RunFolder(folder / "fold-0")
    split = Split(("learned",), (), test)
    fold = Fold(0, FirstStage(slides, split, RECIPE, run, Compute("cpu", 1, False), silent_stages))
    for name, entry in entries.items():
        with open_slide(entry.path, mpp=entry.mpp) as slide:
            grid = TileGrid.cover(slide.size_px0, MPP[name], 32, 0.25)
        scores = informativeness(name)
        write_tiles(run.tiles(name), TileTable.of_grid(name, grid, {"informativeness": scores}))
    return fold


def informativeness(name: str) -> NDArray[np.float32]:
    """Rounded, so that some tiles are equal; marked ones are higher on the whole."""
    count = 17 * 13 if name == "coarse" else 9 * 7
    scores = np.random.default_rng(len(name)).random(count) * 0.8
    scores[MARKED.get(name, [])] += 0.2
    return np.round(scores, 2).astype(np.float32)


def learned() -> Informativeness:
    return Informativeness(tile_net(1), HELD, HISTORY)


def test_figures_are_counts_over_all_tiles_of_annotated_test_slides(tmp_path: Path) -> None:
    """Slides that nobody marked, that failed, or that are not tested are not counted."""
    found = planted(tmp_path, ("fine", "bare", "coarse", "lost"), MARKS)._stage_1_figures(learned())
    scores = np.concatenate([informativeness("fine"), informativeness("coarse")]).astype(np.float64)
    marked = np.zeros(9 * 7 + 17 * 13, bool)
    marked[MARKED["fine"] + [9 * 7 + tile for tile in MARKED["coarse"]]] = True
    assert len(np.unique(scores)) < len(scores)
    assert found["test_marked_tiles"] == 7
    assert found["test_auc"] == pytest.approx(roc_auc_score(marked, scores), rel=1e-12)
    assert 0.5 < found["test_auc"] < 1
    assert found["test_mean_positive"] == pytest.approx(scores[marked].mean(), rel=1e-6)
    assert (found["auc"], found["mean_positive"]) == (0.875, 0.625), "of equal epochs the last is kept"


def test_confident_from_is_the_highest_threshold_that_keeps_the_recall(tmp_path: Path) -> None:
    found = planted(tmp_path, ("fine",), MARKS)._stage_1_figures(learned())["confident_from"]
    enough = [threshold for threshold in HELD if np.mean([held >= threshold for held in HELD]) >= 0.9]
    assert found == max(enough) == 0.72


def test_without_a_mark_on_test_slides_there_is_no_test_auc(tmp_path: Path) -> None:
    beyond = {"fine": MARKS["fine"][-1:]}
    for test, marks in (("bare", MARKS), ("fine", beyond)):
        found = planted(tmp_path, (test,), marks)._stage_1_figures(learned())
        assert found == {"auc": 0.875, "mean_positive": 0.625, "test_marked_tiles": 0, "confident_from": 0.72}
