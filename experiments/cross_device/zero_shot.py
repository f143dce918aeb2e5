"""Nothing measured on the new device: its data sheet, and what devices with other sheets take.

One regressor learns all known devices together, told apart by the numbers of their data sheets and not by their names:
the latency itself, or how many times as long it is as at the peaks of the sheet. Which of the two is told by leaving
each known device out in turn, and so is how wide intervals must be.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from experiments.cross_device.targets import Cell, table_of, test_rows
from medn.core.table import Array, Table
from medn.regressors.families.lightgbm import LightGBM
from medn.regressors.regressor import Effort
from medn.runs.inputs import InputChoice
from medn.runs.tables import kind_table, read_source

ROWS = 1_000
"""Of each known device, in every fit."""

SETTINGS = {**LightGBM.defaults, "learning_rate": 0.1, "num_leaves": 31}
TREES = 300
LEVEL = 0.9
PEAK = "peak_us"
TARGETS = ("log latency", "log of latency over peak time")


def zero_shot(cell: Cell, devices: Path) -> dict[str, Any]:
    """Errors on the test rows of the new device, by either target, and of the one that known devices speak for."""
    source = read_source(devices)
    (kind,) = source.rows
    found = kind_table(source, kind, choice=InputChoice(drop=("device",)))
    every, device_of = found.table, {row["point_key"]: row["device"] for row in source.rows[kind]}
    names = np.array([device_of[point] for point in found.points])
    known = [name for name in sorted(set(names)) if name != cell.device]
    some = {name: _some(every.take(names == name), cell.seed) for name in known}
    left_out: dict[str, list[Array]] = {target: [] for target in TARGETS}
    for name in known:
        others = [some[other] for other in known if other != name]
        for target in TARGETS:
            logs = _fitted(others, target, cell.seed)(some[name])
            left_out[target].append(np.log(some[name].target) - logs)
    errors = {target: float(np.mean([_error(own) for own in found])) for target, found in left_out.items()}
    chosen = min(errors, key=errors.__getitem__)
    wide = float(np.quantile(np.abs(np.concatenate(left_out[chosen])), LEVEL))
    new = every.take(names == cell.device)
    test = new.take(test_rows(table_of(devices, cell.device)))
    logs = {target: _fitted(list(some.values()), target, cell.seed)(test) for target in TARGETS}
    off = np.log(test.target) - logs[chosen]
    relative = np.abs(np.expm1(-off))
    return {
        "error": float(relative.mean()),
        "standard_error": float(relative.std() / np.sqrt(len(off))),
        "median": float(np.median(relative)),
        "chosen": chosen,
        "families": {target: _error(np.log(test.target) - own) for target, own in logs.items()},
        "promised": errors,
        "alone": None,
        "covered": float((np.abs(off) <= wide).mean()),
        "width": float(2 * np.sinh(wide)),
        "bytes": 0,
        "failed": {},
        "rows": {"learned": sum(map(len, some.values())), "test": len(test)},
    }


def _some(table: Table, seed: int) -> Table:
    return table.take(np.random.default_rng(seed).permutation(len(table))[:ROWS])


def _fitted(tables: list[Table], target: str, seed: int) -> Any:
    """What gives the logarithm of the latency of other rows."""
    joined = Table(
        tables[0].schema,
        np.concatenate([each.inputs for each in tables]),
        np.concatenate([each.target for each in tables]),
        np.concatenate([each.groups for each in tables]),
    )
    over_peak = target == TARGETS[1]
    learned = replace(joined, target=joined.target / _peak(joined)) if over_peak else joined
    fitted = LightGBM().fit(learned, learned.take(np.arange(0)), SETTINGS, Effort(600.0, seed, steps=TREES))

    def logs(table: Table) -> Array:
        own = np.log(fitted.predict(table.inputs))
        return np.asarray(own + np.log(_peak(table)) if over_peak else own)

    return logs


def _peak(table: Table) -> Array:
    return np.maximum(table.column(PEAK), 1e-3) * 1e-6


def _error(off: Array) -> float:
    """Of logarithms measured less predicted."""
    return float(np.abs(np.expm1(-off)).mean())
