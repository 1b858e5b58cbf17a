"""Tables of tiles, each cell by hand."""

from math import isnan, nan, sqrt
from pathlib import Path

import pytest
from shapely import Point

from aspirate.core.labels import Abnormality
from aspirate.core.predictions import Prediction
from aspirate.core.records import Annotation, SlideEntry
from aspirate.evaluation.analysis import Analysis, analyse
from aspirate.evaluation.discrimination import OverFolds
from aspirate.evaluation.material import PROPOSED, EvaluateSettings, Material, TileFacts
from aspirate.evaluation.tables import Table, text
from aspirate.evaluation.tile_tables import marks_table, model_slides_table, model_table, stage_1_table

SLIDES: dict[str, tuple[bool | None, int | None]] = {  # malignant, TBS
    "a": (False, 3),
    "b": (False, 3),
    "c": (True, 6),
    "d": (True, 6),
    "e": (True, 2),
    "f": (False, None),
    "g": (None, 6),
}


def analysed(
    tiles: tuple[TileFacts, ...] = (),
    marks: dict[str, list[Annotation]] | None = None,
    stage_1: dict[str, dict[str, float]] | None = None,
) -> Analysis:
    entries = tuple(SlideEntry(name, Path(name), malignant=y, bethesda=s) for name, (y, s) in SLIDES.items())
    rows = tuple(Prediction(e.slide_id, "0", PROPOSED, e.malignant, e.bethesda, 0.5, 0.6) for e in entries)
    material = Material(rows, entries=entries, tiles=tiles, marks=marks or {}, stage_1=stage_1 or {})
    return analyse(material, EvaluateSettings(resamples=100))


def read(table: Table) -> list[list[str]]:
    return [[text(cell) for cell in row] for row in table.rows]


TILES = (
    TileFacts("a", (120, 30, 50), informative=50, judged=10, positive=3, mean_probability=0.413),
    TileFacts("b", (95, 0, 5), informative=5, judged=0, positive=0, mean_probability=nan),
    TileFacts("c", (1, 2, 4), informative=4, judged=2, positive=1, mean_probability=0.62),
    TileFacts("d", (1000, 0, 250), informative=250, judged=250, positive=210, mean_probability=0.9),
    TileFacts("e", (30, 0, 1), informative=1, judged=0, positive=0, mean_probability=nan),
    TileFacts("f", (1, 0, 1), informative=1, judged=1, positive=1, mean_probability=0.7),
    TileFacts("g", (1, 1, 1), informative=1, judged=1, positive=0, mean_probability=0.2),
)


def test_what_the_model_says_is_a_mean_over_slides_of_a_kind() -> None:
    """Not over tiles; a slide without a judged tile has no share of them, one without a label no row."""
    assert read(model_table(analysed(TILES))) == [
        ["benign", "TBS 3", "15.00 ± 14.14 %", "30 %", "41 %", "2"],  # of 50/200 and 5/100: 0.2/√2; 3/10; 0.413
        ["malignant", "TBS 2", "3.23 %", "–", "–", "1"],  # 1/31
        ["malignant", "TBS 6", "38.57 ± 26.26 %", "67 ± 24 %", "76 ± 20 %", "2"],  # 4/7, 250/1250; 1/2, 210/250
    ]
    assert model_table(analysed()).rows == ()


def test_what_the_model_says_of_each_slide() -> None:
    rows = model_slides_table(analysed(TILES)).rows
    assert [row[:4] for row in rows] == [
        ("a", 200, 50, 10),
        ("b", 100, 5, 0),
        ("c", 7, 4, 2),
        ("d", 1250, 250, 250),
        ("e", 31, 1, 0),
        ("f", 2, 1, 1),
        ("g", 3, 1, 1),
    ]
    shares = [0.3, nan, 0.5, 0.84, nan, 1, 0]
    assert [row[4] for row in rows] == pytest.approx(shares, nan_ok=True)
    assert [row[5] for row in rows] == pytest.approx([0.413, nan, 0.62, 0.9, nan, 0.7, 0.2], nan_ok=True)


def graded(normal: int, atypical: int, malignant: int, ungraded: int = 0) -> list[Annotation]:
    grades = [Abnormality.NORMAL] * normal + [Abnormality.ATYPICAL] * atypical + [Abnormality.MALIGNANT] * malignant
    return [Annotation(Point(0, 0), grade) for grade in grades] + [Annotation(Point(0, 0))] * ungraded


def test_shares_of_marks_are_of_all_marks_of_a_kind_of_slide() -> None:
    """Slides of a kind are thrown together, unlike the model's: 1 of 3 and 4 of 1,138 are 5 of 1,141."""
    marks = {"a": graded(281, 373, 46, ungraded=2), "c": graded(1, 1, 1), "d": graded(4, 109, 1025)}
    unplaced = {"f": graded(1, 0, 2), "g": graded(0, 4, 0, ungraded=5)}
    table = marks_table(analysed(marks=marks | unplaced))
    assert read(table) == [
        ["benign", "TBS 3", "281 (40 %)", "373 (53 %)", "46 (7 %)", "1"],  # 40.1, 53.3, 6.6 of 700
        ["malignant", "TBS 6", "5 (0 %)", "110 (10 %)", "1,026 (90 %)", "2"],  # 0.4, 9.6, 89.9 of 1,141
    ]
    assert table.note == "Not counted: 7 marks without a grade, 7 on slides without labels."


def test_stage_1_over_folds() -> None:
    folds = {
        "0": {"auc": 0.9, "test_auc": 0.7, "test_marked_tiles": 10},
        "1": {"auc": 0.8, "test_marked_tiles": 0},
        "2": {"auc": 1.0, "test_auc": 0.9, "test_marked_tiles": 32},
    }
    table = stage_1_table(analysed(stage_1=folds))
    over = [row[1] for row in table.rows if isinstance(row[1], OverFolds)]
    assert [row[0] for row in table.rows] == ["auc", "test auc", "test marked tiles"]
    assert [row[2] for row in table.rows] == [3, 2, 3]
    assert [found.mean for found in over] == pytest.approx([0.9, 0.8, 14])
    # squares about the mean: 0.1² + 0.1², 0.1² + 0.1², 4² + 14² + 18²; each over one fold less
    assert [found.sd for found in over] == pytest.approx([0.1, sqrt(0.02), sqrt(268)])
    assert [text(found) for found in over[:2]] == ["0.900 ± 0.100", "0.800 ± 0.141"]
    (only,) = (row[1] for row in stage_1_table(analysed(stage_1={"0": {"auc": 0.9}})).rows)
    assert isinstance(only, OverFolds) and only.mean == 0.9 and isnan(only.sd)


def test_a_fold_whose_stage_1_figure_is_undefined_is_left_out_of_mean_and_sd() -> None:
    """As `OverFolds` says; where every tile of the test slides is marked there is no AUC."""
    folds = {"0": {"test_auc": 0.7}, "1": {"test_auc": nan}, "2": {"test_auc": 0.9}}
    (found,) = (row[1] for row in stage_1_table(analysed(stage_1=folds)).rows)
    assert isinstance(found, OverFolds)
    assert (found.mean, found.sd) == pytest.approx((0.8, sqrt(0.02)))
