"""Mutated files through the doors of the program: python -m benchmarks.hostile OUT [--mutations 1200] [--samples DIR]

Writes as it goes and resumes: OUT/hostile.csv, a row for each mutation; OUT/hostile.md, the table; OUT/defects, the
files of every case that did not end as it should.
"""

import argparse
import csv
from collections import Counter
from pathlib import Path

from benchmarks.hostile.corpus import MUST_BE_NOTICED, Mutation, mutations
from benchmarks.hostile.keeper import Ending, Keeper
from benchmarks.hostile.sources import Source, bundles, samples, slides, tables_and_annotations

from aspirate.core.store import write_text

COLUMNS = ("number", "seed", "format", "source", "way", "outcome", "seconds", "peak_mb", "said")
OUTCOMES = ("as sound", "another reading", "refused", "crash", "defect")
"""`crash`: the decoder ended its process, from which batch commands keep their slides apart."""


def outcome(mutation: Mutation, ending: Ending, sound: str) -> tuple[str, str]:
    """One of `OUTCOMES`, and what there is to say about it."""
    if ending.did:
        return "defect", f"did more than read: {'; '.join(ending.did)}"
    if ending.ended == "crash":
        return ("crash" if mutation.source.door == "slide" else "defect"), ending.said
    if ending.ended in ("traceback", "hang", "memory"):
        return "defect", f"{ending.ended}: {ending.said}"
    if ending.ended == "refused":
        return "refused", ending.said
    if ending.digest == sound:
        return "as sound", ""
    if mutation.source.door == "slide" and mutation.way in MUST_BE_NOTICED:
        return "defect", "cut short, but read as another picture"
    return "another reading", ""


class Sound:
    """What each source gives unharmed; a mutation that is read the same did no harm."""

    def __init__(self, keeper: Keeper) -> None:
        self.keeper = keeper
        self.digests: dict[str, str] = {}

    def of(self, source: Source) -> str:
        if source.name not in self.digests:
            ending = self.keeper.open(source.door, source.files, source.entry)
            if ending.ended != "read":
                raise RuntimeError(f"{source.name}: the sound file itself is not read ({ending.ended}: {ending.said})")
            self.digests[source.name] = ending.digest
        return self.digests[source.name]


def run(cases: list[Mutation], out: Path) -> list[dict[str, str]]:
    """Rows of all cases, those of an earlier start included."""
    table = out / "hostile.csv"
    out.mkdir(parents=True, exist_ok=True)
    done = read(table)
    with table.open("a", newline="", encoding="utf-8") as file, Keeper() as keeper:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        if not done:
            writer.writeheader()
        sound = Sound(keeper)
        for case in cases:
            if (str(case.number), case.source.name, case.way) in done:
                continue
            reference, files = sound.of(case.source), case.files()
            ending = keeper.open(case.source.door, files, case.source.entry)
            how, said = outcome(case, ending, reference)
            first = (case.number, case.seed, case.source.format, case.source.name, case.way)
            row = dict(zip(COLUMNS, (*first, how, ending.seconds, ending.peak_mb, said), strict=True))
            writer.writerow(row)
            file.flush()
            if how in ("defect", "crash"):
                keep(out / "defects" / f"{case.number}-{case.way}-{Path(case.source.target).name}", case, files)
                print(f"{case.number} {case.source.name} {case.way}: {how}, {said}", flush=True)
    return list(read(table).values())


def keep(path: Path, case: Mutation, files: dict[str, bytes]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(files[case.source.target])


def read(table: Path) -> dict[tuple[str, str, str], dict[str, str]]:
    if not table.exists():
        return {}
    with table.open(newline="", encoding="utf-8") as file:
        return {(row["number"], row["source"], row["way"]): row for row in csv.DictReader(file)}


def summary(rows: list[dict[str, str]]) -> str:
    counts = Counter((row["format"], row["outcome"]) for row in rows)
    formats = list(dict.fromkeys(row["format"] for row in rows))
    lines = [f"| format | mutations | {' | '.join(OUTCOMES)} | longest, s | most, MB |", "|---" * 9 + "|"]
    for name in (*formats, "all"):
        own = [row for row in rows if name in (row["format"], "all")]
        found = [counts[name, how] if name != "all" else sum(row["outcome"] == how for row in rows) for how in OUTCOMES]
        longest, most = max(float(row["seconds"]) for row in own), max(int(row["peak_mb"]) for row in own)
        lines.append(f"| {name} | {len(own)} | {' | '.join(map(str, found))} | {longest:.1f} | {most} |")
    return "\n".join(lines).replace("|---|", "|---|", 1) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--mutations", type=int, default=1200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--samples", type=Path, help="a folder of real slides, mutated beside the drawn ones")
    parser.add_argument("--formats", nargs="+", help="only these")
    given = parser.parse_args()
    sources = [*slides(), *tables_and_annotations(), *bundles(), *(samples(given.samples) if given.samples else ())]
    chosen = [source for source in sources if not given.formats or source.format in given.formats]
    rows = run(list(mutations(chosen, given.mutations, given.seed)), given.out)
    table = summary(rows)
    write_text(given.out / "hostile.md", table)
    print(table)


if __name__ == "__main__":
    main()
