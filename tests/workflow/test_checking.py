"""A slide that ends the process that looks at it is named; the others are found as if it were not there."""

import os
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.workflow.small_model import write_tiff

from aspirate.core.progress import Advance
from aspirate.core.records import SlideEntry
from aspirate.slides.annotations import AnnotationIndex
from aspirate.slides.doctor import Checkup, check_here
from aspirate.slides.slide_check import CheckedSlide
from aspirate.workflow.checking import AT_ONCE, check_apart

pytestmark = pytest.mark.xdist_group("launch")


def deadly(entries: Sequence[SlideEntry], how: Checkup, advance: Advance) -> list[CheckedSlide]:
    if any(entry.slide_id == "deadly" for entry in entries):
        os.kill(os.getpid(), signal.SIGSEGV)
    return check_here(entries, how, advance)


@pytest.mark.parametrize("deep", [False, True])
def test_a_slide_that_crashes_its_decoder_is_named_and_the_others_are_looked_at(tmp_path: Path, deep: bool) -> None:
    names = [f"s{n % 3}" for n in range(AT_ONCE + 2)]  # some twice: the doctor has to find out
    slides = [SlideEntry(name, write_tiff(tmp_path / f"{name}.tiff", seed=n)) for n, name in enumerate(names)]
    slides[3] = SlideEntry("deadly", slides[3].path)
    slides[5] = SlideEntry("gone", tmp_path / "gone.tiff")
    how, counted = Checkup(AnnotationIndex.of(tmp_path), deep, None), list[float]()
    found = check_apart(slides, how, counted.append, deadly)
    expected = check_here(slides, how, lambda n: None)
    assert sum(counted) == len(slides)
    assert found[:3] + found[4:] == expected[:3] + expected[4:]
    lost = found[3]
    assert (lost.entry, lost.facts.status) == (slides[3], "unreadable")
    assert [(f.level, f.slide_id) for f in lost.findings] == [("error", "deadly")]
    assert lost.findings[0].what.startswith("the process at work on it ended with SIGSEGV")
