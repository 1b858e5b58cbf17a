"""Writes `docs/licences.md`: every distribution that this one needs, directly or not, with version and licence.

python docs/licences.py        in an environment made by `make setup`
"""

import json
import re
import tomllib
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
DOCUMENT = ROOT / "docs" / "licences.md"
LONGEST_LINE = 60
"""Longer ones are the text of a licence, not its name."""
HEAD = """# Licences

Aspirate is under Apache-2.0. This is what it stands on, as its distributions state it themselves; written by
`python docs/licences.py`, checked by a test. None of it is copied into this repository.

OpenSlide is under LGPL-2.1: its library is linked at run time, as the licence asks, and can be replaced. Nothing that
is installed for use is under GPL or AGPL alone.

## How dependencies are watched
Every version is pinned in `constraints.txt`; a test fails where one that is installed is not, so that an installation
is the same next month. Known vulnerabilities are *not* looked up by the tests: `pip-audit` asks the public index or OSV
for them, and where only a mirror of the packages can be reached it calls each “could not be audited”, adds “No known
vulnerabilities found” and ends with 0, also for a version that has some. With access to either, run it by hand:

```
pip install pip-audit && pip-audit --no-deps --disable-pip -r constraints.txt
```
"""


def project() -> dict[str, list[str]]:
    """Requirements by group: `use`, and each extra by its name."""
    table = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return {"use": table["dependencies"], **table["optional-dependencies"]}


def everything() -> list[str]:
    return [requirement for group in project().values() for requirement in group]


def found(name: str) -> Distribution | None:
    try:
        return distribution(name)
    except PackageNotFoundError:
        return None


def needed(requirements: Iterable[str]) -> dict[str, Distribution]:
    """All that these need here, by canonical name; what is not installed is left out."""
    waiting = [(Requirement(each), frozenset[str]()) for each in requirements]
    known: dict[str, Distribution] = {}
    seen: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        requirement, extras = waiting.pop()
        if requirement.marker and not any(requirement.marker.evaluate({"extra": extra}) for extra in extras or {""}):
            continue
        name, own = canonicalize_name(requirement.name), frozenset(requirement.extras)
        if (name, own) in seen or (installed := found(name)) is None:
            continue
        seen.add((name, own))
        known[name] = installed
        waiting += [(Requirement(each), own) for each in installed.requires or ()]
    return known


def licence(installed: Distribution) -> str:
    """As the distribution states it: an SPDX expression, else classifiers, else one line of its own."""
    fields = installed.metadata.json
    if expression := fields.get("license_expression"):
        return str(expression)
    if stated := [each.split(" :: ")[-1] for each in fields.get("classifier", ()) if each.startswith("License ::")]:
        return ", ".join(stated)
    line = str(fields.get("license", "")).strip().splitlines()
    return line[0] if line and len(line[0]) < LONGEST_LINE else "see its own files"


def version(installed: Distribution) -> str:
    """Without the local part, as `+cpu`: that is of an environment, not of a release."""
    return installed.version.partition("+")[0]


def rows(requirements: Iterable[str]) -> Iterator[str]:
    for name, installed in sorted(needed(requirements).items()):
        yield f"| {name} | {version(installed)} | {licence(installed)} |"


def browser_rows() -> Iterator[str]:
    """What the reading room's page is built from; the lock file of npm states the licences."""
    packages = json.loads((ROOT / "frontend" / "package-lock.json").read_text(encoding="utf-8"))["packages"]
    wanted = packages[""]["dependencies"] | packages[""].get("devDependencies", {})
    for name in sorted(wanted):
        entry = packages[f"node_modules/{name}"]
        yield f"| {name} | {entry['version']} | {entry['license']} |"


def document() -> str:
    use = set(rows(project()["use"]))
    sections = {
        "For use": sorted(use),
        "For development, tests and extras": sorted(set(rows(everything())) - use),
        "In the browser": list(browser_rows()),
    }
    table = "| distribution | version | licence |\n|---|---|---|\n"
    parts = (f"\n## {title}\n{table}" + "\n".join(lines) + "\n" for title, lines in sections.items())
    return HEAD + "".join(parts)


def names(text: str) -> set[str]:
    """The distributions that a document lists."""
    return set(re.findall(r"^\| ([\w.-]+) \| \d", text, flags=re.MULTILINE))


if __name__ == "__main__":
    absent = [each for each in everything() if found(Requirement(each).name) is None]
    if absent:
        raise SystemExit(f"not installed, so their licences are not known: {', '.join(absent)}; run make setup first")
    DOCUMENT.write_text(document(), encoding="utf-8")
