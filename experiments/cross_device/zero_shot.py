"""Nothing measured on the new device: its data sheet, and what devices with other sheets take.

What `medn adapt --points 0` makes of the bundle of the other devices and of the layers that they were measured at.
Beside it stand the rooflines fitted on the other devices, each with its rates scaled as the sheets say, in the mean;
and the time at the peaks times the factor that known devices take on average.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from experiments.cross_device.targets import measured_points, table_of, test_rows
from medn.adaptive.pool import Pair, PointPool
from medn.core.table import Array, Table
from medn.core.values import Measurement
from medn.predictor.predictor import Predictor
from medn.regressors.families.roofline import fit_plain_roofline
from medn.regressors.forms.roofline import Roofline
from medn.regressors.regressor import Effort
from medn.runs.tables import KindTable, read_source
from medn.sources.run_sources import KnownDevices
from medn.transfer.points import Places
from medn.transfer.zero_shot import zero_shot as from_sheets

ROOFLINE_ROWS = 1_000
"""Of each known device."""


class Known(NamedTuple):
    """Devices that are known: what predicts them, and where they were measured."""

    bundle: Path
    run: Path


def zero_shot(device: str, devices: Path, known: Known, seed: int) -> dict[str, Any]:
    """Errors on the test rows of a device, of the run `devices`, that known ones say something of."""
    sheet = read_source(devices).sheets[device]
    found = from_sheets(KnownDevices.read([known.bundle]), device, sheet, _pool(known.run, device), seed)
    ((kind, foreseen),) = found.kinds.items()
    table, measured = table_of(devices, device), measured_points(devices)
    test = [place for place in test_rows(table) if _is_forward(measured[table.points[place]], known.run != devices)]
    predictor = Predictor(found.bundle, device)
    names = predictor.estimator(kind).known_columns
    points = [measured[table.points[place]].point for place in test]
    rows = [{**point.layer.values, **point.condition.values} for point in points]
    columns = {name: [row[name] for row in rows] for name in rows[0] if name in names}
    answer, target = predictor.predict(columns, kind), table.table.take(np.array(test)).target
    relative = np.abs(answer.latency_s / target - 1)
    rooflines = _rooflines(table, np.array(test), known.run, list(foreseen.left_out), seed)
    return {
        "error": float(relative.mean()),
        "standard_error": float(relative.std() / np.sqrt(len(target))),
        "median": float(np.median(relative)),
        "chosen": "zero_shot",
        "families": {"zero_shot": float(relative.mean()), **rooflines},
        "promised": {"zero_shot": float(np.mean(list(foreseen.left_out.values())))},
        "left_out": dict(foreseen.left_out),
        "alone": None,
        "covered": float(((target >= answer.low_s) & (target <= answer.high_s)).mean()),
        "width": float(np.median((answer.high_s - answer.low_s) / answer.latency_s)),
        "bytes": foreseen.candidate.size_bytes,
        "failed": {},
        "rows": {"learned": 0, "test": len(target)},
    }


def _is_forward(measurement: Measurement, only_forward: bool) -> bool:
    """Whether a row can be compared with those of another table, which knows no backward passes."""
    return not only_forward or measurement.point.condition.values.get("pass", "forward") == "forward"


def _pool(run: Path, device: str) -> PointPool:
    """What the known devices were measured at."""
    pairs: dict[str, dict[Pair, None]] = {}
    for each in measured_points(run).values():
        if each.point.device != device:
            pairs.setdefault(each.point.layer.kind, {})[each.point.layer, each.point.condition] = None
    return PointPool({kind: list(own) for kind, own in pairs.items()}, frozenset(), (device,))


def _rooflines(table: KindTable, rows: Places, run: Path, others: Sequence[str], seed: int) -> dict[str, float]:
    """Errors of what needs no layers to be alike: the rates of known devices, each as so much of its sheet."""
    test = table.table.take(rows)
    logs = np.mean([_scaled(run, name, table, test, seed) for name in others], axis=0)
    known = [_some(table_of(run, name).table, seed) for name in others]
    factor = np.mean([np.median(np.log(own.target) - np.log(_peak_s(own))) for own in known])
    return {"roofline": _error(logs, test), "peaks": _error(np.log(_peak_s(test)) + factor, test)}


def _scaled(run: Path, name: str, table: KindTable, test: Table, seed: int) -> Array:
    """The roofline fitted on a known device, its rates scaled as the sheets of both say."""
    fitted, other = _fitted(run, name, seed), table_of(run, name)
    here, there = table.sheets[table.devices[0]], other.sheets[name]
    faster = np.log([here[number] / there[number] for number in ("peak_gflops", "bandwidth_gb_s")])
    law = replace(fitted.law, peak=fitted.law.peak + faster)
    columns = {name: test.column(name) for name in test.schema.names}
    missing = np.zeros(len(test))  # of columns that never varied on the new device, and say nothing of the work
    inputs = np.column_stack([columns.get(name, missing) for name in other.table.schema.names])
    return Roofline(fitted.columns, fitted.encoding, fitted.bounds, law).log_value(inputs)


@cache
def _fitted(run: Path, name: str, seed: int) -> Roofline:
    return fit_plain_roofline(_some(table_of(run, name).table, seed), Effort(60.0, seed))


def _peak_s(table: Table) -> Array:
    return np.maximum(table.column("peak_us"), 1e-3) * 1e-6


def _some(table: Table, seed: int) -> Table:
    return table.take(np.random.default_rng(seed).permutation(len(table))[:ROOFLINE_ROWS])


def _error(logs: Array, test: Table) -> float:
    return float(np.abs(np.exp(logs) / test.target - 1).mean())
