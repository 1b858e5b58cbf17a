"""Slides in processes of their own: the same bytes as in this one; a slide that ends its process costs itself alone."""

import socket
from pathlib import Path

import pytest
from tests.workflow.small_model import DeadlyModelAt, files_of, save_small_model, small_slides

from aspirate.core.lock import FolderInUse, locked
from aspirate.workflow.launch import Needs
from aspirate.workflow.local_pool import LocalPool
from aspirate.workflow.predict import load_model
from aspirate.workflow.predict_many import predict_many

pytestmark = pytest.mark.xdist_group("launch")


def test_a_slide_that_ends_its_process_is_a_row_and_the_others_are_as_in_this_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, slides = save_small_model(tmp_path / "model"), small_slides(tmp_path / "slides")
    model = load_model(source)
    here, there = tmp_path / "here", tmp_path / "there"
    predict_many(model, slides, here)

    with monkeypatch.context() as planted:
        planted.setattr("aspirate.workflow.predict_many.ModelAt", DeadlyModelAt)
        summary = predict_many(model, slides, there, executor=LocalPool(2), source=source, needs=Needs(1))
    why = "s2: the process at work on it ended with SIGSEGV, also when nothing else was at work"
    assert summary.failures == {"s2": why, "cut": summary.failures["cut"]}
    of_others = {name: content for name, content in files_of(here).items() if "/" in name and "s2" not in name}
    assert {name: content for name, content in files_of(there).items() if "/" in name} == of_others

    host = socket.gethostname().partition(".")[0]
    (there / "tiles" / f".s2.h5.{host}-{2**22 + 1}.part").write_text("left by a process that was killed")
    again = predict_many(model, slides, there)
    assert again.skipped == ("s0", "s1", "s3")
    assert files_of(there) == files_of(here)


def test_a_second_start_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    source, slides = save_small_model(tmp_path / "model"), small_slides(tmp_path / "slides", 1)
    with locked(tmp_path / "out"), pytest.raises(FolderInUse, match="out: in use by process"):
        predict_many(load_model(source), slides, tmp_path / "out")
    assert not (tmp_path / "out").exists()
