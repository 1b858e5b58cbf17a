"""One table, three forms: what a person reads, what a program reads, what a paper prints."""

import csv
from dataclasses import replace
from functools import cache
from io import StringIO

import pytest
from tests.evaluation.simulated import RIVAL, simulated

from aspirate.evaluation.analysis import Analysis, analyse
from aspirate.evaluation.discrimination import OverFolds
from aspirate.evaluation.estimates import Estimate, proportion, unknown
from aspirate.evaluation.material import PROPOSED, EvaluateSettings
from aspirate.evaluation.readers import Reader
from aspirate.evaluation.report_tables import tables
from aspirate.evaluation.summary import sentences
from aspirate.evaluation.tables import Cell, PValue, Share, Signed, Table, as_csv, as_latex, text, why

NAN = float("nan")


@cache
def found() -> Analysis:
    return analyse(simulated(), EvaluateSettings(resamples=100, benign_risk=0.1, malignant_risk=0.8))


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        (Estimate(0.87, 0.8421, 0.8979, 50, "m"), "0.870 (0.842–0.898)"),
        (Estimate(0.1, -0.2, 0.4, 50, "m"), "0.100 (−0.200 to 0.400)"),
        (Estimate(0.5, NAN, NAN, 50, "m", "why"), "0.500"),
        (Estimate(float("inf"), NAN, NAN, 50, "m"), "∞"),
        (unknown(3, "m", "no benign slide"), "–"),
        (Signed(Estimate(-0.01, -0.03, 0.01, 50, "m")), "−0.010 (−0.030 to +0.010)"),
        (Share(proportion(1, 20)), "1/20 = 5.0 % (0.1–24.9 %)"),
        (Share(proportion(0, 0)), "–"),
        (OverFolds(0.8, 0.05, {}, 9), "0.800 ± 0.050"),
        (OverFolds(0.8, NAN, {}, 9), "0.800"),
        (PValue(0.0004), "< 0.001"),
        (PValue(0.0234), "0.023"),
        (PValue(NAN), "–"),
        (1234, "1,234"),
        ("words", "words"),
    ],
)
def test_cells_as_a_person_reads_them(cell: Cell, expected: str) -> None:
    assert text(cell) == expected


def test_a_cell_says_why() -> None:
    assert why(Share(proportion(1, 20))) == "n = 20; exact (Clopper–Pearson), 0.95"
    assert why(unknown(3, "none", "no benign slide")) == "n = 3; none; no benign slide"
    assert why("words") == ""


SMALL = Table(
    "t",
    "T & co",
    ("a_b", "x", "p"),
    (("m_1", Estimate(0.5, 0.25, 0.75, 8, "m"), PValue(0.25)), ("n", "–", PValue(NAN))),
)


def test_csv_has_every_limit() -> None:
    rows = list(csv.reader(StringIO(as_csv(SMALL))))
    assert rows == [
        ["a_b", "x", "x low", "x high", "x n", "p"],
        ["m_1", "0.5", "0.25", "0.75", "8", "0.25"],
        ["n", "–", "", "", "", ""],
    ]


def test_latex_escapes_what_it_must() -> None:
    lines = as_latex(SMALL).splitlines()
    assert lines[1] == r"\begin{tabular}{lrr}"
    assert r"a\_b & x & p \\" in lines and r"m\_1 & 0.500 (0.250--0.750) & 0.250 \\" in lines
    everything = "".join(as_latex(table) for table in tables(found()).values() if not table.note)
    assert all(character.isascii() for character in everything.replace("é", "")), "no package is needed to print it"


def test_tables_hold_the_numbers_of_the_analysis() -> None:
    made = tables(found())
    own = found().method(PROPOSED)
    row = next(row for row in made["methods"].rows if row[0] == PROPOSED)
    assert row[3] == own.pooled.auc and row[6] == f"{own.pooled.malignant}/119" and row[7] == "1 inadequate"
    assert [row[0] for row in made["methods"].rows] == [PROPOSED, RIVAL], "in the order of the predictions"
    assert own.operating is not None
    assert made["operating_points"].rows[0][2] == Share(own.operating.decisions.benign_risk)
    assert len(made["subgroups"].rows) == 12 and len(made["combination"].rows) == 4
    assert "marks" not in made and "stage_1" not in made, "an empty table is left out"


def test_the_summary_tells_what_was_found_and_no_more() -> None:
    said = sentences(found())
    own = found().method(PROPOSED)
    assert said[0].startswith(
        f"{PROPOSED} puts a malignant slide above a benign one in {100 * own.pooled.auc.value:.0f} of"
    )
    assert "Of 1 other method, 1 is clearly worse by AUC and none clearly better" in said[1]
    assert own.operating is not None
    risk = own.operating.decisions.benign_risk
    assert f"of {risk.n} it calls benign, {round(risk.value * risk.n)} are malignant" in said[2]
    assert said[-1] == "Left out of its figures: 1 inadequate of 120 slides."
    bare = analyse(simulated(40, readers=0), EvaluateSettings(resamples=100))
    assert not any("eader" in sentence for sentence in sentences(bare))


def test_conflicts_are_listed_once_with_the_truth() -> None:
    material = simulated(40)
    said = [(row.slide_id, row.predicted_bethesda) for row in material.predictions if row.method == PROPOSED]
    contrary = {slide: 8 - tbs for slide, tbs in said if tbs in (2, 6)}
    analysis = analyse(replace(material, readers=(Reader("contrary", contrary),)), EvaluateSettings(resamples=100))
    rows = {row[0]: row[1:] for row in tables(analysis)["conflicts"].rows}
    assert rows.keys() == contrary.keys() and len(rows) > 3
    for slide, tbs in contrary.items():
        truth = "malignant" if analysis.truth[slide] else "benign"
        assert rows[slide] == ("contrary", f"TBS {tbs}", f"TBS {8 - tbs}", truth)
    assert any(f"{len(rows)} times in {len(rows)} readings" in sentence for sentence in sentences(analysis))
