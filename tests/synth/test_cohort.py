"""A cohort on disk: whole, repeatable, resumable, and never half-written."""

import csv
import errno
import gc
import os
import signal
import subprocess
import sys
import time
from itertools import count
from pathlib import Path

import openslide
import pytest
import simplejpeg

from aspirate.core.errors import AspirateError, ConfigError
from aspirate.slides.annotations import AnnotationIndex
from aspirate.slides.cohort import Cohort
from aspirate.synth.cohort import SynthSummary, make_cohort
from aspirate.synth.render import SlideRenderer
from aspirate.synth.settings import SynthSettings
from aspirate.workflow.jobs import done_by
from aspirate.workflow.local_pool import LocalPool

SETTINGS = SynthSettings(slides=4, size=(1300, 1024), seed=5, annotated=0.5)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, SynthSummary]:
    folder = tmp_path_factory.mktemp("cohort")
    return folder, make_cohort(SETTINGS, folder)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_what_was_written_is_a_cohort(made: tuple[Path, SynthSummary]) -> None:
    folder, summary = made
    cohort = Cohort.read(folder / "cohort.csv")
    assert len(cohort.entries) == summary.slides == summary.slides_written == 4
    assert summary.megapixels == pytest.approx(4 * 1300 * 1024 / 1e6)
    assert 0.9 < summary.oracle_auc_mean < 0.97
    assert len(summary.reader_aucs) == 3
    with (folder / "truth.csv").open() as file:
        truth = list(csv.DictReader(file))
    for entry in cohort.entries:
        with openslide.OpenSlide(entry.path) as slide:
            assert slide.dimensions == (1300, 1024)
            assert float(slide.properties["openslide.mpp-x"]) == pytest.approx(entry.mpp)
        assert len([row for row in truth if row["slide_id"] == entry.slide_id]) >= 6
    index = AnnotationIndex.of(folder)
    assert len(index.slide_ids) == 2
    for slide_id in index.slide_ids:
        boxes = [row for row in truth if row["slide_id"] == slide_id]
        for mark in index.read(slide_id):
            centre = mark.geometry_px0.centroid
            hit = [
                row
                for row in boxes
                if 0 < centre.x - int(row["x"]) < int(row["width"])
                and 0 < centre.y - int(row["y"]) < int(row["height"])
            ]
            assert len(hit) == 1


def test_workers_do_not_change_a_byte(made: tuple[Path, SynthSummary], tmp_path: Path) -> None:
    advanced: list[float] = []
    make_cohort(SETTINGS, tmp_path / "again", advanced.append, done_by(LocalPool(2)))
    assert contents(tmp_path / "again") == contents(made[0])
    assert sum(advanced) == pytest.approx(4 * 1300 * 1024)


def test_a_second_start_keeps_whole_slides_and_mends_others(tmp_path: Path) -> None:
    settings = SETTINGS.model_copy(update={"slides": 2})
    make_cohort(settings, tmp_path)
    before = contents(tmp_path)
    first, second = sorted((tmp_path / "slides").iterdir())
    second.write_bytes(second.read_bytes()[:-2000])
    kept = first.stat().st_mtime_ns
    advanced: list[float] = []
    summary = make_cohort(settings, tmp_path, advance=advanced.append)
    assert summary.slides_written == 1
    assert first.stat().st_mtime_ns == kept
    assert contents(tmp_path) == before
    assert sum(advanced) == 2 * 1300 * 1024


def test_other_settings_are_refused(made: tuple[Path, SynthSummary]) -> None:
    before = contents(made[0])
    with pytest.raises(ConfigError, match="seed 5 → 6"):
        make_cohort(SETTINGS.model_copy(update={"seed": 6}), made[0])
    assert contents(made[0]) == before


def test_a_folder_that_is_not_ours_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "cohort.csv").write_text("slide_id,path\n")
    with pytest.raises(ConfigError, match="choose another folder"):
        make_cohort(SETTINGS, tmp_path)
    assert contents(tmp_path) == {"cohort.csv": b"slide_id,path\n"}


def test_one_failing_slide_is_named_and_the_others_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = SETTINGS.model_copy(update={"slides": 3})
    encode, calls = simplejpeg.encode_jpeg, count()

    def full(*args: object) -> bytes:
        if next(calls) == 30:  # in the middle of the second slide of 24 tiles
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return bytes(encode(*args))

    monkeypatch.setattr(simplejpeg, "encode_jpeg", full)
    with pytest.raises(AspirateError, match=r"1 of 3 slides.*slide-002.*No space left"):
        make_cohort(settings, tmp_path)
    assert {p.name for p in (tmp_path / "slides").iterdir()} == {"slide-001.tiff", "slide-003.tiff"}
    assert not (tmp_path / "cohort.csv").exists()
    assert make_cohort(settings, tmp_path).slides_written == 1


@pytest.mark.parametrize("executor", ["Here()", "LocalPool(2)"])
def test_ctrl_c_leaves_nothing_half_written(tmp_path: Path, executor: str) -> None:
    script = tmp_path / "run.py"
    script.write_text(
        "from pathlib import Path\n"
        "from aspirate.synth.cohort import make_cohort\n"
        "from aspirate.synth.settings import SynthSettings\n"
        "from aspirate.workflow.jobs import done_by\n"
        "from aspirate.workflow.launch import Here\n"
        "from aspirate.workflow.local_pool import LocalPool\n"
        "if __name__ == '__main__':\n"
        f"    settings = SynthSettings(slides=20, size=(4096, 8192))\n"
        f"    make_cohort(settings, Path({str(tmp_path / 'out')!r}), run=done_by({executor}))\n"
    )
    process = subprocess.Popen([sys.executable, str(script)], stderr=subprocess.PIPE, text=True, start_new_session=True)
    slides = tmp_path / "out" / "slides"
    deadline = time.monotonic() + 40
    while not (slides.is_dir() and any(p.suffix == ".part" and p.stat().st_size for p in slides.iterdir())):
        assert time.monotonic() < deadline, "no slide was begun"
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: parent and workers alike
    errors = process.communicate(timeout=30)[1]
    assert process.returncode != 0
    assert errors.count("KeyboardInterrupt") == 1
    left = list(slides.iterdir())
    assert [p for p in left if p.suffix != ".tiff"] == []
    assert not (tmp_path / "out" / "cohort.csv").exists()


def test_a_drawn_slide_is_forgotten(tmp_path: Path) -> None:
    make_cohort(SynthSettings(slides=2, size=(1024, 1024), annotated=0.0), tmp_path)
    assert not [thing for thing in gc.get_objects() if isinstance(thing, SlideRenderer)]
