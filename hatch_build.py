"""Builds the pages of the reading room: TypeScript and OpenSeadragon become two files in `viewer/static`.

Where npm is missing the package installs all the same; only `aspirate serve` then says what it lacks.
"""

import hashlib
import shutil
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

STATIC = "src/aspirate/viewer/static"
STAMP = ".built-from"


class Pages(BuildHookInterface):  # type: ignore[type-arg]
    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        build_data["artifacts"].append(f"/{STATIC}/**")
        frontend, static = Path(self.root, "frontend"), Path(self.root, STATIC)
        made_from = fingerprint(frontend)
        stamp = static / STAMP
        if stamp.is_file() and stamp.read_text() == made_from:  # a build asks twice
            return
        npm = shutil.which("npm")
        if npm is None:
            self.app.display_warning("npm is missing: installed without the pages of `aspirate serve`")
            return
        try:
            build(npm, frontend, static)
        except (OSError, subprocess.CalledProcessError) as error:
            said = getattr(error, "stderr", None) or str(error)
            self.app.display_warning(f"the pages of `aspirate serve` could not be built: {said}")
            return
        stamp.write_text(made_from)


def fingerprint(frontend: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted([*frontend.glob("*.json"), *frontend.glob("src/**/*"), Path(__file__)]):
        if path.is_file():
            digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()


def build(npm: str, frontend: Path, static: Path) -> None:
    def run(*command: str) -> None:
        subprocess.run(command, cwd=frontend, check=True, capture_output=True, text=True)

    run(npm, "ci", "--omit=dev", "--ignore-scripts")
    static.mkdir(parents=True, exist_ok=True)
    files = ("app=src/main.ts", "style=src/style.css")
    out = (f"--outdir={static.resolve()}", "--legal-comments=eof")
    run("node", "node_modules/esbuild/bin/esbuild", *files, "--bundle", "--minify", "--target=es2022", *out)
    shutil.copyfile(frontend / "src" / "index.html", static / "index.html")
    shutil.copyfile(frontend / "node_modules/openseadragon/LICENSE.txt", static / "openseadragon-LICENSE.txt")
