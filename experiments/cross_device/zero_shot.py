"""Nothing measured on the new device: its data sheet, and what devices with other sheets take.

What `medn adapt --points 0` makes of the bundle of the other devices and of the layers that they were measured at.
Beside it stand the rooflines fitted on the other devices, each with its rates scaled as the sheets say, in the mean;
and the time at the peaks times the factor that known devices take on average.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from experiments.cross_device.targets import Cell, measured_points, table_of, test_rows
from medn.adaptive.pool import Pair, PointPool
from medn.core.table import Array, Table
from medn.core.values import Measurement
from medn.predictor.predictor import Predictor
from medn.regressors.families.roofline import fit_plain_roofline
from medn.regressors.forms.roofline import Roofline
from medn.regressors.regressor import Effort
from medn.runs.tables import KindTable, read_source
from medn.sources.run_sources import KnownDevices
from medn.transfer.zero_shot import zero_shot as from_sheets

ROOFLINE_ROWS = 1_000
"""Of each known device."""


def zero_shot(cell: Cell, devices: Path, sources: Path) -> dict[str, Any]:
    """Errors on the test rows of the new device."""
    sheet = read_source(devices).sheets[cell.device]
    known = KnownDevices.read([sources])
    measured = measured_points(devices)
    found = from_sheets(known, cell.device, sheet, _pool(measured, cell.device), cell.seed)
    (foreseen,) = found.kinds.values()
    table = table_of(devices, cell.device)
    test = [measured[table.points[place]].point for place in test_rows(table)]
    target = table.table.take(test_rows(table)).target
    answer = Predictor(found.bundle, cell.device).predict(
        [(point.layer, point.condition) for point in test], table.kind
    )
    others = list(foreseen.left_out)
    relative = np.abs(answer.latency_s / target - 1)
    return {
        "error": float(relative.mean()),
        "standard_error": float(relative.std() / np.sqrt(len(target))),
        "median": float(np.median(relative)),
        "chosen": "zero_shot",
        "families": {"zero_shot": float(relative.mean()), **_rooflines(table, devices, others, cell.seed)},
        "promised": {"zero_shot": float(np.mean(list(foreseen.left_out.values())))},
        "left_out": dict(foreseen.left_out),
        "alone": None,
        "covered": float(((target >= answer.low_s) & (target <= answer.high_s)).mean()),
        "width": float(np.median((answer.high_s - answer.low_s) / answer.latency_s)),
        "bytes": foreseen.candidate.size_bytes,
        "failed": {},
        "rows": {"learned": 0, "test": len(target)},
    }


def _pool(measured: Mapping[str, Measurement], device: str) -> PointPool:
    """What the other devices were measured at."""
    pairs: dict[str, dict[Pair, None]] = {}
    for each in measured.values():
        if each.point.device != device:
            pairs.setdefault(each.point.layer.kind, {})[each.point.layer, each.point.condition] = None
    return PointPool({kind: list(own) for kind, own in pairs.items()}, frozenset(), (device,))


def _rooflines(table: KindTable, devices: Path, others: Sequence[str], seed: int) -> dict[str, float]:
    """Errors of what needs no layers to be alike: the rates of known devices, each as so much of its sheet."""
    test = table.table.take(test_rows(table))
    logs = np.mean([_scaled(devices, name, table, test, seed) for name in others], axis=0)
    known = [_some(table_of(devices, name).table, seed) for name in others]
    factor = np.mean([np.median(np.log(own.target) - np.log(_peak_s(own))) for own in known])
    return {"roofline": _error(logs, test), "peaks": _error(np.log(_peak_s(test)) + factor, test)}


def _scaled(devices: Path, name: str, table: KindTable, test: Table, seed: int) -> Array:
    """The roofline fitted on a known device, its rates scaled as the sheets of both say."""
    fitted, other = _fitted(devices, name, seed), table_of(devices, name)
    here, there = table.sheets[table.devices[0]], other.sheets[name]
    faster = np.log([here[number] / there[number] for number in ("peak_gflops", "bandwidth_gb_s")])
    law = replace(fitted.law, peak=fitted.law.peak + faster)
    columns = {name: test.column(name) for name in test.schema.names}
    missing = np.zeros(len(test))  # of columns that never varied on the new device, and say nothing of the work
    inputs = np.column_stack([columns.get(name, missing) for name in other.table.schema.names])
    return Roofline(fitted.columns, fitted.encoding, fitted.bounds, law).log_value(inputs)


@cache
def _fitted(devices: Path, name: str, seed: int) -> Roofline:
    return fit_plain_roofline(_some(table_of(devices, name).table, seed), Effort(60.0, seed))


def _peak_s(table: Table) -> Array:
    return np.maximum(table.column("peak_us"), 1e-3) * 1e-6


def _some(table: Table, seed: int) -> Table:
    return table.take(np.random.default_rng(seed).permutation(len(table))[:ROOFLINE_ROWS])


def _error(logs: Array, test: Table) -> float:
    return float(np.abs(np.exp(logs) / test.target - 1).mean())
