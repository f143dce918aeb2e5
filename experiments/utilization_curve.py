"""Latency of one convolution and one linear layer against the utilisation of the device.

    python -m experiments.utilization_curve --out results

Writes utilization_curve.{png,md,json}; exits with 1 if the held utilisation is ever further than 0.05 from the target.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from pathlib import Path
from typing import Any

from experiments.tables import markdown_table, write_tables
from medn.core.statistic import Target, tail_latency_s
from medn.core.values import Condition, Measurement, Point
from medn.devices.backend import backends
from medn.devices.transport import Device
from medn.devices.visits import Visitor
from medn.layer_generators.kind import layer_kinds
from medn.layer_generators.sweep import Measure

LAYERS = {
    "conv2d 64->64 3x3 at 28x28": layer_kinds["conv2d"].layer(
        in_channels=64, out_channels=64, kernel_size=3, in_size=28, padding=1
    ),
    "linear 1024->1024, 64 rows": layer_kinds["linear"].layer(in_features=1024, out_features=1024, rows=64),
}
ASKED = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
ALLOWED_DIFFERENCE = 0.05


def measure_curve(visits: int, visit_time_s: float) -> list[dict[str, Any]]:
    """A row per layer and asked utilisation. Passes go over all of them in turn, so that drift hits all alike."""
    points = {
        (name, target): Point(layer, Condition(utilization=target), "torch")
        for target in ASKED
        for name, layer in LAYERS.items()
    }
    seen: dict[tuple[str, float], list[Any]] = {key: [] for key in points}
    options = Measure(visits=visits, visit_time=visit_time_s, precision=1e-6)
    with Visitor({"torch": Device(backends["torch"])}, options) as visitor:
        for pass_number in range(visits):
            for key, point in points.items():
                seen[key].append(visitor.visit(point, pass_number))
    rows = []
    for (name, target), made in seen.items():
        measurement = Measurement(points[name, target], tuple(made))
        held = statistics.median(visit.utilization_measured for visit in made)
        rows.append(
            {
                "layer": name,
                "asked": target,
                "held": round(held, 3),
                "got while competing": round(statistics.median(visit.utilization_during for visit in made), 3),
                "median ms": Target().latency_s(measurement) * 1e3,
                "p90 ms": 1e3 * (tail_latency_s(measurement, 0.9) or float("nan")),
            }
        )
    return rows


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(LAYERS), figsize=(11, 4.2), layout="constrained")
    for axis, name in zip(axes, LAYERS, strict=True):
        chosen = [row for row in rows if row["layer"] == name]
        held = [row["held"] for row in chosen]
        axis.plot(held, [row["median ms"] for row in chosen], marker="o", label="median")
        axis.plot(held, [row["p90 ms"] for row in chosen], marker="^", linestyle="--", label="90th percentile")
        axis.set(title=name, xlabel="held utilisation of the device", ylabel="latency in ms", ylim=(0, None))
        axis.grid(alpha=0.3)
        axis.legend()
    figure.savefig(path, dpi=130)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("results"))
    parser.add_argument("--visits", type=int, default=6)
    parser.add_argument("--visit-time", type=float, default=0.4, help="seconds per visit")
    options = parser.parse_args()
    rows = measure_curve(options.visits, options.visit_time)
    write_tables(
        options.out, "utilization_curve", rows, {"visits": options.visits, "seconds per visit": options.visit_time}
    )
    draw(rows, options.out / "utilization_curve.png")
    print(markdown_table(rows))
    # At 0 nothing is held: whatever is seen there belongs to others.
    worst = max(abs(row["held"] - row["asked"]) for row in rows if row["asked"] > 0)
    print(f"\nfurthest from the target utilisation: {worst:.3f} (allowed {ALLOWED_DIFFERENCE})")
    return 0 if worst <= ALLOWED_DIFFERENCE else 1


if __name__ == "__main__":
    sys.exit(main())
