"""Files that may be lost or damaged at any time."""

from pathlib import Path

import pytest

from aspirate.engines import cache


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASPIRATE_CACHE", str(tmp_path / "cache"))


def test_what_is_kept_comes_back_as_it_was() -> None:
    assert cache.kept_bytes("a.blob") is None and cache.kept_note("a.json") is None
    cache.keep_bytes("a.blob", b"x" * 1000)
    cache.keep_note("a.json", {"one": 1})
    kept = cache.kept_bytes("a.blob")
    assert kept is not None and kept.tobytes() == b"x" * 1000
    assert cache.kept_note("a.json") == {"one": 1}


@pytest.mark.parametrize("damage", ["empty", "cut", "flipped"])
def test_what_is_damaged_counts_as_absent(damage: str) -> None:
    cache.keep_bytes("a.blob", b"x" * 1000)
    path = cache.folder() / "a.blob"
    content = bytearray(path.read_bytes())
    content[500] ^= 1
    path.write_bytes({"empty": b"", "cut": bytes(path.read_bytes()[:700]), "flipped": bytes(content)}[damage])
    assert cache.kept_bytes("a.blob") is None
    (cache.folder() / "a.json").write_text("[1")
    assert cache.kept_note("a.json") is None
    (cache.folder() / "a.json").write_text("[1]")
    assert cache.kept_note("a.json") is None


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ASPIRATE_CACHE", str(tmp_path / "file" / "cache"))
    cache.keep_bytes("a.blob", b"x")
    cache.keep_note("a.json", {})
    assert cache.kept_bytes("a.blob") is None


def test_those_used_longest_ago_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    monkeypatch.setattr(cache, "LIMIT_BYTES", 3 * (1000 + cache.DIGEST))
    for age, name in enumerate("abc"):
        cache.keep_bytes(f"{name}.blob", name.encode() * 1000)
        os.utime(cache.folder() / f"{name}.blob", (1000 + age, 1000 + age))
    assert cache.kept_bytes("a.blob") is not None  # used again, so that b is the oldest
    cache.keep_note("verdict.json", {"one": 1})
    cache.keep_bytes("d.blob", b"d" * 1000)
    assert sorted(path.name for path in cache.folder().iterdir()) == ["a.blob", "c.blob", "d.blob", "verdict.json"]


def test_where_it_lies(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("ASPIRATE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache.folder() == tmp_path / "aspirate"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache.folder() == Path.home() / ".cache" / "aspirate"


def test_fingerprints_differ_where_anything_does() -> None:
    assert cache.fingerprint("a", [1, None]) == cache.fingerprint("a", [1, None])
    assert (
        len({cache.fingerprint("a", 1), cache.fingerprint("a", 2), cache.fingerprint("a1"), cache.fingerprint()}) == 4
    )
