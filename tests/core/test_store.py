import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from aspirate.core.config import Settings
from aspirate.core.errors import ConfigError
from aspirate.core.store import atomic_path, clear_parts, is_alive, write_json


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "a.json"
    write_json(target, {"µ": 1})
    with pytest.raises(RuntimeError), atomic_path(target) as part:
        part.write_text("half")
        raise RuntimeError
    assert json.loads(target.read_text(encoding="utf-8")) == {"µ": 1}
    assert [p.name for p in target.parent.iterdir()] == ["a.json"]


KILLED = """
import os, sys
from pathlib import Path
from aspirate.core.store import atomic_path
with atomic_path(Path(sys.argv[1])) as part:
    part.write_text("half")
    os.kill(os.getpid(), 9)
"""


def test_what_a_killed_program_left_half_written_is_cleared_and_nothing_else(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "a.json"
    subprocess.run([sys.executable, "-c", KILLED, str(target)], check=False)
    assert len(list(target.parent.iterdir())) == 1
    other, ancient = (target.parent / f".b.another-host-{n}.part" for n in (7, 8))
    for path in (other, ancient, tmp_path / ".editor.part", tmp_path / "mine.part"):
        path.write_text("kept")
    os.utime(ancient, (1e9, 1e9))
    with atomic_path(target) as part:
        part.write_text("{}")
        assert part.name == f".a.json.{socket.gethostname().partition('.')[0]}-{os.getpid()}.part"
        clear_parts(tmp_path)
    assert sorted(path.name for path in tmp_path.rglob("*.part")) == [other.name, ".editor.part", "mine.part"]
    assert target.read_text() == "{}"


def test_a_process_is_alive_until_it_has_ended() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert is_alive(child.pid) and is_alive(os.getpid())
    child.communicate(b"\n")
    assert not is_alive(child.pid)


class Knobs(Settings):
    slides: int
    mpp: float = 0.25


def test_settings_refuse_unknown_keys_and_say_all_that_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "k.toml").write_text('slides = "many"\nmmp = 1\n')
    with pytest.raises(ConfigError) as caught:
        Knobs.from_toml(tmp_path / "k.toml")
    assert "k.toml" in str(caught.value)
    assert "slides" in str(caught.value) and "'many'" in str(caught.value) and "mmp" in str(caught.value)
    (tmp_path / "k.toml").write_text("slides = [")
    with pytest.raises(ConfigError, match="not TOML"):
        Knobs.from_toml(tmp_path / "k.toml")
    with pytest.raises(ConfigError, match="cannot be read"):
        Knobs.from_toml(tmp_path / "absent.toml")


def test_fingerprint_covers_every_setting_and_ignores_spelling() -> None:
    assert Knobs(slides=3).fingerprint() == Knobs.of({"mpp": 0.25, "slides": 3}).fingerprint()
    assert Knobs(slides=3).fingerprint() != Knobs(slides=3, mpp=0.5).fingerprint()
