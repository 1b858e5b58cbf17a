"""What this program stands on: every distribution is listed with its licence, and pinned to its version."""

import re
from pathlib import Path

from docs import licences
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
LISTED = (ROOT / "docs" / "licences.md").read_text(encoding="utf-8")


def test_every_dependency_is_listed() -> None:
    asked = {canonicalize_name(Requirement(each).name) for each in licences.everything()}
    assert {"torch", "openslide-python", "pytest", "ray"} <= asked
    assert asked - licences.names(LISTED) == set(), "run: python docs/licences.py"


def test_what_is_installed_is_listed_as_it_is() -> None:
    """An extra that is not installed here has been listed where it was."""
    rows = [*licences.rows(licences.everything()), *licences.browser_rows()]
    assert len(rows) > 50
    assert [row for row in rows if row not in LISTED.splitlines()] == [], "run: python docs/licences.py"
    assert LISTED.startswith(licences.HEAD)


def test_nothing_for_use_is_under_gpl_alone() -> None:
    use = LISTED.split("## For use")[1].split("\n## ")[0]
    terms = [term for row in use.splitlines() for term in row.split(" | ")[-1].removesuffix(" |").split(" AND ")]
    assert [term for term in terms if re.search(r"\bA?GPL", term) and " OR " not in term] == []
    assert any("LGPL-2.1-only" in term for term in terms), "the check sees what it must not mistake"


def test_every_version_is_pinned() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").split()
    pins = {str(canonicalize_name(name)): version for name, _, version in (line.partition("==") for line in lines)}
    installed = {name: licences.version(one) for name, one in licences.needed(licences.everything()).items()}
    assert {name: version for name, version in installed.items() if pins.get(name) != version} == {}
