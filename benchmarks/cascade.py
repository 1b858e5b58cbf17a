"""The cascade against looking at every tile, on slides the scout never saw: the mean, and the worst.

python benchmarks/cascade.py RUN/model COHORT… -o cascade.csv [--slides 20] [--engine auto] [--mpp 0.25]

One row a slide, written as it goes; slides that have a row are skipped. A cohort may also be one slide or a folder.
"""

import argparse
import csv
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from statistics import mean

from aspirate.cli.display import out, progress, table
from aspirate.core.records import SlideEntry
from aspirate.core.store import PROVENANCE_FILE, TRUTH_FILE
from aspirate.slides.doctor import slides_at
from aspirate.synth.model import Stream, draw_labels, stream
from aspirate.synth.plan import plan_slide
from aspirate.synth.settings import SynthSettings
from aspirate.workflow.predict import Model, load_model
from aspirate.workflow.trust import MEAN_OVERLAP, PROBABILITY, WORST_OVERLAP, overlap

FIELDS = (
    "cohort",
    "slide_id",
    "site",
    "stain",
    "tiles",
    "kept",
    "share",
    "widened",
    "missed_at_most",
    "overlap",
    "delta_probability",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("cohorts", type=Path, nargs="+")
    parser.add_argument("-o", "--out", type=Path, required=True)
    parser.add_argument("--slides", type=int, help="of each cohort, evenly spread; all without it")
    parser.add_argument("--engine", default="auto")
    parser.add_argument("--mpp", type=float, help="of slides that do not say")
    given = parser.parse_args()
    model = load_model(given.model, given.engine)
    if model.bundle.scout is None:
        raise SystemExit(f"{given.model}: has no scout that can be trusted; there is nothing to compare")
    done = {(row["cohort"], row["slide_id"]) for row in read(given.out)}
    wanted = [(place.name, entry) for place in given.cohorts for entry in spread(place, given.slides, given.mpp)]
    left = [(name, entry) for name, entry in wanted if (name, entry.slide_id) not in done]
    stains = {place.name: stains_of(place) for place in given.cohorts}
    with progress("comparing", len(left), "slides") as advance:
        for name, entry in left:
            stain = stains[name].get(entry.slide_id, "")
            append(given.out, {"cohort": name, "stain": stain, **compared(model, entry)})
            advance(1)
    show([row for row in read(given.out) if (row["cohort"], row["slide_id"]) in {(n, e.slide_id) for n, e in wanted}])


def spread(place: Path, count: int | None, mpp: float | None) -> list[SlideEntry]:
    """Slides of a cohort, or so many of them, evenly spread over the table."""
    entries = slides_at(place)[0].entries
    step = 1.0 if count is None else max(1.0, len(entries) / count)
    chosen = [entries[int(i * step)] for i in range(int(len(entries) / step))]
    return [SlideEntry(e.slide_id, e.path, site=e.site, mpp=e.mpp or mpp) for e in chosen]


def stains_of(place: Path) -> dict[str, str]:
    """Of a synthetic cohort, by slide; of any other nothing is known."""
    folder = place if place.is_dir() else place.parent
    if not (folder / TRUTH_FILE).exists():
        return {}
    note = json.loads((folder / PROVENANCE_FILE).read_text(encoding="utf-8"))
    settings = SynthSettings.of(note["settings"])
    labels = draw_labels(settings, stream(settings.seed, Stream.LABELS))
    names = [entry.slide_id for entry in slides_at(folder)[0].entries]
    return {name: plan_slide(settings, labels, i).appearance.stain.value for i, name in enumerate(names)}


def compared(model: Model, entry: SlideEntry) -> dict[str, object]:
    quick, whole = model.predict(entry), model.predict(entry, exact=True)
    looked = quick.looked
    assert looked is not None and quick.score is not None and whole.score is not None
    new, old = model.bundle.calibration.probability([quick.score, whole.score]).tolist()
    return {
        "slide_id": entry.slide_id,
        "site": entry.site or "",
        "tiles": len(whole.tiles),
        "kept": int(whole.tiles.values["selected"].sum()),
        "share": looked.share,
        "widened": looked.widened,
        "missed_at_most": looked.missed_at_most,
        "overlap": overlap(quick.tiles.values["selected"], whole.tiles.values["selected"]),
        "delta_probability": abs(new - old),
    }


def read(path: Path) -> list[dict[str, str]]:
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return [row for row in csv.DictReader(file) if row["delta_probability"]]  # a last line cut short is left out


def append(path: Path, row: Mapping[str, object]) -> None:
    new = not path.exists()
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, FIELDS)
        if new:
            writer.writeheader()
        writer.writerow(row)


def show(rows: list[dict[str, str]]) -> None:
    """By cohort, site and stain, and all together; beneath them what is promised."""
    groups: dict[tuple[str, str, str], list[dict[str, str]]] = defaultdict(list)
    for row in rows:
        groups[row["cohort"], row["site"], row["stain"]].append(row)
        groups["all", "", ""].append(row)
    header = ("cohort", "site", "stain", "slides", "looked at", "overlap", "worst", "of", "Δ probability", "widened")
    out.print(table([header, *((*group, *line(own)) for group, own in sorted(groups.items()))], numeric=header[3:]))
    promised = f"overlap {MEAN_OVERLAP:g}, worst {WORST_OVERLAP:g}, Δ probability {PROBABILITY:g}"
    out.print(f"promised: {promised}; Δ probability is that of the worst slide")


def line(rows: list[dict[str, str]]) -> tuple[str, ...]:
    share, agreed, moved = (numbers(rows, name) for name in ("share", "overlap", "delta_probability"))
    return (
        str(len(rows)),
        f"{mean(share):.1%}",
        f"{mean(agreed):.4f}",
        f"{min(agreed):.4f}",
        min(rows, key=lambda row: float(row["overlap"]))["slide_id"],
        f"{max(moved):.4f}",
        str(sum(row["widened"] != "0" for row in rows)),
    )


def numbers(rows: Iterable[Mapping[str, str]], name: str) -> list[float]:
    return [float(row[name]) for row in rows]


if __name__ == "__main__":
    main()
