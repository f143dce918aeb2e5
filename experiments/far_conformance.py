"""The layers of the conformance suite on a device elsewhere: which it runs, and how far its outputs are from torch's.

    python -m experiments.far_conformance --over "ssh orin" --backend onnxruntime --out results

Times mean nothing where the device is an emulator; outputs do. Writes far_conformance.{md,json}.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import Counter
from pathlib import Path

from experiments.tables import markdown_table, write_tables
from medn.core.environment import describe_environment
from medn.core.values import Condition, Point
from medn.devices.conformance import layers
from medn.layer_generators.kind import layer_kinds
from medn.layer_generators.sweep import parse_sweep
from medn.measuring.sweep import run_sweep
from medn.runs.folder import RunFolder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--over", required=True)
    parser.add_argument("--python", default="python3")
    parser.add_argument("--backend", default="onnxruntime")
    parser.add_argument("--layers", type=int, default=2, help="of each kind")
    parser.add_argument("--out", type=Path, default=Path("results"))
    options = parser.parse_args()
    device = {"name": "device", "backend": options.backend, "over": options.over, "python": options.python}
    measure = {"visits": 1, "max_visits": 1, "visit_time": 0.01, "timeout": 120}
    written = {"name": "conformance", "devices": [device], "layers": {"linear": {}}, "measure": measure}
    points = [
        Point(layer, Condition(batch_size=3), "device")
        for kind in layer_kinds.values()
        for layer in layers(kind)[: options.layers]
    ]
    plans = iter([points])
    with tempfile.TemporaryDirectory() as folder:
        run = RunFolder(Path(folder) / "run")
        run_sweep(
            parse_sweep(json.dumps(written)),
            run,
            next_points=lambda _: next(plans, ()),
            on_visit=lambda _, done, planned, point, visit: print(
                done, planned, point.layer.kind, visit.status, flush=True
            ),
            on_link=lambda *told: print(*told, flush=True),
        )
        with run.store() as store:
            measurements = list(store.measurements())
            machine = "; ".join(map(describe_environment, store.environments().values()))
    statuses = Counter(each.status for each in measurements)
    rows = [
        {"kind": each.point.layer.kind, "status": each.status, "output error": each.output_error, "reason": each.reason}
        for each in measurements
    ]
    about = {"device": machine, "layers": len(measurements), "statuses": dict(statuses)}
    about["largest output error"] = max((each.output_error or 0.0 for each in measurements), default=0.0)
    write_tables(options.out, "far_conformance", rows, about)
    print(markdown_table([row for row in rows if row["status"] != "ok"] or rows[:1]))
    print(about)


if __name__ == "__main__":
    main()
