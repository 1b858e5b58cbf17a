"""From a run's folder to its report: what is written, what it says, and that nothing in it comes from outside."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sklearn.metrics import roc_auc_score
from tests.evaluation.simulated import CUTS, FOLDS, simulated

from aspirate.core.errors import AspirateError, TableError
from aspirate.core.geometry import Size, TileGrid
from aspirate.core.learning_points import LearningPoint, write_learning_points
from aspirate.core.predictions import Prediction, write_predictions
from aspirate.core.tile_file import TileTable, write_tiles
from aspirate.evaluation.analysis import analyse
from aspirate.evaluation.drawing import Drawing
from aspirate.evaluation.material import PROPOSED, EvaluateSettings
from aspirate.slides.cohort import Cohort
from aspirate.workflow.evaluate import EvaluateSummary, Sources, evaluate, evaluate_run, facts_of, gather
from aspirate.workflow.report_page import inline_svg
from aspirate.workflow.report_pictures import collect_pictures, most_informative, telling_slides

pytestmark = pytest.mark.xdist_group("evaluate")  # its fixtures are dear: one worker makes them
FEW = EvaluateSettings(resamples=100, benign_risk=0.1, malignant_risk=0.8)
GRID = TileGrid.cover(Size(512, 384), 0.25)
GREEN = 6
"""The one informative tile of every slide, which is green."""


def tile_table(slide_id: str, peak: float) -> TileTable:
    informativeness = np.full(len(GRID), 0.1, np.float32)
    informativeness[GREEN] = peak
    malignancy = np.full(len(GRID), np.nan)
    malignancy[[GREEN, 0, 1]] = 2.0, -1.0, -1.0
    return TileTable.of_grid(
        slide_id, GRID, {"informativeness": informativeness, "selected": malignancy == 2, "malignancy": malignancy}
    )


def make_run(folder: Path, with_slides: bool = True) -> Path:
    """Everything that a cross-validation leaves, of 24 small slides."""
    run, cohort = folder / "run", folder / "cohort"
    (cohort / "slides").mkdir(parents=True)
    material = simulated(24)
    entries = [replace(entry, path=cohort / "slides" / entry.path.name) for entry in material.entries]
    Cohort.write(cohort / "cohort.csv", entries)
    pixels = np.full((384, 512, 3), 230, np.uint8)
    x, y = GRID.corners_px0()[GREEN]
    pixels[y : y + 128, x : x + 128] = 20, 160, 40
    for entry in entries[: 23 if with_slides else 0]:
        Image.fromarray(pixels).save(entry.path)
    marks = [
        "slide_id,x,y,abnormality",
        *(f"{e.slide_id},5,5,{'malignant' if e.malignant else 'normal'}" for e in entries[:6]),
    ]
    (cohort / "annotations.csv").write_text("\n".join(marks), encoding="utf-8")
    write_predictions(run / "predictions.csv", material.predictions)
    write_predictions(run / "validation.csv", material.validation)
    for i, row in enumerate(row for row in material.predictions if row.method == PROPOSED):
        write_tiles(run / f"fold-{row.fold}" / "tiles" / f"{row.slide_id}.h5", tile_table(row.slide_id, 0.6 + 0.01 * i))
    models = {f"{fold}/{PROPOSED}": {"cuts": {"S": CUTS}, "threshold": 0.5, "figures": {}} for fold in range(FOLDS)}
    notes = {"cohort": str(cohort / "cohort.csv"), "skipped": {"NoisyOr (U,Y,S)": "no annotations"}}
    stage_1 = {str(fold): {"auc": 0.9 + 0.01 * fold, "mean_positive": 0.95} for fold in range(FOLDS)}
    points = [
        LearningPoint(s, str(k), round(160 * s) + k, 5, 0.6 + s / 4 + 0.01 * k) for s in (0.25, 1.0) for k in (0, 2)
    ]
    write_learning_points(run / "learning_curve.csv", points)
    for name, value in (("models", models), ("crossval", notes), ("stage1", stage_1)):
        (run / f"{name}.json").write_text(json.dumps(value), encoding="utf-8")
    return run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("evaluate"))


@pytest.fixture(scope="module")
def summary(run: Path) -> EvaluateSummary:
    return evaluate_run(run, FEW)


@pytest.fixture(scope="module")
def page(summary: EvaluateSummary) -> str:
    return summary.page.read_text(encoding="utf-8")


def test_a_run_is_found_whole(run: Path, summary: EvaluateSummary) -> None:
    found = summary.analysis
    assert (summary.metrics, summary.page) == (run / "metrics.json", run / "report" / "index.html")
    assert found.slides.patients == 12 and found.readers is not None and len(found.readers.comparisons) == 2
    own = found.method(PROPOSED)
    assert own.operating is not None and own.sets is not None
    assert found.ppi is not None and found.ppi.marks is not None and found.ppi.marks.counts.sum() == 6
    assert len(found.ppi.model) == 24
    assert "NoisyOr (U,Y,S) was not run: no annotations" in found.notes


def test_metrics_hold_the_numbers_and_are_the_same_each_time(
    run: Path, summary: EvaluateSummary, tmp_path: Path
) -> None:
    metrics = json.loads(summary.metrics.read_text(encoding="utf-8"))
    rows = [r for r in simulated(24).predictions if r.method == PROPOSED and r.status == "ok"]
    own = next(method for method in metrics["methods"] if method["name"] == PROPOSED)
    expected = roc_auc_score([r.malignant for r in rows], [r.probability for r in rows])
    assert own["pooled"]["auc"]["value"] == pytest.approx(expected)
    assert metrics["use"] == "Research use only. Not for diagnosis."
    again = evaluate(Sources(run / "predictions.csv"), tmp_path / "again", FEW)
    for name in ("metrics.json", "report/index.html", "tables/methods.csv", "figures/roc_pr.pdf"):
        assert (tmp_path / "again" / name).read_bytes() == (run / name).read_bytes(), name
    assert again.analysis.notes == summary.analysis.notes


def test_figures_and_tables_are_files_too(summary: EvaluateSummary) -> None:
    figures = {path.name for path in summary.figures.iterdir()}
    assert {
        f"{name}.{kind}" for name in ("roc_pr", "confusion", "informativeness") for kind in ("svg", "pdf")
    } <= figures
    tables = {path.stem for path in summary.tables.glob("*.csv")}
    assert {"methods", "pairs", "marks", "ppi_model", "stage_1", "readers"} <= tables
    assert tables == {path.stem for path in summary.tables.glob("*.tex")}


class Outside(HTMLParser):
    """Collects everything a browser would fetch or run."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("script", "iframe", "object", "embed"):
            self.found.append(tag)
        for name, value in attrs:
            if name in ("src", "href", "xlink:href", "srcset", "data") and not (value or "").startswith(("data:", "#")):
                self.found.append(f"{name}={value}")


def test_the_page_needs_nothing_from_outside(page: str) -> None:
    parser = Outside()
    parser.feed(page)
    assert parser.found == []
    assert set(re.findall(r"https?://[^\s\"'<)]+", page)) <= {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1999/xlink",
    }
    assert "url(" not in re.sub(r"url\(#", "", page) and "@import" not in page


def test_the_page_says_what_it_must(page: str, summary: EvaluateSummary) -> None:
    body = page[page.index("<body>") :]
    assert body.index("Research use only. Not for diagnosis.") < body.index("In a minute") < body.index("<table")
    assert summary.sentences[0] in page.replace("\u00a0", " ")
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids)), "figures do not share names"
    for target in re.findall(r'href="#([^"]+)"', page):
        assert target in ids, target
    for heading in (
        "Malignant or benign",
        "Probabilities",
        "Decisions",
        "Readers",
        "Tiles",
        "Pictures",
        "How each number",
    ):
        assert heading in page
    assert page.count("<svg") == len(list(summary.figures.glob("*.svg")))


def test_the_gallery_shows_the_most_informative_tiles_and_notes_slides_it_cannot_read(run: Path) -> None:
    material = simulated(24)
    entries = {e.slide_id: replace(e, path=run.parent / "cohort" / "slides" / e.path.name) for e in material.entries}
    rows = [row for row in material.predictions if row.method == PROPOSED]
    found = collect_pictures(run, rows, entries)
    assert found.notes == ("pictures of slides that cannot be read (1: s023); aspirate doctor says why",)
    assert 2 <= len(found.heat_maps) <= 4
    for category, tiles in found.gallery.items():
        assert 0 < len(tiles) <= 12
        assert all(material.bethesda[tile.slide_id] == category for tile in tiles)
        first = np.asarray(Image.open(BytesIO(tiles[0].jpeg)), int)
        assert np.abs(first.mean((0, 1)) - (20, 160, 40)).max() < 6, "the green tile"
    places = most_informative(run, [row for row in rows if row.bethesda == 3])
    assert [p.informativeness for p in places] == sorted((p.informativeness for p in places), reverse=True)
    assert max(sum(p.row.slide_id == row.slide_id for p in places) for row in rows) <= 3


def test_telling_slides_are_the_clearest_and_the_gravest() -> None:
    def slide(name: str, malignant: bool, p: float) -> Prediction:
        return Prediction(name, malignant=malignant, probability=p, predicted_malignant=p > 0.5)

    rows = [slide("b1", False, 0.1), slide("b2", False, 0.9), slide("m1", True, 0.95), slide("m2", True, 0.6)]
    chosen = {caption: row.slide_id for caption, row in telling_slides(rows).items()}
    assert chosen == {
        "benign, and clearly so": "b1",
        "benign, but called malignant": "b2",
        "malignant, and clearly so": "m1",
    }


def test_without_slides_there_is_a_report_without_pictures(tmp_path: Path) -> None:
    run = make_run(tmp_path, with_slides=False)
    (run / "fold-0" / "tiles" / "s000.h5").write_bytes(b"broken")
    found = evaluate_run(run, FEW)
    page = found.page.read_text(encoding="utf-8")
    assert "pictures of slides that cannot be read" in page and 'id="pictures"' not in page
    assert found.analysis.ppi is not None and len(found.analysis.ppi.model) == 23


def test_a_file_of_clam_alone_is_enough(tmp_path: Path) -> None:
    rows = [r for r in simulated(60).predictions if r.method == PROPOSED and r.status == "ok"]
    lines = [
        f"{r.slide_id},{float(bool(r.malignant))},{int(p > 0.5)},{1 - p},{p}"
        for r in rows
        for p in (r.probability or 0,)
    ]
    (tmp_path / "fold_0.csv").write_text("\n".join(["slide_id,Y,Y_hat,p_0,p_1", *lines]), encoding="utf-8")
    found = analyse(gather(Sources(tmp_path / "fold_0.csv"), FEW), FEW).method("algorithm")
    assert found.pooled.auc.value == pytest.approx(
        roc_auc_score([r.malignant for r in rows], [r.probability for r in rows])
    )
    assert found.before is None and found.after is not None and found.own_rates is not None


def test_one_class_one_slide_or_nothing_known_still_gives_a_page(tmp_path: Path) -> None:
    for name, text, expected in (
        ("one_class", "slide_id,score,malignant\na,1,1\nb,2,1\n", "no benign slide"),
        ("one_slide", "slide_id,score,malignant\na,1,0\n", "no malignant slide"),
        ("unknown", "slide_id,probability\na,0.5\nb,0.25\n", "whether slides are malignant is not known"),
    ):
        (tmp_path / f"{name}.csv").write_text(text, encoding="utf-8")
        found = evaluate(Sources(tmp_path / f"{name}.csv"), tmp_path / name, FEW)
        assert any(expected in note for note in found.analysis.notes), name
        page = found.page.read_text(encoding="utf-8")
        assert "do not allow a statement" in page or found.sentences, name
        assert not re.search(r"\bnan\b", page), name
        assert set(re.findall(r'href="#([^"]+)"', page)) <= set(re.findall(r'\bid="([^"]+)"', page)), (
            "links lead somewhere"
        )


def test_bad_files_are_told_apart(run: Path, tmp_path: Path) -> None:
    with pytest.raises(TableError, match="no such file"):
        evaluate(Sources(tmp_path / "none.csv"), tmp_path / "out", FEW)
    with pytest.raises(AspirateError, match="no such file"):
        evaluate(Sources(run / "predictions.csv", cohort=tmp_path / "none.csv"), tmp_path / "out", FEW)
    other = tmp_path / "cohort.csv"
    other.write_text("slide_id,path\nelse,e.svs\n", encoding="utf-8")
    with pytest.raises(TableError, match="slide s000 is not in the cohort"):
        evaluate(Sources(run / "predictions.csv", cohort=other), tmp_path / "out", FEW)
    assert not (tmp_path / "out").exists(), "nothing is written before all is checked"


def test_a_cohort_that_has_moved_is_noted(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    (tmp_path / "cohort" / "cohort.csv").unlink()
    found = gather(Sources(run / "predictions.csv"), FEW)
    assert "cannot be read: patients, sites, readers and annotations are unknown" in found.notes[0]
    assert found.patients is None and found.validation != ()


def test_facts_of_tiles_by_counting() -> None:
    facts = facts_of("a", tile_table("a", 0.97))
    assert facts.tiles == len(GRID) == 12 and facts.informative == 1
    assert (facts.judged, facts.positive) == (3, 1)
    sigma = 1 / (1 + np.exp(-np.array([2.0, -1.0, -1.0])))
    assert facts.mean_probability == pytest.approx(sigma.mean())
    assert facts.informativeness[5] == 11 and facts.informativeness[48] == 1


def test_an_inline_figure_keeps_its_links_to_itself() -> None:
    content = '<g id="a"/><use xlink:href="#a" clip-path="url(#b)"/>'
    svg = f'<?xml?><svg xmlns:xlink="x" width="72pt" height="36pt" viewBox="0 0 72 36">{content}</svg>'
    inline = inline_svg(Drawing("roc", "ROC & PR", "", svg, b""))
    assert 'viewBox="0 0 72 36"' in inline and 'aria-label="ROC &amp; PR"' in inline and "<?xml" not in inline
    assert 'id="roc-a"' in inline and 'xlink:href="#roc-a"' in inline and "url(#roc-b)" in inline


def test_a_learning_curve_beside_the_predictions_is_a_table_and_a_figure(run: Path, tmp_path: Path) -> None:
    """AUCs 0.6625, 0.6825 and 0.85, 0.87: means 0.6725 and 0.86, standard deviation 0.02 / √2."""
    summary = evaluate(Sources(run / "predictions.csv"), tmp_path / "out", FEW)
    rows = (summary.tables / "learning_curve.csv").read_text(encoding="utf-8")
    assert rows.splitlines()[1:] == ["25 %,41,0.6725,0.014142136,2", "100 %,161,0.86,0.014142136,2"]
    assert (summary.figures / "learning_curve.svg").exists()
    assert "What local annotations are worth" in summary.page.read_text(encoding="utf-8")
    (run / "learning_curve.csv").write_text("share,fold\nmuch,1\n", encoding="utf-8")
    with pytest.raises(TableError, match="no learning curve"):
        evaluate(Sources(run / "predictions.csv"), tmp_path / "out", FEW)
