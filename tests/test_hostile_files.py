"""The short version of `benchmarks/hostile`: a few mutations of each kind through the program's own doors."""

from pathlib import Path

import pytest
from benchmarks.hostile.__main__ import outcome, read, run, summary
from benchmarks.hostile.corpus import Mutation, mutations
from benchmarks.hostile.keeper import Ending, Keeper
from benchmarks.hostile.sources import Source, slides, tables_and_annotations

pytestmark = pytest.mark.xdist_group("hostile")  # one worker at a time is enough
SOUND = Ending("read", "right", "", 0.1, 100, ())


def of_drawn_files(count: int, seed: int) -> list[Mutation]:
    sources = [source for source in (*slides(), *tables_and_annotations()) if source.door != "recipe"]  # needs torch
    return list(mutations(sources, count, seed))


def test_no_mutation_is_a_defect(tmp_path: Path) -> None:
    rows = run(of_drawn_files(78, seed=1), tmp_path)
    assert [row for row in rows if row["outcome"] in ("defect", "crash")] == []
    found = {row["outcome"] for row in rows}
    assert {"as sound", "refused"} <= found, "harm that does nothing, and harm that does"
    assert len(rows) == 78
    assert summary(rows).splitlines()[-1].startswith("| all | 78 | ")


def test_a_second_start_goes_on_where_the_first_stopped(tmp_path: Path) -> None:
    first = run(of_drawn_files(4, seed=2), tmp_path)
    kept = (tmp_path / "hostile.csv").read_text(encoding="utf-8")
    whole = run(of_drawn_files(6, seed=2), tmp_path)
    assert whole[:4] == first
    assert (tmp_path / "hostile.csv").read_text(encoding="utf-8").startswith(kept)
    assert list(read(tmp_path / "hostile.csv").values()) == whole


def test_the_same_seed_makes_the_same_files() -> None:
    once, again, other = (of_drawn_files(40, seed) for seed in (3, 3, 4))
    assert [case.files() for case in once] == [case.files() for case in again]
    assert [case.files() for case in once] != [case.files() for case in other]


def planted(tmp_path: Path, code: str, limit_s: float = 30.0, limit_mb: int = 2048) -> Ending:
    """How a door ends that does what it must not."""
    (tmp_path / "planted_door.py").write_text(
        f"import os, time, pathlib\ndef enter(path):\n    {code}\n    return 'x'\n"
    )
    starter = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from benchmarks.hostile import doors, worker; "
        "doors.DOORS['planted'] = 'planted_door:enter'; worker.main()"
    )
    with Keeper(limit_s, limit_mb, command=("-c", starter)) as made:
        return made.open("planted", {"a": b"1"}, "a")


def test_the_keeper_sees_what_must_not_be(tmp_path: Path) -> None:
    assert planted(tmp_path, "pass").ended == "read"
    assert planted(tmp_path, "os.abort()").ended == "crash"
    assert planted(tmp_path, "time.sleep(60)", limit_s=0.5).ended == "hang"
    assert planted(tmp_path, "room = b'1' * 400_000_000; time.sleep(1)", limit_mb=300).ended == "memory"
    assert planted(tmp_path, "1 / 0").said.startswith("ZeroDivisionError")
    assert "for writing" in planted(tmp_path, "pathlib.Path('new').write_text('x')").did[0]
    assert "files changed: new" in planted(tmp_path, "os.system('touch new')").did[-1]


def test_outcomes() -> None:
    slide = Source("s", "tiff", "slide", {}, "", "")
    cut, flipped = Mutation(0, slide, "truncated", 0), Mutation(0, slide, "one_bit", 0)
    changed = Ending("read", "wrong", "", 0.1, 100, ())
    assert outcome(cut, SOUND, "right")[0] == "as sound"
    assert outcome(flipped, changed, "right")[0] == "another reading"
    assert outcome(cut, changed, "right")[0] == "defect"
    assert outcome(cut, Ending("crash", "", "SIGSEGV", 0.1, 100, ()), "right")[0] == "crash"
    assert outcome(cut, Ending("hang", "", "", 0.1, 100, ()), "right")[0] == "defect"
    assert outcome(cut, Ending("read", "right", "", 0.1, 100, ("open",)), "right")[0] == "defect"
