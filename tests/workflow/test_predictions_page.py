"""The page of many slides: its figures, its chart, and nothing it should not claim."""

from pathlib import Path

import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

from aspirate.core.predictions import Prediction
from aspirate.workflow.charts import DOT_PX, WIDTH, strip
from aspirate.workflow.predictions_page import known_figures, write_predictions_page


def row(slide_id: str, score: float, malignant: bool | None, status: str = "ok") -> Prediction:
    said = status == "ok"
    return Prediction(
        slide_id,
        malignant=malignant,
        score=score,
        probability=0.4 if said else None,
        predicted_malignant=score > 0 if said else None,
        adequate=said,
        informative_tiles=9,
        status=status,  # type: ignore[arg-type]
    )


ROWS = [
    row("a", 0.5, True),
    row("b", -0.5, False),
    row("c", 0.7, False),
    row("d", 0.9, True),
    row("unknown", 5.0, None),
    row("inadequate", -9.0, True, "inadequate"),
]


def test_figures_are_of_judged_slides_whose_outcome_is_known() -> None:
    y, scores = [1, 0, 0, 1], [0.5, -0.5, 0.7, 0.9]
    assert known_figures(ROWS) == {
        "AUC": pytest.approx(roc_auc_score(y, scores)),
        "average precision": pytest.approx(average_precision_score(y, scores)),
    }
    assert known_figures(ROWS[:1]) == {} == known_figures([]), "one outcome alone has no AUC"


def test_the_page_shows_figures_and_dots_only_where_outcomes_are_known(tmp_path: Path) -> None:
    write_predictions_page(tmp_path / "with.html", ROWS, "0" * 64, 0.1, "Held out")
    text = (tmp_path / "with.html").read_text(encoding="utf-8")
    assert '<b>0.750</b><span class="dim">AUC</span>' in text and "<h1>Held out</h1>" in text
    assert text.count("<circle") == 4 and "threshold 0.10" in text and "Research use only" in text
    write_predictions_page(tmp_path / "without.html", ROWS[4:5], "0" * 64, 0.1)
    text = (tmp_path / "without.html").read_text(encoding="utf-8")
    assert "<circle" not in text and "AUC" not in text


def test_dots_keep_their_order_and_never_hide_each_other() -> None:
    members = [(f"s{i}", 0.01 * (i % 7), "") for i in range(30)]
    drawn = strip({"malignant": members, "benign": members[:3]}, threshold=1.0)
    for line in drawn.rows:
        for i, a in enumerate(line.dots):
            for b in line.dots[i + 1 :]:
                assert a.x <= b.x and (b.x - a.x >= DOT_PX or abs(a.y - b.y) >= DOT_PX)
    xs = {dot.slide_id: dot.x for dot in drawn.rows[0].dots}
    assert 0 < xs["s0"] < xs["s6"] < drawn.threshold.x < WIDTH
    assert (xs["s6"] - xs["s0"]) / (drawn.threshold.x - xs["s0"]) == pytest.approx(0.06, abs=1e-3)
