"""Imports point one way: a room sees only the rooms below it, and heavy libraries stay where they belong."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src" / "aspirate"

BELOW: dict[str, set[str]] = {
    "core": set(),
    "nn": {"core"},
    "slides": {"core"},
    "synth": {"core"},
    "learning": {"nn", "slides", "synth", "core"},
    "engines": {"nn", "slides", "synth", "core"},
    "stages": {"learning", "engines", "nn", "slides", "synth", "core"},
    "evaluation": {"core"},
    "workflow": {"stages", "evaluation", "learning", "engines", "nn", "slides", "synth", "core"},
    "viewer": {"workflow", "stages", "evaluation", "learning", "engines", "nn", "slides", "synth", "core"},
    "cli": {
        "viewer",
        "workflow",
        "stages",
        "evaluation",
        "learning",
        "engines",
        "nn",
        "slides",
        "synth",
        "core",
    },
}
"""Which rooms each room may import; `aspirate` itself (the version and lazy names) is open to all."""

ONLY_IN: dict[str, set[str]] = {
    "openslide": {"slides"},
    "tifffile": {"slides"},
    "simplejpeg": {"slides", "synth"},
    "torch": {"nn", "learning", "engines", "stages", "workflow"},
    "ray": {"workflow"},
    "openvino": {"engines"},
    "onnx": {"engines"},
    "onnxruntime": {"engines"},
    "typer": {"cli"},
    "rich": {"cli"},
}


def modules() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def room_of(module: Path) -> str:
    first = module.relative_to(SOURCE).parts[0]
    return first.removesuffix(".py")


def imported(module: Path) -> Iterator[str]:
    """Every module name an import statement in the file mentions, at any depth."""
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: relative import; write aspirate.… so that rooms can be seen"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def violations(room: str, names: Iterator[str]) -> list[str]:
    found = []
    for name in names:
        top, *rest = name.split(".")
        if top == "aspirate" and rest and (SOURCE / rest[0]).is_dir() and rest[0] != room:
            if rest[0] not in BELOW[room]:
                found.append(f"{room} may not import aspirate.{rest[0]}")
        elif top in ONLY_IN and room not in ONLY_IN[top]:
            found.append(f"{room} may not import {top}")
    return found


@pytest.mark.parametrize("module", modules(), ids=lambda m: str(m.relative_to(SOURCE)))
def test_imports_point_down(module: Path) -> None:
    room = room_of(module)
    if room in ("__init__", "__main__"):
        return
    assert room in BELOW, f"{room} is no room of the design: add it to BELOW, with what it may see"
    assert violations(room, imported(module)) == []


def test_the_check_itself_fails_on_a_wrong_import() -> None:
    assert violations("core", iter(["aspirate.slides.reader.open_slide"])) == ["core may not import aspirate.slides"]
    assert violations("slides", iter(["aspirate.synth.writer"])) == ["slides may not import aspirate.synth"]
    assert violations("core", iter(["openslide"])) == ["core may not import openslide"]
    assert violations("workflow", iter(["aspirate.slides.reader", "aspirate.core.errors"])) == []


def heavy_after(statement: str, heavy: set[str]) -> str:
    """Which of these libraries an import brings along."""
    code = f"import sys\n{statement}\nsys.exit(' '.join(sorted({heavy!r} & set(sys.modules))) or 0)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    return done.stderr.strip()


def test_help_needs_no_heavy_library() -> None:
    heavy = {"torch", "scipy", "openslide", "tifffile", "h5py", "shapely", "sklearn", "matplotlib", "numpy", "pydantic"}
    assert heavy_after("import aspirate.cli.app", heavy) == ""


def test_whoever_only_predicts_does_not_wait_for_what_trains() -> None:
    heavy = {"torch", "lightning_fabric", "sklearn", "matplotlib"}
    assert heavy_after("import aspirate.workflow.predict_many", heavy) == ""
    assert heavy_after("import aspirate.workflow.train", heavy) == "torch", "or this test could not fail"
