"""The slow calls of a busy device: predicted p90 and p99 of layers nobody learned from, beside the measured ones.

    medn sweep loaded-layers
    medn train runs/loaded-layers --time 5m
    medn select runs/loaded-layers
    python -m experiments.tail_latency --run runs/loaded-layers --out results

Each prediction is asked of the bundle, as a program would. Beside its error stands that of taking the predicted latency
for the tail, which is what one has without it. Writes tail_latency.{md,json}.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import medn
from experiments.script import end_with
from experiments.tables import markdown_table, write_tables
from medn.choosing.evaluation import evaluate_run
from medn.core.conditions import CONDITIONS
from medn.core.errors import NothingMeasured
from medn.core.metrics import relative_errors
from medn.layer_generators.kind import layer_kinds
from medn.predictor.predictor import Predictor
from medn.runs.tables import read_source

TAILS = ("latency_p90_s", "latency_p99_s")
Row = dict[str, Any]


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    rows = run(options.run)
    about = {"errors": "per cent, mean over the test layers of the run", "run": options.run.name}
    write_tables(options.out, "tail_latency", rows, about)
    print(markdown_table(rows))
    return 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path, required=True, help="a run that was swept under load, trained and selected")
    parser.add_argument("--out", type=Path, default=Path("results"))
    return parser.parse_args(arguments)


def run(folder: Path) -> list[Row]:
    """One row for each kind, utilisation and tail."""
    measured = read_source(folder).rows
    judged = []
    for place in evaluate_run(folder):
        predictor = medn.load(folder / f"{folder.resolve().name}.medn", place.device)
        held_out = set(place.prepared.test.groups)
        rows = [row for row in measured[place.kind] if row["device"] == place.device and row["status"] == "ok"]
        own = [row for row in rows if _layer_key(place.kind, row) in held_out]
        for utilization in sorted({row["utilization"] for row in own}):
            busy = [row for row in own if row["utilization"] == utilization]
            judged += [row for tail in TAILS if (row := _judged(predictor, place.kind, busy, tail))]
    if not judged:
        raise NothingMeasured(f"no kind of {folder} has a tail: sweep more than one utilization, then train and select")
    return judged


def _layer_key(kind: str, row: Row) -> str:
    return layer_kinds[kind].layer(**{each.name: row[each.name] for each in layer_kinds[kind].parameters}).key


def _judged(predictor: Predictor, kind: str, rows: Sequence[Row], tail: str) -> Row | None:
    """The error of a tail over some rows; None where nothing is predicted or measured of it."""
    with_tail = [row for row in rows if row[tail] is not None]
    names = [*(each.name for each in layer_kinds[kind].parameters), *CONDITIONS]
    predicted = (
        predictor.predict({name: [row[name] for row in with_tail] for name in names}, kind) if with_tail else None
    )
    tail_s = predicted and getattr(predicted, tail)
    if predicted is None or tail_s is None:
        return None
    measured_s = np.array([row[tail] for row in with_tail])
    return {
        "kind": kind,
        "utilization": rows[0]["utilization"],
        "tail": tail.split("_")[1],
        "rows": len(with_tail),
        "measured over the latency": float(np.median(measured_s / [row["latency_s"] for row in with_tail])),
        "error %": 100 * float(relative_errors(tail_s, measured_s).mean()),
        "error of the latency taken for it %": 100 * float(relative_errors(predicted.latency_s, measured_s).mean()),
    }


if __name__ == "__main__":
    end_with(main)
