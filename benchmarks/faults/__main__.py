"""Runs that are disturbed must end as if they were not.

python -m benchmarks.faults OUT [--kills 30] [--commands predict crossval] [--faults kill …]

Writes as it goes and resumes: OUT/faults.csv, a row for each scenario; OUT/faults.md, the table. What broke stays in
OUT/broken.
"""

import argparse
import csv
import shutil
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

from benchmarks.faults.commands import Command, commands
from benchmarks.faults.scenarios import SCENARIOS, Broken, Undisturbed, check, skipped, undisturbed

from aspirate.core.store import write_text

COLUMNS = ("command", "fault", "number", "kills", "outcome", "said")
KILLING = tuple(fault for fault in SCENARIOS if fault.startswith("kill"))
MOST_ROUNDS = 100
"""Where every scenario breaks, no kill counts."""


def tried(command: Command, fault: str, number: int, whole: Undisturbed, folder: Path, seed: int) -> dict[str, str]:
    """One scenario as a row."""
    first = {"command": command.name, "fault": fault, "number": str(number)}
    if why := skipped(fault):
        return first | {"kills": "0", "outcome": "skipped", "said": why}
    out = folder / f"{command.name}-{fault.replace(' ', '-')}-{number}"
    try:
        kills = SCENARIOS[fault](command, out, whole, Random(f"{seed} {command.name} {fault} {number}"))
        check(out, whole)
    except (Broken, TimeoutError) as error:
        broken = folder / "broken" / out.name
        broken.parent.mkdir(parents=True, exist_ok=True)
        if out.exists():
            shutil.move(out, broken)
        return first | {"kills": "0", "outcome": "broken", "said": str(error)}
    shutil.rmtree(out)
    return first | {"kills": str(kills), "outcome": "the same", "said": ""}


def planned(faults: Sequence[str]) -> Iterator[tuple[str, int]]:
    """Single faults once, then kills for as long as there are not enough of them."""
    yield from ((fault, 0) for fault in faults if fault not in KILLING)
    for number in range(MOST_ROUNDS):
        yield from ((fault, number) for fault in faults if fault in KILLING)


def run(given: argparse.Namespace) -> list[dict[str, str]]:
    table: Path = given.out / "faults.csv"
    rows = read(table)
    for command in commands(given.out / "material", given.commands):
        whole = undisturbed(command, given.out / f"{command.name}-undisturbed")
        done = {(row["fault"], row["number"]) for row in rows if row["command"] == command.name}
        for fault, number in planned(given.faults):
            if fault in KILLING and kills(rows, command) >= given.kills:
                break
            if (fault, str(number)) not in done:
                row = tried(command, fault, number, whole, given.out, given.seed)
                append(table, row)
                rows.append(row)
                print(" · ".join(filter(None, row.values())), flush=True)
    return rows


def kills(rows: list[dict[str, str]], command: Command) -> int:
    return sum(int(row["kills"]) for row in rows if row["command"] == command.name)


def read(table: Path) -> list[dict[str, str]]:
    if not table.exists():
        return []
    with table.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def append(table: Path, row: dict[str, str]) -> None:
    fresh = not table.exists()
    with table.open("a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        if fresh:
            writer.writeheader()
        writer.writerow(row)


def summary(rows: list[dict[str, str]]) -> str:
    lines = ["| command | fault | runs | kills | the same | broken | skipped |", "|---" * 7 + "|"]
    for name in dict.fromkeys((row["command"], row["fault"]) for row in rows):
        own = [row for row in rows if (row["command"], row["fault"]) == name]
        counts = [sum(row["outcome"] == how for row in own) for how in ("the same", "broken", "skipped")]
        killed = sum(int(row["kills"]) for row in own)
        lines.append(f"| {' | '.join(name)} | {len(own)} | {killed} | {' | '.join(map(str, counts))} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--kills", type=int, default=30, help="of each command, at least")
    parser.add_argument("--commands", nargs="+", default=["predict", "crossval"])
    parser.add_argument("--faults", nargs="+", default=list(SCENARIOS), choices=list(SCENARIOS))
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # as Ctrl-C: nothing is left running
    given.out = given.out.resolve()
    given.out.mkdir(parents=True, exist_ok=True)
    table = summary(run(given))
    write_text(given.out / "faults.md", table)
    print(table)


if __name__ == "__main__":
    main()
