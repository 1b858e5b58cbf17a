"""Documents that execute: what the README and the docs promise is what the program does."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from aspirate.synth.settings import SynthSettings

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
ASPIRATE = [sys.executable, "-m", "aspirate"]


def test_the_tree_names_every_file_and_its_role() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import sys; sys.path.insert(0, 'docs'); from tree import *; "
         "sys.stdout.buffer.write(readme_with_tree(open('README.md', encoding='utf-8').read()).encode())"],
        cwd=ROOT, capture_output=True, check=True,
    )  # fmt: skip
    assert done.stdout.decode() == README, "run: python docs/tree.py"


def test_every_source_file_says_its_role() -> None:
    silent = [line for line in README.split("## The tree")[1].splitlines() if re.fullmatch(r" {4}\S+\.py\s*", line)]
    assert silent == []


def commands() -> list[str]:
    return sorted(set(re.findall(r"^aspirate ((?:bench )?[a-z]+)", README, flags=re.MULTILINE)))


@pytest.mark.parametrize("command", commands())
def test_every_command_of_the_readme_exists(command: str) -> None:
    done = subprocess.run([*ASPIRATE, *command.split(), "--help"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Usage:" in done.stdout


def test_every_command_that_exists_is_in_the_readme() -> None:
    text = subprocess.run([*ASPIRATE, "--help"], capture_output=True, text=True, check=True).stdout
    listed = set(re.findall(r"^  ([a-z]+)  ", text.split("Commands:")[1], flags=re.MULTILINE))
    assert listed == {command.split()[0] for command in commands()}


def test_links_lead_somewhere() -> None:
    for document in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", document.read_text(encoding="utf-8")):
            assert (document.parent / target).exists(), f"{document.name}: {target}"


def test_every_knob_of_the_synthetic_cohort_is_documented_with_its_default() -> None:
    text = (ROOT / "docs" / "synthetic.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \|", text, flags=re.MULTILINE))
    assert list(rows) == list(SynthSettings.model_fields)
    for name, field in SynthSettings.model_fields.items():
        if isinstance(field.default, str | int | float):
            assert rows[name].strip() == f"{field.default}".removesuffix(".0"), name


def test_no_document_or_source_names_a_registry_or_a_machine() -> None:
    # spelt in two parts, so that this file does not name them either
    forbidden = re.compile("|".join(["pypi" + r"\.org", "/ro" + "ot/", "/ho" + "me/", "npm" + "js"]))
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in tracked.splitlines():
        path = ROOT / name
        if path.is_file() and path.suffix in {".py", ".md", ".toml", ".txt", ".j2", ".cfg", ""}:
            assert not forbidden.search(path.read_text(encoding="utf-8", errors="replace")), name


def test_each_equation_of_the_method_has_its_line() -> None:
    text = (ROOT / "docs" / "method.md").read_text(encoding="utf-8").split("## Equations")[1].split("\n## ")[0]
    rows = re.findall(r"^\| .+ \| `([\w/]+\.py)` \| `(.+)` \|$", text, flags=re.MULTILINE)
    assert len(rows) == len(re.findall(r"^\| ", text, flags=re.MULTILINE)) - 1, "a row that cannot be read"
    for file, line in rows:
        lines = (ROOT / "src" / "aspirate" / file).read_text(encoding="utf-8").splitlines()
        assert [each.split("  # ")[0].strip() for each in lines].count(line) == 1, f"{file}: {line}"
