"""How well layers repeat at utilisation 0 while another program keeps one core busy.

    python -m experiments.noise_floor --out results

Random convolutions, linear layers and poolings, eight visits each in passes over all of them; every candidate for the
target is scored by its split-half repeatability. Writes noise_floor.{md,json}.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from experiments.tables import markdown_table, write_tables
from medn.core.calm import calm_visits
from medn.core.statistic import NoiseFloor
from medn.core.store import Store
from medn.core.units import percent
from medn.layer_generators.sweep import parse_sweep
from medn.measuring.sweep import run_sweep
from medn.runs.folder import RunFolder
from medn.runs.measured import read_measured
from medn.runs.summary import summarise

CONFIG = """
name: noise-floor
seed: 7
devices: [torch]
budget: {{points: {points}}}
layers: {{conv2d: {{share: 2}}, linear: {{}}, max_pool2d: {{}}}}
conditions: {{batch_size: [1, 4], per_layer: 1}}
limits: {{flops: 1.0e+9, memory_bytes: 1.0e+8}}
measure: {{visits: {visits}, max_visits: {visits}, visit_time: {visit_time}}}
"""

OTHERS = {
    "compute": "while True: sum(range(10_000))",
    "memory": "buffer = bytes(48_000_000)\nwhile True: buffer = buffer[::-1]",
}
"""The other program: one that only computes, or one that also walks through more memory than the caches hold."""


def noise_apart(store: Store) -> dict[str, str]:
    """The noise floor of the points that were never calm, and that of the others."""
    measurements, chosen = read_measured(store)
    apart: dict[str, list[float]] = {"noise, never calm": [], "noise, the others": []}
    for measurement in measurements:
        difference = chosen.target.split_half_difference(measurement)
        if difference is not None:
            apart["noise, never calm" if calm_visits(measurement) == 0 else "noise, the others"].append(difference)
    floors = {name: NoiseFloor.of(differences) for name, differences in apart.items()}
    return {
        name: f"{percent(floor.median)} median, {percent(floor.mean)} mean of {floor.points} points"
        for name, floor in floors.items()
        if floor
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("results"))
    parser.add_argument("--points", type=int, default=120)
    parser.add_argument("--visits", type=int, default=8)
    parser.add_argument("--visit-time", type=float, default=0.05, help="seconds per visit")
    parser.add_argument("--other", choices=[*OTHERS, "none"], default="compute", help="what the other program does")
    options = parser.parse_args()
    written = CONFIG.format(points=options.points, visits=options.visits, visit_time=options.visit_time)
    other = None if options.other == "none" else subprocess.Popen([sys.executable, "-c", OTHERS[options.other]])
    try:
        with tempfile.TemporaryDirectory() as folder:
            run = RunFolder(Path(folder))
            run_sweep(parse_sweep(written), run)
            with run.store() as store:
                summary = summarise(store)
                apart = noise_apart(store)
    finally:
        if other:
            other.kill()
            other.wait()
    rows = [
        {"statistic": name, "median %": floor.median * 100, "mean %": floor.mean * 100}
        for name, floor in summary.repeatability.items()
    ]
    about = {
        "points": summary.points,
        "visits per point": options.visits,
        "seconds per visit at most": options.visit_time,
        "another busy program": options.other,
        "chosen": str(summary.target.idle),
        "share of disturbed samples": round(summary.disturbed_samples, 4),
        "calm visits": summary.calm_visits,
        **apart,
    }
    write_tables(options.out, "noise_floor", rows, about)
    print(markdown_table(rows), *(f"{name}: {value}" for name, value in about.items()), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
