"""Whether the time of a slide grows with its area: four sizes, from the command line to the result.

python benchmarks/slide_sizes.py RUN/model OUT [--repeats 3] [--exact] [--json FILE]

Slides are drawn once and kept in OUT; the largest, 4 Gpx, takes a while.
"""

import argparse
from pathlib import Path
from statistics import median

from aspirate.cli.display import out, progress, table
from aspirate.core.store import write_json
from aspirate.synth.cohort import draw_slide
from aspirate.synth.settings import SynthSettings
from aspirate.workflow.bench_slide import run_command

SIZES = ((8_944, 5_590), (20_000, 12_500), (40_000, 25_000), (80_000, 50_000))
"""0.05, 0.25, 1 and 4 Gpx, all of one shape."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--exact", action="store_true")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    asked = ["--exact"] if given.exact else []
    rows = [("size", "Gpx", "seconds", "seconds a Gpx", "peak_rss_mb")]
    figures: dict[str, float] = {}
    for width, height in SIZES:
        path, gpx = given.out / f"{width}x{height}.tiff", width * height / 1e9
        if not path.exists():
            with progress(f"drawing {path.name}", width * height, "pixels") as advance:
                draw_slide(SynthSettings(size=(width, height)), path, advance)
        runs = []
        with progress(path.name, given.repeats, "runs") as advance:
            for _ in range(given.repeats):
                runs.append(run_command(given.model, path, asked))
                advance(1)
        seconds, rss_mb = median(seconds for seconds, _ in runs), max(rss for _, rss in runs)
        rows.append((path.stem, f"{gpx:.2f}", f"{seconds:.1f}", f"{seconds / gpx:.1f}", f"{rss_mb:.0f}"))
        figures |= {f"seconds_{path.stem}": seconds, f"peak_rss_mb_{path.stem}": rss_mb}
    out.print(table(rows, numeric=rows[0][1:]))
    if given.json:
        write_json(given.json, figures)


if __name__ == "__main__":
    main()
