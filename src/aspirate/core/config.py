"""Settings that refuse contradictions at birth, come from TOML, and have one fingerprint for the whole."""

import hashlib
import json
import tomllib
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from aspirate.core.errors import ConfigError

LARGEST_TOML_BYTES = 2**16
"""Built-in recipes have 500; parsing takes time that grows with the square of a hostile file."""


class Settings(BaseModel):
    """Base of every configuration: frozen, unknown keys are errors, each field documented beneath it."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    @classmethod
    def of(cls, values: dict[str, Any], source: str = "settings") -> Self:
        """Checked settings; all that is wrong is said at once, each with its value."""
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            raise ConfigError(f"{source}: {_explain(error)}") from error

    @classmethod
    def from_toml(cls, path: Path) -> Self:
        return cls.of(read_toml(path), source=str(path))

    def to_toml(self) -> str:
        """As `from_toml` reads it; settings that are None are left out."""
        return _toml(self.model_dump(mode="json"), ())

    def fingerprint(self) -> str:
        """The same for equal settings only; the key under which results are kept."""
        text = json.dumps(self.model_dump(mode="json"), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def read_toml(path: Path) -> dict[str, Any]:
    """The values of a TOML file, or an error that says what it is instead."""
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST_TOML_BYTES + 1)
        if len(data) > LARGEST_TOML_BYTES:
            raise ConfigError(
                f"{path}: more than {LARGEST_TOML_BYTES} bytes, which no settings need; give another file"
            )
        return tomllib.loads(data.decode("utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror}); give an existing TOML file") from error
    except RecursionError as error:
        raise ConfigError(f"{path}: nested too deeply to be settings; give another file") from error
    except ValueError as error:  # also what is no text, and numbers of thousands of digits
        raise ConfigError(f"{path}: not TOML: {error}") from error


def _explain(error: ValidationError) -> str:
    problems = []
    for item in error.errors():
        where = ".".join(str(part) for part in item["loc"]) or "settings"
        what = item["msg"].removeprefix("Value error, ")
        given = "" if item["type"] in ("missing", "extra_forbidden") else f", got {item['input']!r}"
        problems.append(f"{where}: {what}{given}")
    return "; ".join(problems)


def parse_changes(pairs: list[str]) -> dict[str, Any]:
    """`key=value` as typed, the value read as TOML (`3`, `0.5`, `true`, `"text"`) or, failing that, as text."""
    changes: dict[str, Any] = {}
    for pair in pairs:
        key, sign, text = pair.partition("=")
        if not sign or not key.strip():
            raise ConfigError(f"--set {pair}: expected key=value, as malignancy.epochs=5")
        try:
            value = tomllib.loads(f"v = {text}")["v"]
        except tomllib.TOMLDecodeError:
            value = text.strip()
        changes[key.strip()] = value
    return changes


def _toml(values: dict[str, Any], path: tuple[str, ...]) -> str:
    plain = {key: value for key, value in values.items() if not isinstance(value, dict) and value is not None}
    nested = {key: value for key, value in values.items() if isinstance(value, dict)}
    lines = [f"{key} = {json.dumps(value, ensure_ascii=False)}\n" for key, value in plain.items()]
    head = f"[{'.'.join(path)}]\n" if path and (plain or not nested) else ""
    return head + "".join(lines) + "".join("\n" + _toml(value, (*path, key)) for key, value in nested.items())
