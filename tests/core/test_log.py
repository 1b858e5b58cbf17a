"""The log of a run: whole lines whatever happens, and nobody's name unless it is asked for."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from aspirate.core.log import (
    DEBUG,
    ERROR,
    LOG_FILE,
    LOGGER,
    Laps,
    arrived,
    forwarded,
    log_of,
    logged,
    names_wanted,
    tell,
)
from aspirate.core.progress import silent_stages


def lines(folder: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (folder / LOG_FILE).read_text(encoding="utf-8").splitlines()]


@pytest.fixture
def names() -> Iterator[None]:
    token = names_wanted.set(True)
    yield
    names_wanted.reset(token)


def test_a_run_is_told_from_its_beginning_to_its_end_with_levels_and_facts(tmp_path: Path) -> None:
    tell("before", ERROR)
    with log_of(tmp_path, "predict", slides=2):
        tell("slide", slide=1, seconds=0.5, parts={"score": 0.4})
        tell("too much", DEBUG)
        tell("slide failed", ERROR, slide=2, kind="UnreadableSlide")
    tell("after", ERROR)
    found = lines(tmp_path)
    assert [(line["level"], line["event"]) for line in found] == [
        ("info", "begun"),
        ("info", "slide"),
        ("error", "slide failed"),
        ("info", "ended"),
    ]
    assert (found[0]["command"], found[0]["slides"]) == ("predict", 2)
    assert (found[1]["seconds"], found[1]["parts"]) == (0.5, {"score": 0.4})
    assert str(found[0]["time"]) <= str(found[-1]["time"])
    assert (LOGGER.level, [type(handler) for handler in LOGGER.handlers]) == (logging.NOTSET, [logging.NullHandler])


def test_private_facts_stay_out_of_the_file(tmp_path: Path) -> None:
    with log_of(tmp_path, "predict"):
        tell("slide failed", ERROR, {"slide_id": "Ewa Kowalska", "error": "no file Ewa Kowalska.tiff"}, slide=7)
    text = (tmp_path / LOG_FILE).read_text(encoding="utf-8")
    assert "Kowalska" not in text
    assert lines(tmp_path)[1]["slide"] == 7


@pytest.mark.usefixtures("names")
def test_private_facts_are_written_where_asked_for(tmp_path: Path) -> None:
    with log_of(tmp_path, "predict"):
        tell("slide", private={"slide_id": "Ewa Zając"}, slide=7)
    assert lines(tmp_path)[1]["slide_id"] == "Ewa Zając"


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (OSError("Ewa.tiff"), ("error", "failed", "OSError")),
        (KeyboardInterrupt(), ("warning", "interrupted", "KeyboardInterrupt")),
    ],
)
def test_how_a_run_broke_off_is_told(tmp_path: Path, error: BaseException, expected: tuple[str, str, str]) -> None:
    with pytest.raises(type(error)), log_of(tmp_path, "train"):
        raise error
    last = lines(tmp_path)[-1]
    assert (last["level"], last["event"], last["kind"]) == expected
    assert "Ewa" not in str(last)


def test_a_line_torn_by_a_kill_spoils_no_other(tmp_path: Path) -> None:
    (tmp_path / LOG_FILE).write_text('{"event": "ended"}\n{"event": "sli', encoding="utf-8")
    with log_of(tmp_path, "predict"):
        pass
    first, torn, *rest = (tmp_path / LOG_FILE).read_text(encoding="utf-8").splitlines()
    assert (first, torn) == ('{"event": "ended"}', '{"event": "sli')
    assert [json.loads(line)["event"] for line in rest] == ["begun", "ended"]


def test_a_full_disk_does_not_stop_the_work(tmp_path: Path) -> None:
    (tmp_path / LOG_FILE).symlink_to("/dev/full")
    heard: list[dict[str, object]] = []
    with log_of(tmp_path, "predict"), forwarded(heard.append):
        tell("slide", slide=1)
    assert [record["msg"] for record in heard] == ["slide"], "others hear it all the same"


def test_what_is_told_elsewhere_arrives_as_if_told_here(tmp_path: Path) -> None:
    letters: list[dict[str, object]] = []
    with forwarded(letters.append):
        tell("slide", DEBUG, {"slide_id": "Ewa"}, slide=3)
        tell("slide failed", ERROR, {"slide_id": "Ewa"}, slide=4)
    with log_of(tmp_path, "predict"):
        for letter in letters:
            arrived(letter)
    found = lines(tmp_path)
    assert [(line["event"], line.get("slide")) for line in found[1:-1]] == [("slide failed", 4)]
    assert found[1]["process"] == letters[1]["process"]


def test_stages_are_told_when_they_end(tmp_path: Path) -> None:
    with log_of(tmp_path, "train"), logged(silent_stages)("screening", 3, "slides") as bar:
        bar(3)
    stage = lines(tmp_path)[1]
    assert (stage["event"], stage["stage"], stage["total"], stage["unit"]) == ("stage", "screening", 3, "slides")


def test_laps_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([10.0, 10.5, 12.0, 12.25])
    monkeypatch.setattr("aspirate.core.log.time.monotonic", lambda: next(clock))
    laps = Laps()
    for part in ("read", "score", "read"):
        laps.lap(part)
    assert (laps.seconds, laps.whole) == ({"read": 0.75, "score": 1.5}, 2.25)
