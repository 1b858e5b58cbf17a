"""The demonstration in miniature: every part runs, slides held out were not trained on, a second start is quick."""

import csv
from pathlib import Path

from aspirate.slides.cohort import Cohort
from aspirate.synth.settings import SynthSettings
from aspirate.workflow.demo import run_demo

SMALL = SynthSettings(slides=12, size=(1280, 1280), seed=3, annotated=1.0, malignant=0.5)
QUICK = {
    "informativeness.epochs": 1,
    "informativeness.least_steps": 2,
    "malignancy.epochs": 1,
    "malignancy.tiles_per_slide": 4,
    "informativeness.drawn_per_slide": 8,
    "scout.epochs": 1,
    "scout.steps_per_epoch": 2,
    "parts": 2,
}


def test_it_predicts_patients_it_did_not_train_on(tmp_path: Path) -> None:
    summary = run_demo(tmp_path, settings=SMALL, changes=QUICK)
    everything = {e.slide_id: e for e in Cohort.read(tmp_path / "cohort").entries}
    trained = Cohort.read(tmp_path / "cohort" / "train.csv").entries
    with summary.predicted.table.open(newline="") as file:
        predicted = [line["slide_id"] for line in csv.DictReader(file)]
    assert sorted([e.slide_id for e in trained] + predicted) == sorted(everything)
    assert not {e.patient for e in trained} & {everything[name].patient for name in predicted}
    assert len(predicted) == 4 and summary.failures == {}
    for page in (summary.cohort_page, summary.predicted.page, summary.report):
        assert "Research use only" in page.read_text(encoding="utf-8")
    assert len(list((tmp_path / "predictions" / "heatmaps").glob("*.png"))) == 4

    made = [summary.report, *(tmp_path / "predictions" / "sheets").iterdir()]
    before = {p: p.stat().st_mtime_ns for p in made}
    again = run_demo(tmp_path, settings=SMALL, changes=QUICK)
    assert len(again.predicted.skipped) == 4 and again.figures == summary.figures
    assert before == {p: p.stat().st_mtime_ns for p in made}
