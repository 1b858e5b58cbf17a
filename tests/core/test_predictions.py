"""predictions.csv: written as agreed, read back as written."""

import csv
from pathlib import Path

import pytest

from aspirate.core.errors import TableError
from aspirate.core.predictions import COLUMNS, Prediction, read_predictions, write_predictions

ROWS = (
    Prediction(
        "a b,ü",
        fold="3",
        method="Proposed (U,Y,S)",
        malignant=True,
        bethesda=4,
        score=-0.25,
        probability=0.0625,
        predicted_malignant=False,
        predicted_bethesda=2,
        adequate=True,
        informative_tiles=0,
    ),
    Prediction("b", score=1.5, adequate=False, informative_tiles=3, status="inadequate"),
    Prediction("c", malignant=False, status="failed", error='c: "cut" short, copy it again'),
)


def test_columns_and_cells_are_those_of_the_contract(tmp_path: Path) -> None:
    write_predictions(tmp_path / "p.csv", ROWS)
    with (tmp_path / "p.csv").open(encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    assert ",".join(header) == (
        "slide_id,fold,method,malignant,bethesda,score,probability,predicted_malignant,predicted_bethesda,adequate,"
        "informative_tiles,status,error"
    )
    assert rows == [
        ["a b,ü", "3", "Proposed (U,Y,S)", "1", "4", "-0.25", "0.0625", "0", "2", "1", "0", "ok", ""],
        ["b", "", "", "", "", "1.5", "", "", "", "0", "3", "inadequate", ""],
        ["c", "", "", "0", "", "", "", "", "", "", "", "failed", 'c: "cut" short, copy it again'],
    ]


def test_reading_gives_back_what_was_written(tmp_path: Path) -> None:
    write_predictions(tmp_path / "p.csv", ROWS)
    assert read_predictions(tmp_path / "p.csv") == ROWS


def test_numbers_keep_six_digits_and_then_stay(tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    write_predictions(path, [Prediction("a", score=1 / 3, probability=2e-9 / 3)])
    first = read_predictions(path)
    assert (first[0].score, first[0].probability) == (0.333333, 6.66667e-10)
    write_predictions(path, first)
    assert read_predictions(path) == first


def test_a_byte_order_mark_and_other_columns_do_no_harm(tmp_path: Path) -> None:
    write_predictions(tmp_path / "p.csv", ROWS)
    lines = (tmp_path / "p.csv").read_text(encoding="utf-8").splitlines()
    text = "\n".join(f"{'note' if i == 0 else 'x'},{line}" for i, line in enumerate(lines))
    (tmp_path / "q.csv").write_text(text, encoding="utf-8-sig")
    assert read_predictions(tmp_path / "q.csv") == ROWS


def test_all_that_is_wrong_is_said_at_once(tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    cells = dict.fromkeys(COLUMNS, "") | {"slide_id": "a", "status": "ok"}
    rows = [cells | {"malignant": "yes"}, cells | {"score": "high"}, cells, cells | {"status": "done"}]
    path.write_text("\n".join([",".join(COLUMNS), *(",".join(row.values()) for row in rows), "a,b"]))
    with pytest.raises(TableError) as caught:
        read_predictions(path)
    row_2, row_3, row_5, row_6 = caught.value.problems
    assert row_2.startswith("row 2: malignant 'yes': expected 0 or 1")
    assert row_3.startswith("row 3: score 'high'")
    assert row_5.startswith("row 5: status 'done': expected one of ok, inadequate, failed")
    assert row_6.startswith("row 6: ")


def test_a_table_without_the_columns_or_without_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("slide_id,score\na,1\n")
    with pytest.raises(TableError, match="has no column fold, method, malignant"):
        read_predictions(tmp_path / "p.csv")
    (tmp_path / "empty.csv").write_text("")
    with pytest.raises(TableError, match="has no column slide_id"):
        read_predictions(tmp_path / "empty.csv")
    with pytest.raises(TableError, match="cannot be read"):
        read_predictions(tmp_path / "absent.csv")
