"""What distance costs: visits a second over a pipe, ssh and a slow link, against the same layers on this machine.

    python -m experiments.remote_distance --seconds 20 --repeats 3 --out results

Every way measures the same layers in turn, repeat after repeat, and is told as a ratio to the local way of the same
repeat. Writes remote_distance.{md,json}.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from experiments.loopback_ssh import LoopbackSsh, Proxy, missing
from experiments.tables import markdown_table, write_tables
from medn.benches.measuring import PLAN
from medn.core.statistic import Target
from medn.layer_generators.sweep import SweepConfig, parse_sweep
from medn.measuring.sweep import run_sweep
from medn.runs.folder import RunFolder

DELAY_S = 0.02


def config(over: str | None) -> SweepConfig:
    entry = "onnxruntime"
    if over is not None:
        entry = f'{{name: onnxruntime, backend: onnxruntime, over: "{over}", python: {sys.executable}}}'
    return parse_sweep(PLAN.replace("DEVICE", entry))


def visits_per_second(over: str | None, seconds: float, folder: Path) -> tuple[float, float, dict[str, float]]:
    """After the first pass, in which layers are exported; the share of that time inside visits; latencies by point."""
    ends: list[float] = []
    spent: list[float] = []
    wanted = config(over)
    points = wanted.budget.points or 0

    def note(*told: Any) -> None:
        ends.append(time.monotonic())
        spent.append(told[-1].elapsed_s)

    def since_first_pass() -> float:
        return time.monotonic() - ends[points] if len(ends) > points else 0.0

    run = RunFolder(folder)
    run_sweep(wanted, run, seconds=seconds, on_visit=note, clock=since_first_pass)
    with run.store() as store:
        target = Target.from_definition(store.read_note("target"))
        latencies = {each.point.key: target.latency_s(each) for each in store.measurements() if each.status == "ok"}
    timed = ends[points:]
    seconds_timed = timed[-1] - timed[0]
    return (len(timed) - 1) / seconds_timed, sum(spent[points + 1 :]) / seconds_timed, latencies


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("results"))
    options = parser.parse_args()
    if reason := missing():
        sys.exit(reason)
    rates: dict[str, list[float]] = {}
    shares: dict[str, list[float]] = {}
    differences: dict[str, list[float]] = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        LoopbackSsh(Path(folder) / "sshd") as server,
        Proxy(server.port) as proxy,
    ):
        proxy.delay_s = DELAY_S
        ways = {
            "this machine": None,
            "a pipe": "env",
            "ssh": server.over(),
            f"ssh, {DELAY_S * 1e3:g} ms each way": server.over(proxy.port),
        }
        for repeat in range(options.repeats):
            local: dict[str, float] = {}
            for name, over in ways.items():
                rate, inside, latencies = visits_per_second(over, options.seconds, Path(folder) / f"{repeat}-{name}")
                rates.setdefault(name, []).append(rate)
                shares.setdefault(name, []).append(inside)
                local = local or latencies
                shared = [abs(latencies[key] / local[key] - 1) for key in latencies.keys() & local.keys()]
                differences.setdefault(name, []).append(statistics.median(shared))
                print(f"{name}: {rate:.1f} visits a second", flush=True)
    rows = [
        {
            "way": name,
            "visits a second": statistics.median(found),
            "of the local rate, each repeat": " / ".join(
                f"{rate / local:.2f}" for rate, local in zip(found, rates["this machine"], strict=True)
            ),
            "of the time inside visits": " / ".join(f"{inside:.3f}" for inside in shares[name]),
            "difference of latencies, median": f"{statistics.median(differences[name]):.1%}",
        }
        for name, found in rates.items()
    ]
    write_tables(options.out, "remote_distance", rows, {"seconds": options.seconds, "repeats": options.repeats})
    print(markdown_table(rows))


if __name__ == "__main__":
    main()
