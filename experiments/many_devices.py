"""How far one host reaches: simulated devices, measured side by side, by how many there are.

    python -m experiments.many_devices --devices 1,10,100 --out results

Each device is a process that speaks as medn's agent does and answers after the time of a visit with made-up numbers;
everything on the host's side is real. Writes many_devices.{md,json}.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
import tempfile
import time
from pathlib import Path

from experiments.tables import markdown_table, write_tables
from medn.layer_generators.sweep import SweepConfig, parse_sweep
from medn.measuring.sweep import run_sweep
from medn.runs.folder import RunFolder

ROOT = Path(__file__).resolve().parents[1]


def config(devices: int, visit_s: float, points: int, visits: int) -> SweepConfig:
    agent = ["env", f"PYTHONPATH={ROOT}", sys.executable, str(ROOT / "experiments" / "simulated_agent.py")]
    python = shlex.join([*agent, "--visit-time", str(visit_s)])
    written = {
        "name": "many",
        "devices": [
            {"name": f"device{number}", "backend": "torch", "over": f"env DEVICE={number}", "python": python}
            for number in range(devices)
        ],
        "budget": {"points": points * devices},
        "layers": {"linear": {}},
        "measure": {"visits": visits, "max_visits": visits},
    }
    return parse_sweep(json.dumps(written))


def memory_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def measured(devices: int, visit_s: float, points: int, visits: int) -> dict[str, object]:
    ends: list[float] = []
    used: list[float] = []

    def note(*_: object) -> None:
        ends.append(time.monotonic())
        if len(used) < 2 or len(ends) == devices * points * visits:  # a look at each row would be most of the work
            used.append(time.process_time())

    with tempfile.TemporaryDirectory() as folder:
        outcome = run_sweep(config(devices, visit_s, points, visits), RunFolder(Path(folder) / "run"), on_visit=note)
    seconds = ends[-1] - ends[0]
    return {
        "devices": devices,
        "visit, ms": 1e3 * visit_s,
        "rows": len(ends),
        "rows a second": (len(ends) - 1) / seconds,
        "of what the devices could": "" if not visit_s else f"{(len(ends) - 1) / seconds * visit_s / devices:.2f}",
        "host's processor, cores": (used[-1] - used[0]) / seconds,
        "host's memory, MB": memory_bytes() / 1e6,
        "all there": outcome.finished,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--devices", default="1,10,100")
    parser.add_argument("--visit-time", type=float, default=0.1)
    parser.add_argument("--points", type=int, default=10)
    parser.add_argument("--visits", type=int, default=8)
    parser.add_argument("--out", type=Path, default=Path("results"))
    options = parser.parse_args()
    rows = []
    for devices in map(int, options.devices.split(",")):
        for visit_s in (options.visit_time, 0.0):
            rows.append(measured(devices, visit_s, options.points, options.visits))
            print(rows[-1], flush=True)
    about = {"points of each device": options.points, "visits to each": options.visits}
    write_tables(options.out, "many_devices", rows, about)
    print(markdown_table(rows))


if __name__ == "__main__":
    main()
