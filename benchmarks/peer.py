"""The same net on the same slide by WSInfer and by Aspirate, whole commands, in turns.

python benchmarks/peer.py MODEL SLIDE OUT --wsinfer PEER/bin/wsinfer [--repeats 3]

WSInfer is not a dependency: it is installed in a virtual environment of its own (`pip install wsinfer 'tiffslide<3'
'zarr<3' openslide-python openslide-bin`; where its hub cannot be reached, `HF_HUB_OFFLINE=1` and a registry with any
one model in `~/.wsinfer-zoo`). It runs r_φ as `aspirate export --to torchscript` writes it, on the tiles where it
finds tissue, with one loader process a core, and writes a CSV. `aspirate predict` runs r_φ on every tile (`--exact`)
or on those that a scout points at, then g_θ, and writes heat map, sheet, GeoJSON and tables. WSInfer is told to take
everything for tissue, so that both look at all of the slide; where its own rules leave tiles out all the same, tiles
a second are what can be compared.
"""

import argparse
import os
import shutil
import subprocess
import time
from pathlib import Path
from statistics import median

from aspirate.cli.display import out, progress, table
from aspirate.core.geometry import TileGrid, checked_mpp
from aspirate.core.store import write_json
from aspirate.slides.reader import open_slide
from aspirate.workflow.bench_slide import run_command
from aspirate.workflow.bundle import load_bundle
from aspirate.workflow.export import export

ALL_TISSUE = ("--seg-binary-threshold", "1", "--seg-min-object-size-um2", "0", "--seg-min-hole-size-um2", "1e12")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("slide", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--wsinfer", type=Path, required=True, help="its command, in an environment of its own")
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    nets = given.out / "nets"
    if not nets.exists():
        export(given.model, "torchscript", nets)
    slides = given.out / "slides"
    slides.mkdir(exist_ok=True)
    link = slides / given.slide.name
    if not link.exists():
        link.symlink_to(given.slide.resolve())
    recipe = load_bundle(given.model).recipe
    with open_slide(given.slide) as slide:
        grid = TileGrid.cover(slide.size_px0, checked_mpp(slide.mpp, slide.name), recipe.side_px, recipe.mpp)
    turns: dict[str, list[float]] = {"WSInfer": [], "aspirate --exact": [], "aspirate": []}
    found = 0
    with progress("turns", given.repeats, "turns") as advance:
        for _ in range(given.repeats):
            seconds, found = wsinfer(given.wsinfer, slides, nets / "informativeness", given.out / "wsinfer")
            turns["WSInfer"].append(seconds)
            turns["aspirate --exact"].append(run_command(given.model, given.slide, ["--exact"])[0])
            turns["aspirate"].append(run_command(given.model, given.slide, [])[0])
            advance(1)
    tiles = {"WSInfer": found, "aspirate --exact": len(grid), "aspirate": len(grid)}
    header = ("program", "seconds", "tiles", "tiles/s")
    rows = [
        (name, f"{median(each):.1f}", str(tiles[name]), f"{tiles[name] / median(each):.0f}")
        for name, each in turns.items()
    ]
    out.print(table([header, *rows], numeric=header[1:]))
    write_json(given.out / "peer.json", {"seconds": turns, "tiles": tiles})


def wsinfer(command: Path, slides: Path, net: Path, results: Path) -> tuple[float, int]:
    """Seconds of a whole run, and how many tiles it scored."""
    shutil.rmtree(results, ignore_errors=True)
    asked = [command, "run", "-i", slides, "-o", results, "-c", net / "config.json", "-p", net / "torchscript_model.pt"]
    start = time.perf_counter()
    subprocess.run(
        [*map(str, asked), *ALL_TISSUE, "--num-workers", str(os.cpu_count())], check=True, capture_output=True
    )
    seconds = time.perf_counter() - start
    (written,) = results.glob("model-outputs-csv/*.csv")
    return seconds, len(written.read_text().splitlines()) - 1


if __name__ == "__main__":
    main()
