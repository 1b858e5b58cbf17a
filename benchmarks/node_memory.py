"""A machine short of memory: units on a Ray node that has room for one of them, though each says it needs little.

python benchmarks/node_memory.py OUT [--units 4] [--megabytes 1200] [--seconds 6]

Ray ends a unit when the node's memory passes a limit, which is set here to what is in use now and room for two units
less a little. What is ended must be begun again, fewer at a time, until all are done.
"""

import argparse
import json
import os
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

from aspirate.core.log import LOG_FILE, log_of
from aspirate.core.progress import Stages, silent_stages
from aspirate.workflow.launch import Needs, Unit
from aspirate.workflow.ray_pool import RayPool, ray_module

SAID_MB = 500
"""What a unit says it needs: too little."""


@dataclass(frozen=True, slots=True)
class Hold:
    """So many megabytes for so long."""

    megabytes: int
    seconds: float

    def __call__(self, stages: Stages, /) -> int:
        held = bytearray(os.urandom(1)) * (self.megabytes * 2**20)
        time.sleep(self.seconds)
        return len(held) // 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--units", type=int, default=4)
    parser.add_argument("--megabytes", type=int, default=1200)
    parser.add_argument("--seconds", type=float, default=6.0)
    given = parser.parse_args()
    shutil.rmtree(given.out, ignore_errors=True)
    given.out.mkdir(parents=True)
    memory = psutil.virtual_memory()
    room = 2 * given.megabytes * 2**20
    limit = (memory.total - memory.available + room) / memory.total
    here = str(Path(__file__).resolve().parent)  # where workers find this file's units
    settings = {"RAY_memory_usage_threshold": f"{limit:.3f}", "RAY_memory_monitor_refresh_ms": "100"}
    os.environ.update(settings | {"PYTHONPATH": here})
    ray_module(loopback=True)
    from ray.cluster_utils import Cluster

    node = {"num_cpus": 2, "object_store_memory": 80 * 2**20, "include_dashboard": False, "memory": room}
    cluster = Cluster(initialize_head=True, head_node_args=node)
    units = [Unit(f"unit {n}", Hold(given.megabytes, given.seconds), Needs(1, SAID_MB)) for n in range(given.units)]
    try:
        with log_of(given.out, "node memory"):
            outcomes = list(RayPool(cluster.address).run(units, silent_stages))
    finally:
        cluster.shutdown()  # type: ignore[no-untyped-call]
    events = [json.loads(line) for line in (given.out / LOG_FILE).read_text(encoding="utf-8").splitlines()]
    again = [event["kind"] for event in events if event["event"] == "unit begun again"]
    print(f"units: {given.units}; done: {sum(outcome.value == given.megabytes for outcome in outcomes)}")
    print(f"begun again: {len(again)} ({', '.join(sorted(set(again))) or 'none'})")
    print(f"seconds: {events[-1]['seconds']:.0f}; one after another they take {given.units * given.seconds:.0f}")


if __name__ == "__main__":
    main()
