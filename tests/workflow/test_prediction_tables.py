"""Predictions as this program and others write them, and what readers said."""

from pathlib import Path

import pytest

from aspirate.core.errors import TableError
from aspirate.core.predictions import Prediction, write_predictions
from aspirate.evaluation.readers import Reader
from aspirate.workflow.prediction_tables import read_any_predictions, read_readers


def written(folder: Path, text: str) -> Path:
    path = folder / "table.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_what_was_written_reads_back_equal(tmp_path: Path) -> None:
    rows = (
        Prediction("a", "0", "Proposed (U,Y,S)", True, 5, 1.25, 0.75, True, 6, True, 40),
        Prediction("b", "1", "CNN (Y,S)", None, None, -2.0, None, None, None, False, 3, "inadequate"),
        Prediction("c", "1", "CNN (Y,S)", False, status="failed", error="c: no such file"),
    )
    write_predictions(tmp_path / "p.csv", rows)
    assert read_any_predictions(tmp_path / "p.csv") == rows


def test_clam(tmp_path: Path) -> None:
    found = read_any_predictions(written(tmp_path, "slide_id,Y,Y_hat,p_0,p_1\na,1.0,0,0.8,0.2\nb,0.0,1,0.4,0.6\n"))
    assert found == (
        Prediction("a", malignant=True, probability=0.2, predicted_malignant=False),
        Prediction("b", malignant=False, probability=0.6, predicted_malignant=True),
    )


def test_few_columns_are_enough_in_any_order_and_spelling(tmp_path: Path) -> None:
    found = read_any_predictions(written(tmp_path, "Score;slide_id;label;bethesda\n1.5;a;malignant;IV\n;b;;\n"))
    assert found[0] == Prediction("a", malignant=True, bethesda=4, score=1.5)
    assert found[1] == Prediction("b")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "the file is empty"),
        ("slide,score\na,1\n", "no column “slide_id”"),
        ("slide_id,Y\na,1\n", "no column “score”, “probability” or “p_1”"),
        ("slide_id,Y,p_0,p_1,p_2\na,2,0,0,1\n", "three classes"),
        ("slide_id,score\na,high\n", "row 2: score 'high': expected a number"),
        ("slide_id,score,malignant\na,1,maybe\n", "row 2: malignant 'maybe': expected 0 or 1"),
        ("slide_id,score,status\na,1,done\n", "row 2: status 'done': expected one of ok, inadequate, failed"),
        ("slide_id,score\na,1,2,3\n", "row 2: 4 cells under 2 column names"),
        ("slide_id,score\n,1\n", "row 2: slide_id is blank"),
        ("slide_id,score,Score\na,1,2\n", "header: score, Score all mean score; keep one"),
        ("slide_id,p_1,label,Y\na,1,0,1\n", "header: label, Y all mean malignant; keep one"),
        ("slide_id,score,informative_tiles\na,1,inf\n", "informative_tiles 'inf': expected a whole number"),
        ("slide_id,p_0,p_1\na,0.5,0.7\n", "row 2: p_0 0.5 and p_1 0.7 do not add up to 1"),
    ],
)
def test_what_cannot_be_understood(tmp_path: Path, text: str, expected: str) -> None:
    with pytest.raises(TableError) as raised:
        read_any_predictions(written(tmp_path, text))
    assert expected in str(raised.value)


def test_readers(tmp_path: Path) -> None:
    found = read_readers(written(tmp_path, "reader,slide_id,bethesda\nzoe,a,IV\nann,a,2\nann,b,1\nann,c,\n"))
    assert found == (Reader("ann", {"a": 2}, ("b",)), Reader("zoe", {"a": 4}))
    for text, expected in (
        ("slide_id,reader\na,x\n", "no column “bethesda”"),
        ("slide_id,reader,bethesda\na,x,9\n", "row 2: bethesda '9': expected a Bethesda category 1 to 6"),
        ("slide_id,reader,bethesda\na,x,4\na,x,5\n", "row 3: x read a in row 2 too"),
        ("slide_id,reader,bethesda\na,,4\n", "row 2: slide_id or reader is blank"),
    ):
        with pytest.raises(TableError) as raised:
            read_readers(written(tmp_path, text))
        assert expected in str(raised.value)
