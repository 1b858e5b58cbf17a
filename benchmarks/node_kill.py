"""A machine is lost in mid-run: a cross-validation on two Ray nodes of this machine, one of which is killed.

python benchmarks/node_kill.py OUT [--methods proposed] [--after 0.3]

The same command runs undisturbed on local processes first. The node is killed once `--after` of all units are done, and
not given back. Prints what became of the units, and whether the results are the same to the last byte.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # started by its path, as the other benchmarks
from benchmarks.faults.commands import ASPIRATE, SMALL, make_material, results  # noqa: E402

from aspirate.core.log import LOG_FILE  # noqa: E402
from aspirate.workflow.ray_pool import ray_module  # noqa: E402

FOLDS = 3
PATIENCE_S = 900


def command(material: Path, out: Path, methods: list[str], *more: str) -> list[str]:
    settings = [part for change in SMALL for part in ("--set", change)]
    rows = [part for method in methods for part in ("--methods", method)]
    start = [*ASPIRATE, "crossval", str(material / "cohort"), "-o", str(out), "--folds", str(FOLDS)]
    return [*start, *rows, *settings, "--quiet", "--log-names", *more]


def events(out: Path) -> list[dict[str, Any]]:
    path = out / LOG_FILE
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True) if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("\n")]


def done(out: Path) -> int:
    return sum(event["event"] == "unit" for event in events(out))


def two_nodes() -> tuple[Any, Any]:
    ray_module(loopback=True)
    from ray.cluster_utils import Cluster

    small: dict[str, Any] = {"num_cpus": 1, "object_store_memory": 80 * 2**20, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=small)
    return cluster, cluster.add_node(**small)


def disturbed(given: argparse.Namespace, out: Path, units: int) -> float:
    """Seconds from the kill to the end."""
    cluster, doomed = two_nodes()
    process = subprocess.Popen(
        command(given.out / "material", out, given.methods, "--on", "auto"),
        env=os.environ | {"RAY_ADDRESS": cluster.address},
    )
    try:
        while done(out) < given.after * units:
            if process.poll() is not None:
                raise SystemExit(f"the run ended with {process.returncode} before a node was killed")
            time.sleep(0.2)
        killed = time.monotonic()
        print(f"killed a node when {done(out)} of {units} units were done", flush=True)
        cluster.remove_node(doomed, allow_graceful=False)
        if code := process.wait(PATIENCE_S):
            raise SystemExit(f"the run ended with {code}: see {out / LOG_FILE}")
        return time.monotonic() - killed
    finally:
        process.kill()
        cluster.shutdown()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--methods", nargs="+", default=["proposed"])
    parser.add_argument("--after", type=float, default=0.3)
    given = parser.parse_args()
    given.out = given.out.resolve()
    local, ray = given.out / "local", given.out / "ray"
    for folder in (local, ray):
        shutil.rmtree(folder, ignore_errors=True)
    make_material(given.out / "material")
    subprocess.run(command(given.out / "material", local, given.methods), check=True)
    units = done(local)
    seconds = disturbed(given, ray, units)
    again = [event["unit"] for event in events(ray) if event["event"] == "unit begun again"]
    ended = [event["unit"] for event in events(ray) if event["event"] == "unit"]
    print(f"units: {units}; ended on Ray: {len(ended)}, each once: {len(set(ended)) == len(ended) == units}")
    print(f"begun again: {len(again)} ({', '.join(again) or 'none'})")
    print(f"from the kill to the end: {seconds:.0f} s")
    print(f"results as without Ray and without a kill, to the last byte: {results(ray) == results(local)}")


if __name__ == "__main__":
    main()
