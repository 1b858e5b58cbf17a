"""Writes the README's tree: every source file with its role, which is the first sentence of its docstring.

python docs/tree.py
"""

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "aspirate"
HEADING = "## The tree\n"
ROOMS = ("core", "slides", "synth", "nn", "learning", "engines", "stages", "evaluation", "workflow", "viewer", "cli")
"""From the ground up: each imports only from those before it."""


def role(module: Path) -> str:
    """The first sentence of a module's docstring, without its full stop."""
    text = ast.get_docstring(ast.parse(module.read_text(encoding="utf-8"))) or ""
    return " ".join(text.split("\n\n")[0].split()).split(". ")[0].rstrip(".")


def tree() -> str:
    lines = ["src/aspirate/"]
    for room in ROOMS:
        folder = SOURCE / room
        if not folder.is_dir():
            continue
        about = role(folder / "__init__.py")
        lines.append(f"  {room}/" + (f"   {about}" if about else ""))
        names = sorted(path.name for path in folder.glob("*.py") if path.name != "__init__.py")
        width = max(map(len, names))
        lines += [f"    {name:<{width}}  {role(folder / name)}" for name in names]
    return "```\n" + "\n".join(lines) + "\n```\n"


def readme_with_tree(readme: str) -> str:
    return readme[: readme.index(HEADING) + len(HEADING)] + tree()


if __name__ == "__main__":
    path = ROOT / "README.md"
    path.write_text(readme_with_tree(path.read_text(encoding="utf-8")), encoding="utf-8")
