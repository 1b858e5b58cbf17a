"""Settings from files of strangers: an error that names the file, never a traceback, never minutes."""

from pathlib import Path

import pytest

from aspirate.core.config import read_toml
from aspirate.core.errors import ConfigError


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"a = \xff", "not TOML"),
        ("a = 1".encode("utf-16"), "not TOML"),
        (b"a = " + b"9" * 5000, "not TOML"),
        (b"a = " + b"[" * 20_000, "nested too deeply"),
        (b"[" + b"a." * 100_000 + b"a]\n", "more than 65536 bytes"),
    ],
)
def test_what_is_no_settings_is_refused_by_name(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "recipe.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=rf"recipe\.toml: {words}"):
        read_toml(path)


def test_what_is_settings_is_read(tmp_path: Path) -> None:
    path = tmp_path / "recipe.toml"
    path.write_text('mpp = 0.5\n[malignancy]\nlabels = "YS"\n', encoding="utf-8")
    assert read_toml(path) == {"mpp": 0.5, "malignancy": {"labels": "YS"}}
