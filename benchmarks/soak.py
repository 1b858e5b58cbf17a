"""Thousands of small slides through `aspirate predict`: memory and open files stay flat, and no slide takes longer.

python benchmarks/soak.py OUT [--slides 2000] [--hours 2] [--every 5]

Writes as it goes and resumes: OUT/soak.csv, a row for each sample; OUT/soak.png, the curves; OUT/soak.json, the slopes.
Ends when all slides are done or the hours are over.
"""

import argparse
import csv
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
import numpy as np
import psutil
from numpy.typing import NDArray
from scipy import stats

from aspirate.core.log import LOG_FILE
from aspirate.core.records import SlideEntry
from aspirate.core.store import write_json
from aspirate.slides.cohort import Cohort

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # started by its path, as the other benchmarks
from benchmarks.faults.commands import ASPIRATE, make_material  # noqa: E402

COLUMNS = ("start", "seconds", "slides", "rss_mb", "open_files", "processes")
TITLES = {
    "rss_mb": "memory of all processes, MB",
    "open_files": "open files of all processes",
    "seconds_per_slide": "seconds per slide",
}
WARM_UP = 0.1
"""Of the slides of a start: libraries are loaded, caches fill."""
FLAT = 0.05
"""Over the whole run, as a share of the mean."""


@dataclass(frozen=True, slots=True)
class Sample:
    start: int
    seconds: float
    slides: int
    rss_mb: float
    open_files: int
    processes: int


@dataclass(frozen=True, slots=True)
class Slope:
    """A straight line through samples: what is gained by the run's last slide, as a share of the mean."""

    mean: float
    gain: float
    low: float
    high: float

    @property
    def flat(self) -> bool:
        """Whether the interval (95 %) leaves no room for a gain that matters."""
        return self.high < FLAT


def slope(slides: NDArray[np.float64], values: NDArray[np.float64]) -> Slope:
    line, mean = stats.linregress(slides, values), float(values.mean())
    rise, spread = float(line.slope), float(stats.t.ppf(0.975, len(slides) - 2) * line.stderr)
    share = float(slides[-1] - slides[0]) / mean
    return Slope(mean, rise * share, (rise - spread) * share, (rise + spread) * share)


def slide_seconds(log: Path, start: int) -> NDArray[np.float64]:
    """What each slide of a start took by itself, in the order in which they ended."""
    found: list[list[float]] = []
    for line in log.read_text(encoding="utf-8").splitlines():
        event = json.loads(line)
        if event["event"] == "begun":
            found.append([])
        elif event["event"] == "slide":
            found[-1].append(event["seconds"])
    return np.array(found[start - 1], np.float64)


def curves(samples: Sequence[Sample], log: Path) -> dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Slides and values of each quantity, of the start that did most, without its warm-up and its idle ends."""
    starts = {sample.start for sample in samples}
    own = max(([s for s in samples if s.start == start] for start in starts), key=lambda s: s[-1].slides - s[0].slides)
    first, last = own[0].slides, own[-1].slides
    kept = [s for s in own if first + WARM_UP * (last - first) <= s.slides < last]
    slides = np.array([s.slides for s in kept], np.float64)
    each = slide_seconds(log, own[0].start)
    warm = int(WARM_UP * len(each))
    return {
        "rss_mb": (slides, np.array([s.rss_mb for s in kept])),
        "open_files": (slides, np.array([s.open_files for s in kept], np.float64)),
        "seconds_per_slide": (first + np.arange(warm, len(each), dtype=np.float64), each[warm:]),
    }


def measured(process: psutil.Process, start: int, seconds: float, table: Path) -> Sample:
    """The whole tree: whoever does the work."""
    rss = files = count = 0
    for one in [process, *process.children(recursive=True)]:
        try:
            with one.oneshot():
                rss, files, count = rss + one.memory_info().rss, files + one.num_fds(), count + 1
        except psutil.NoSuchProcess:
            continue
    rows = table.read_bytes().count(b"\n") - 1 if table.exists() else 0
    return Sample(start, round(seconds, 2), rows, round(rss / 2**20, 1), files, count)


def read(table: Path) -> list[Sample]:
    if not table.exists():
        return []
    with table.open(newline="", encoding="utf-8") as file:
        rows = [[float(row[name]) for name in COLUMNS] for row in csv.DictReader(file)]
    return [Sample(int(a), b, int(c), d, int(e), int(f)) for a, b, c, d, e, f in rows]


def make_cohort_table(folder: Path, slides: int) -> Path:
    """Few files under many names: what is watched is the program, not the disk."""
    drawn = Cohort.read(make_material(folder)).entries
    table = folder / "cohort" / f"soak-{slides}.csv"
    Cohort.write(table, [SlideEntry(f"slide-{i:05}", drawn[i % len(drawn)].path) for i in range(slides)])
    return table


def soak(out: Path, slides: int, hours: float, every_s: float) -> list[Sample]:
    table, done = out / "soak.csv", read(out / "soak.csv")
    start = 1 + max((sample.start for sample in done), default=0)
    cohort = make_cohort_table(out / "material", slides)
    command = [*ASPIRATE, "predict", str(out / "material" / "model"), str(cohort), "-o", str(out / "predictions")]
    with (out / "log.txt").open("a", encoding="utf-8") as log, table.open("a", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        if not done:
            writer.writerow(COLUMNS)
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        begun = time.monotonic()
        try:
            while process.poll() is None and time.monotonic() - begun < hours * 3600:
                time.sleep(every_s)
                if process.poll() is None:
                    seconds = time.monotonic() - begun
                    sample = measured(
                        psutil.Process(process.pid), start, seconds, out / "predictions" / "predictions.csv"
                    )
                    writer.writerow([getattr(sample, name) for name in COLUMNS])
                    file.flush()
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGINT)
            if process.wait() not in (0, 130):
                raise SystemExit(f"predict ended with {process.returncode}: see {out / 'log.txt'}")
    return read(table)


def draw(path: Path, found: dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]]) -> None:
    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(len(found), 1, figsize=(8, 7), sharex=True, layout="constrained")
    for axis, (name, (slides, values)) in zip(axes, found.items(), strict=True):
        axis.plot(slides, values, ".", markersize=3, color="#4078c0")
        line = stats.linregress(slides, values)
        axis.plot(slides, line.intercept + line.slope * slides, color="#c82832", linewidth=1)
        axis.set_ylim(0, 1.25 * values.max())
        axis.set_title(TITLES[name], loc="left", fontsize=10)
        axis.grid(alpha=0.3)
    axes[-1].set_xlabel("slides done")
    figure.savefig(path, dpi=120)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--slides", type=int, default=2000)
    parser.add_argument("--hours", type=float, default=2.0)
    parser.add_argument("--every", type=float, default=5.0, help="seconds between samples")
    given = parser.parse_args()
    out = given.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    found = curves(soak(out, given.slides, given.hours, given.every), out / "predictions" / LOG_FILE)
    slopes = {name: slope(slides, values) for name, (slides, values) in found.items()}
    draw(out / "soak.png", found)
    figures = {
        name: {"mean": s.mean, "gain": s.gain, "low": s.low, "high": s.high, "flat": s.flat}
        for name, s in slopes.items()
    }
    write_json(out / "soak.json", figures)
    print("| quantity | mean | gain over the run (95 %) | flat |\n|---|---|---|---|")
    for name, s in slopes.items():
        print(f"| {name} | {s.mean:.4g} | {s.gain:+.1%} ({s.low:+.1%} … {s.high:+.1%}) | {'yes' if s.flat else 'no'} |")


if __name__ == "__main__":
    main()
