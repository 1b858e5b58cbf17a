"""The short version of `benchmarks/faults` and `benchmarks/soak.py`: a killed prediction, and what is looked for."""

import json
import os
import subprocess
import sys
from pathlib import Path
from random import Random

import numpy as np
import pytest
from benchmarks.faults import commands as material
from benchmarks.faults import scenarios
from benchmarks.faults.scenarios import SCENARIOS, Broken, Undisturbed, check, undisturbed
from benchmarks.faults.starting import MARK, marked
from benchmarks.soak import Sample, curves, slope


def test_a_prediction_killed_in_the_middle_of_a_write_ends_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scenarios, "MOST_KILLS", 1)
    monkeypatch.setattr(material, "SLIDES", 4)
    (command,) = material.commands(tmp_path / "material", ["predict"])
    alone = material.Command("predict", (*command.arguments, "--workers", "1"))  # a start takes half as long
    whole = undisturbed(alone, tmp_path / "undisturbed")
    assert whole.results["predictions.csv"].count(b"\n") == 5, "a header and four slides"
    assert SCENARIOS["kill in a write"](alone, tmp_path / "out", whole, Random(1)) == 1
    check(tmp_path / "out", whole)


def test_what_differs_lacks_or_is_left_over_is_seen(tmp_path: Path) -> None:
    (tmp_path / "predictions.csv").write_bytes(b"a\n")
    (tmp_path / "tiles").touch()
    whole = Undisturbed({"predictions.csv": b"a\n"}, {"predictions.csv", "tiles"}, 1.0, 2)
    check(tmp_path, whole)
    (tmp_path / ".x.part").touch()
    with pytest.raises(Broken, match=r"left over: \.x\.part"):
        check(tmp_path, whole)
    (tmp_path / ".x.part").unlink()
    (tmp_path / "tiles").unlink()
    with pytest.raises(Broken, match="missing: tiles"):
        check(tmp_path, whole)
    (tmp_path / "predictions.csv").write_bytes(b"a")
    with pytest.raises(Broken, match=r"predictions\.csv differ"):
        check(tmp_path, whole)


def test_whatever_a_start_started_is_found() -> None:
    sleeper = [sys.executable, "-c", "import time; time.sleep(60)"]
    process = subprocess.Popen(sleeper, env=os.environ | {MARK: "planted"})
    try:
        assert marked("planted") == [process.pid]
        assert marked("another") == []
    finally:
        process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # dead, but not yet taken away
    assert marked("planted") == []
    process.wait()


def soaked(leak_mb: float) -> list[Sample]:
    """A start of 400 slides, 2 s each, after one that was stopped early."""
    rng = np.random.default_rng(0)
    short = [Sample(1, 5.0 * i, i, 700.0, 20, 3) for i in range(1, 5)]
    slides = range(4, 405, 2)
    return short + [Sample(2, 2.0 * n, n, 700 + leak_mb * n + rng.normal(0, 5), 20 + n % 3, 3) for n in slides]


def told(log: Path, growth_s: float) -> Path:
    """Of 4 slides, then of 400 that take 2 s and ever a little more."""
    rng = np.random.default_rng(1)
    seconds = [[9.0] * 4, (2 + growth_s * np.arange(400) + rng.normal(0, 0.2, 400)).tolist()]
    events = [
        event for start in seconds for event in ({"event": "begun"}, *({"event": "slide", "seconds": s} for s in start))
    ]
    log.write_text("".join(f"{json.dumps(event)}\n" for event in events))
    return log


def test_a_leak_and_a_slowdown_are_told_from_noise(tmp_path: Path) -> None:
    steady, slower = told(tmp_path / "steady.jsonl", 0.0), told(tmp_path / "slower.jsonl", 0.001)
    flat, leaking = curves(soaked(0.0), steady), curves(soaked(0.5), slower)
    assert slope(*flat["rss_mb"]).flat
    assert not slope(*leaking["rss_mb"]).flat
    done = leaking["rss_mb"][0]
    grown = slope(*leaking["rss_mb"])
    assert grown.gain * grown.mean == pytest.approx(0.5 * (done[-1] - done[0]), rel=0.02)
    assert grown.low < grown.gain < grown.high
    assert slope(*flat["open_files"]).flat
    assert slope(*flat["seconds_per_slide"]).flat
    slowed = slope(*leaking["seconds_per_slide"])
    assert not slowed.flat and slowed.low < 0.001 * 359 / 2.22 < slowed.high
    assert len(flat["seconds_per_slide"][1]) == 360, "of the start that did most, without its warm-up"
    assert done[0] >= 44 and done[-1] < 404, "without the warm-up and the end"
