"""The doctor on slides with planted faults: each is found, named, and stops nothing."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile

from aspirate.core.errors import CohortError, ImplausibleResolution
from aspirate.core.records import SlideEntry
from aspirate.slides import slide_check
from aspirate.slides.cohort import Cohort
from aspirate.slides.doctor import examine
from aspirate.slides.examination import Examination
from aspirate.slides.reader import open_slide

CELL = (700, 300)
"""Where `smear` has a dark disc, as x, y."""


def smear(glass: int = 240, cell: int = 90, seed: int = 0) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """1024 × 768 pixels of glass with noise, and one cell."""
    picture = np.random.default_rng(seed).normal(glass, 2, (768, 1024, 3))
    y, x = np.mgrid[:768, :1024]
    picture[np.hypot(x - CELL[0], y - CELL[1]) < 40] = cell
    return np.clip(picture, 0, 255).astype(np.uint8)


def write_slide(
    path: Path, pixels: np.ndarray[Any, np.dtype[np.uint8]], mpp: tuple[float, float] | None = (0.25, 0.25)
) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    resolution: dict[str, Any] = {}
    if mpp is not None:
        resolution = {"resolution": (1e4 / mpp[0], 1e4 / mpp[1]), "resolutionunit": "CENTIMETER"}
    tifffile.imwrite(path, pixels, tile=(256, 256), photometric="rgb", compression="jpeg", metadata=None, **resolution)
    return path


def write_svs(path: Path, mpp: str) -> None:
    description = f"Aperio Image Library v12\r\n1024x768 [0,0 1024x768] (256x256) JPEG/RGB Q=85|AppMag = 40|MPP = {mpp}"
    options: dict[str, Any] = {"photometric": "rgb", "metadata": None, "compression": "jpeg"}
    with tifffile.TiffWriter(path) as file:
        file.write(smear(), tile=(256, 256), description=description, **options)
        file.write(smear()[::4, ::4], rowsperstrip=16, description="Aperio Image Library v12\r\nthumbnail", **options)


@pytest.fixture(scope="module")
def six_slides(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sound cohort of six patients, to be copied and spoilt."""
    folder = tmp_path_factory.mktemp("sound")
    entries = []
    for i in range(6):
        path = write_slide(folder / "slides" / f"s{i}.tiff", smear(seed=i))
        malignant = i % 2 == 1
        readers = {"ann": 5, "bo": 6} if i < 2 else {}
        entries.append(SlideEntry(f"s{i}", path, f"p{i}", malignant, 6 if malignant else 3, None, "north", i, readers))
    Cohort.write(folder / "cohort.csv", entries)
    places = [("normal", 0), ("atypical", 1), ("normal", 2), ("atypical", 3)]
    rows = "".join(f"s{i},{CELL[0]},{CELL[1]},{grade}\n" for grade, i in places)
    (folder / "annotations.csv").write_text("slide_id,x,y,abnormality\n" + rows)
    return folder


@pytest.fixture
def cohort(six_slides: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(six_slides, tmp_path / "cohort"))


def found(examination: Examination, level: str, slide_id: str | None, *words: str) -> bool:
    """Whether there is exactly one such finding that has all these words."""
    hits = [
        finding
        for finding in examination.findings
        if (finding.level, finding.slide_id) == (level, slide_id)
        and all(word in f"{finding.what}; {finding.remedy}" for word in words)
    ]
    return len(hits) == 1


def with_cells(cohort: Path, which: str, **cells: Any) -> None:
    """Change one row of the table."""
    lines = (cohort / "cohort.csv").read_text().splitlines()
    header = lines[0].split(",")
    for i, line in enumerate(lines):
        row = dict(zip(header, line.split(","), strict=True))
        if row["slide_id"] == which:
            lines[i] = ",".join({**row, **{name: str(value) for name, value in cells.items()}}.values())
    (cohort / "cohort.csv").write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize("deep", [False, True])
def test_a_sound_cohort(six_slides: Path, deep: bool) -> None:
    steps: list[float] = []
    examination = examine(six_slides / "cohort.csv", deep=deep, advance=steps.append)
    assert examination.ok
    assert examination.findings == ()
    assert sum(steps) == 6
    first = examination.slides[0]
    assert (first.slide_id, first.status, first.width_px0, first.height_px0) == ("s0", "ok", 1024, 768)
    assert (first.levels, first.vendor, first.reader) == (1, "generic-tiff", "direct")
    assert first.mpp == pytest.approx(0.25)
    assert (first.tiles, first.annotations) == (8 * 6, 1)
    assert examination.verdict == "fine: 6 slides, no error, 0 warnings; can be trained from U + Y + S + V"
    assert examination.counts == {
        "slides": 6,
        "usable": 6,
        "patients": 6,
        "annotated_slides": 4,
        "annotations": 4,
        "malignant": {"benign": 3, "malignant": 3, "unknown": 0},
        "bethesda": {"1": 0, "2": 0, "3": 3, "4": 0, "5": 0, "6": 3, "unknown": 0},
        "abnormality": {"normal": 2, "atypical": 2, "malignant": 0, "ungraded": 0},
        "sites": {"north": 6},
        "folds": {str(i): 1 for i in range(6)},
        "readers": {"ann": 2, "bo": 2},
    }


def test_json_and_rows(six_slides: Path) -> None:
    examination = examine(six_slides)
    value = json.loads(json.dumps(examination.as_json(), allow_nan=False))
    assert value["ok"] is True
    assert value["slides"][1]["path"].endswith("s1.tiff")
    assert {row["labels"]: row["possible"] for row in value["trainable"]}["UYSV"] is True
    header, first, *_ = examination.rows()
    assert dict(zip(header, first, strict=True)) == {
        "slide": "s0",
        "status": "ok",
        "size": "1024 × 768",
        "levels": "1",
        "µm/px": "0.25",
        "vendor": "generic-tiff",
        "reader": "direct",
        "tiles": "48",
        "annotations": "1",
    }


def test_bad_files_stop_nothing(cohort: Path) -> None:
    slides = cohort / "slides"
    (slides / "s0.tiff").unlink()
    (slides / "s1.tiff").write_bytes(b"")
    (slides / "s2.tiff").write_text("this is no picture")
    (slides / "s3.tiff").write_bytes((slides / "s3.tiff").read_bytes()[:20_000])
    (slides / "s4.tiff").unlink()
    (slides / "s4.tiff").mkdir()
    examination = examine(cohort)
    assert not examination.ok
    assert [slide.status for slide in examination.slides][5] == "ok"
    assert all(slide.status in ("unreadable", "damaged") for slide in examination.slides[:5])
    assert found(examination, "error", "s0", "no file")
    assert found(examination, "error", "s1", "empty")
    assert found(examination, "error", "s2")
    assert found(examination, "error", "s3")
    assert found(examination, "error", "s4", "folder")
    assert examination.verdict == "not ready: 5 errors and 0 warnings; 5 of 6 slides cannot be used"
    assert examination.counts["usable"] == 1
    assert not any(row.possible for row in examination.trainable)


def test_an_unforeseen_failure_is_the_findings_of_that_slide(cohort: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    true_open = open_slide

    def fails(path: Path, name: str, threads: int) -> Any:
        if name == "s2":
            raise ZeroDivisionError("planted")
        return true_open(path, name=name, threads=threads)

    monkeypatch.setattr(slide_check, "open_slide", fails)
    examination = examine(cohort)
    assert found(examination, "error", "s2", "ZeroDivisionError: planted", "leave the slide out")
    assert [slide.status for slide in examination.slides].count("ok") == 5


def test_a_damaged_tile_is_found_by_decoding_all(cohort: Path) -> None:
    path = cohort / "slides" / "s1.tiff"
    with tifffile.TiffFile(path) as file:
        offset = file.pages[0].dataoffsets[4 + 1]  # second row, second column
    data = bytearray(path.read_bytes())
    data[offset : offset + 64] = bytes(64)
    path.write_bytes(data)
    examination = examine(cohort, deep=True)
    assert found(examination, "error", "s1", "damaged parts of the file: 1", "level 0, column 1, row 1")
    assert examination.slides[1].status == "damaged"
    assert [finding.slide_id for finding in examination.findings] == ["s1"]


def test_a_slide_without_resolution(cohort: Path) -> None:
    write_slide(cohort / "slides" / "s1.tiff", smear(), mpp=None)
    examination = examine(cohort)
    assert found(examination, "error", "s1", "micrometres per pixel", "mpp column", "--mpp")
    assert (examination.slides[1].status, examination.slides[1].tiles) == ("no mpp", None)
    helped = examine(cohort, mpp=0.5)
    assert helped.ok
    assert (helped.slides[1].mpp, helped.slides[1].tiles) == (0.5, 16 * 12)
    assert helped.slides[0].mpp == pytest.approx(0.25)
    with pytest.raises(ImplausibleResolution):
        examine(cohort, mpp=250)


def test_an_absurd_resolution(cohort: Path) -> None:
    write_svs(cohort / "slides" / "s1.svs", mpp="49.9")
    with_cells(cohort, "s1", path="slides/s1.svs")
    examination = examine(cohort)
    assert found(examination, "error", "s1", "49.9 micrometres per pixel is outside 0.05–10")
    with_cells(cohort, "s1", mpp=0.5)
    examination = examine(cohort)
    assert examination.ok
    assert found(examination, "warning", "s1", "the cohort says 0.5 µm/px, the file 49.9")


@pytest.mark.parametrize(("mpp", "warned"), [(0.26, False), (0.24, False), (0.27, True), (0.23, True)])
def test_the_cohort_against_the_file(cohort: Path, mpp: float, warned: bool) -> None:
    with_cells(cohort, "s1", mpp=mpp)
    examination = examine(cohort)
    assert examination.slides[1].mpp == mpp
    assert found(examination, "warning", "s1", f"the cohort says {mpp:g} µm/px, the file 0.25") == warned


def test_pixels_that_are_not_square(cohort: Path) -> None:
    write_slide(cohort / "slides" / "s1.tiff", smear(), mpp=(0.25, 0.5))
    assert found(examine(cohort), "warning", "s1", "not square: 0.25 × 0.5")


def test_problems_of_the_table_are_findings(cohort: Path) -> None:
    with_cells(cohort, "s1", slide_id="S0", bethesda="9")
    examination = examine(cohort)
    assert found(examination, "error", None, "row 3: bethesda '9'", "1 to 6")
    assert found(examination, "error", None, "row 3: slide_id 'S0' is that of row 2 too")
    assert len(examination.slides) == 6


def test_repeated_files(cohort: Path) -> None:
    shutil.copy(cohort / "slides" / "s0.tiff", cohort / "slides" / "s1.tiff")
    with_cells(cohort, "s3", path="slides/s2.tiff")
    examination = examine(cohort)
    assert found(examination, "error", None, "the same picture is in the cohort 2 times: s0, s1", "leak")
    assert found(examination, "error", None, "the same picture is in the cohort 2 times: s2, s3")
    assert examination.count("error") == 2


def test_one_patient_in_several_places(cohort: Path) -> None:
    with_cells(cohort, "s1", patient_id="p0", site="south")
    examination = examine(cohort)
    assert found(examination, "error", None, "patient 'p0' is in folds 0, 1", "leak")
    assert found(examination, "warning", None, "patient 'p0' has benign and malignant slides: s0, s1")
    assert found(examination, "note", None, "patient 'p0' is at sites north, south")
    with_cells(cohort, "s1", fold="")
    examination = examine(cohort)
    assert examination.ok
    assert found(examination, "warning", None, "1 of 6 slides have no fold: s1")


def test_labels_that_look_wrong(cohort: Path) -> None:
    with_cells(cohort, "s0", bethesda=1)
    with_cells(cohort, "s1", bethesda=2)
    with_cells(cohort, "s2", bethesda=6)
    with_cells(cohort, "s4", bethesda=2)
    table = cohort / "annotations.csv"
    table.write_text(table.read_text() + f"s4,{CELL[0]},{CELL[1]},malignant\n")
    examination = examine(cohort)
    assert examination.ok
    assert found(examination, "warning", "s0", "TBS 1", "not be used for training")
    assert found(examination, "warning", "s1", "histologically malignant, but read as TBS 2")
    assert found(examination, "warning", "s2", "histologically benign, but read as TBS 6")
    assert found(examination, "warning", "s4", "annotated as malignant, but the slide is benign and TBS 2")
    assert examination.count("warning") == 4


def test_annotations_outside_and_on_blank_glass(cohort: Path) -> None:
    write_slide(cohort / "slides" / "s1.tiff", smear(glass=10, cell=60))  # dark, as fluorescence is
    (cohort / "annotations.csv").write_text(
        "slide_id,x,y,width,height\n"
        f"s0,{CELL[0]},{CELL[1]},,\n"
        "s0,2000,50,,\n"
        "s0,1000,700,100,100\n"
        "s0,100,100,,\n"
        "s0,0,0,1024,768\n"
        f"s1,{CELL[0]},{CELL[1]},,\n"
        "s1,100,100,,\n"
    )
    examination = examine(cohort)
    assert found(examination, "error", "s0", "1 of 5 annotations lie outside the slide, the first at x 2000, y 50")
    assert found(examination, "warning", "s0", "1 of 5 annotations reach beyond the slide")
    assert found(examination, "warning", "s0", "2 of 5 annotations lie on blank glass, the first at x 1000, y 700")
    assert found(examination, "warning", "s1", "1 of 2 annotations lie on blank glass, the first at x 100, y 100")


def test_the_bounds_of_a_slide_are_added_to_qupath_places(cohort: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (cohort / "annotations.csv").unlink()
    (cohort / "annotations").mkdir()
    point = {"type": "Point", "coordinates": [CELL[0] - 600, CELL[1] - 200]}
    (cohort / "annotations" / "s0.geojson").write_text(json.dumps({"type": "Feature", "geometry": point}))
    assert found(examine(cohort), "warning", "s0", "1 of 1 annotations lie on blank glass")
    true_open = open_slide

    def shifted(path: Path, name: str, threads: int) -> Any:
        slide = true_open(path, name=name, threads=threads)
        slide.properties = {**slide.properties, "openslide.bounds-x": "600", "openslide.bounds-y": "200"}  # type: ignore[misc]
        return slide

    monkeypatch.setattr(slide_check, "open_slide", shifted)
    assert examine(cohort).findings == ()


def test_annotation_files_with_problems(cohort: Path) -> None:
    (cohort / "annotations").mkdir()
    line = {"type": "LineString", "coordinates": [[0, 0], [9, 9]]}
    (cohort / "annotations" / "s4.geojson").write_text(json.dumps([{"type": "Feature", "geometry": line}]))
    (cohort / "annotations" / "s5.xml").write_text("<Annotations>")
    (cohort / "annotations" / "s0.geojson").write_text("[]")
    (cohort / "annotations" / "slide1.geojson").write_text("[]")
    with (cohort / "annotations.csv").open("a") as file:
        file.write("s0,x,y,\n")
    examination = examine(cohort)
    assert found(examination, "error", "s4", "annotations: feature 1", "LineString", "closed outline")
    assert found(examination, "error", "s5", "not XML")
    assert found(examination, "error", "s0", "annotated in s0.geojson and in annotations.csv", "keep one")
    assert found(examination, "error", None, "annotations.csv, row 6: x 'x'")
    assert found(examination, "warning", None, "slides that are not in the cohort: slide1")
    assert examination.count("error") == 4


def test_columns_that_are_not_used(cohort: Path) -> None:
    table = cohort / "cohort.csv"
    head, rest = table.read_text().replace("bethesda", "bethseda").split("\n", 1)
    table.write_text(f"{head.replace('site', 'Stain colour')}\n{rest}")
    examination = examine(cohort)
    assert found(examination, "note", None, "'bethseda' is not used", "rename it to bethesda")
    assert found(examination, "note", None, "'Stain colour' is not used", "nothing needs to be done")
    assert examination.ok


def trainable(examination: Examination) -> Mapping[str, tuple[bool, bool]]:
    return {row.labels: (row.possible, row.crossval) for row in examination.trainable}


def test_what_can_be_trained(cohort: Path) -> None:
    assert trainable(examine(cohort)) == dict.fromkeys(
        ("Y", "S", "YS", "UY", "US", "UV", "UYS", "UYV", "USV", "UYSV"), (True, False)
    )
    # slides 0, 2, 4 are benign: with two of them of one patient and one TBS 1, one patient is left
    with_cells(cohort, "s0", bethesda=1)
    with_cells(cohort, "s2", patient_id="p4", fold=4)
    examination = examine(cohort)
    # S keeps 3 patients of TBS 6 and one of TBS 3; V keeps one patient of grade normal
    assert trainable(examination) == dict.fromkeys(
        ("Y", "S", "YS", "UY", "US", "UV", "UYS", "UYV", "USV", "UYSV"), (False, False)
    )
    why = {row.labels: row.why for row in examination.trainable}
    assert why["UY"] == "Y: 1 of the 2 patients needed of the rarer of benign and malignant"
    (cohort / "annotations.csv").unlink()
    with_cells(cohort, "s0", bethesda=3)
    examination = examine(cohort)
    assert {labels for labels, (yes, _) in trainable(examination).items() if yes} == {"Y", "S", "YS"}
    assert {row.labels: row.why for row in examination.trainable}["UV"] == (
        "U: no usable slide has annotations; V: no annotation of a usable slide has a grade"
    )


def test_ten_patients_suffice_for_cross_validation(tmp_path: Path) -> None:
    entries = []
    for i in range(10):
        path = write_slide(tmp_path / f"{i}.tiff", smear(seed=i))
        entries.append(SlideEntry(f"{i}", path, malignant=i % 2 == 1))
    Cohort.write(tmp_path / "cohort.csv", entries)
    examination = examine(tmp_path)
    assert trainable(examination)["Y"] == (True, True)
    assert trainable(examination)["YS"] == (False, False)
    assert {r.labels: r.why for r in examination.trainable}["YS"] == "S: no usable slide has a TBS category of 2 to 6"
    assert examination.verdict.endswith("can be trained from Y")


def test_a_folder_of_slides_and_a_single_one(six_slides: Path, tmp_path: Path) -> None:
    folder = tmp_path / "slides"
    shutil.copytree(six_slides / "slides", folder)
    write_svs(folder / "s0.svs", mpp="0.5")
    (folder / "notes.txt").write_text("not a slide")
    (folder / "._s1.tiff").write_bytes(b"\0")
    examination = examine(folder)
    assert [slide.slide_id for slide in examination.slides] == ["s0.svs", "s0.tiff", "s1", "s2", "s3", "s4", "s5"]
    assert examination.ok
    assert examination.verdict.endswith("too few labels to train from")
    single = examine(folder / "s0.svs")
    assert [(slide.slide_id, slide.mpp, slide.vendor) for slide in single.slides] == [("s0", 0.5, "aperio")]


def test_what_cannot_be_examined(tmp_path: Path) -> None:
    with pytest.raises(CohortError, match="no such file"):
        examine(tmp_path / "none")
    with pytest.raises(CohortError, match=r"neither a cohort\.csv nor a slide"):
        examine(tmp_path)
    (tmp_path / "cohort.csv").write_bytes(b"\xff\n")
    with pytest.raises(CohortError, match="not UTF-8"):
        examine(tmp_path)


def test_the_real_slides(shared_data: Path) -> None:
    examination = examine(shared_data / "slides", mpp=0.25)
    assert examination.ok
    facts = {
        slide.slide_id: (slide.width_px0, slide.height_px0, slide.levels, slide.vendor, slide.tiles)
        for slide in examination.slides
    }
    # ⌈width / side⌉ · ⌈height / side⌉, the side 32 µm wide: 64 px at 0.499, 140 at 0.2282, 128 at 0.25 µm/px
    assert facts == {
        "CMU-1-Small-Region": (2220, 2967, 1, "aperio", 35 * 47),
        "csf_metastasis_PAP-1_full": (27888, 28392, 8, "generic-tiff", 218 * 222),
        "highdicom_sm_image": (50, 50, 1, "dicom", 1),
        "tcga-cr-7395-01a-01-ts1": (4443, 3567, 2, "aperio", 35 * 28),
        "test3-DAPI-2-387": (3968, 4864, 7, "hamamatsu", 29 * 35),
    }
    without = examine(shared_data / "slides")
    lacking = {"csf_metastasis_PAP-1_full", "tcga-cr-7395-01a-01-ts1"}
    assert {finding.slide_id for finding in without.findings if finding.level == "error"} == lacking
