"""From the journal to tables: one row per point, its latency by the run's target, and Parquet files of them."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medn.core.calm import calm_visits
from medn.core.errors import NothingMeasured
from medn.core.quantities import LATENCY, all_quantities, measured_columns
from medn.core.statistic import Target
from medn.core.values import Measurement, Scalar

Row = dict[str, Any]

MEASURED_NOTE = "medn.measured"
"""Under which a Parquet file says which columns were measured, so that none is taken for an input elsewhere."""


def dataset_row(measurement: Measurement, target: Target, drop: Collection[str] = ()) -> Row:
    """One point as a row: what was asked for, the probes, and what was measured. A failed point says why."""
    point = measurement.point
    asked: dict[str, Scalar] = {"device": point.device, **point.layer.values, **point.condition.values}
    probes = {
        name: _median(visit.probes.get(name) for visit in measurement.visits) for name in measurement.visits[0].probes
    }
    inputs = {name: value for name, value in {**asked, **probes}.items() if name not in drop}
    return {**inputs, **_outcome(measurement, target)}


def _outcome(measurement: Measurement, target: Target) -> Row:
    good = measurement.good_visits
    measured: Row = dict.fromkeys(measured_columns())
    measured |= {
        "point_key": measurement.point.key,
        "status": measurement.status,
        "reason": measurement.reason,
        "visits": len(good),
        "calm_visits": calm_visits(measurement),
        "samples": sum(len(visit.samples) for visit in good),
        "output_error": measurement.output_error,
        "environment_id": "+".join(sorted({visit.environment_id for visit in measurement.visits})),
    }
    measured |= {each.reason_column: each.reason(measurement) for each in all_quantities().values() if not each.derive}
    if good:
        measured |= {each.name: each.of(measurement, target) for each in (LATENCY, *all_quantities().values())}
        measured |= {
            "cpu_s": _lowest(float(visit.samples.cpu_s.min()) for visit in good),
            "split_half_difference": target.split_half_difference(measurement),
            "disturbed_share": sum(int(visit.samples.preempted.sum()) for visit in good) / measured["samples"],
            "utilization_measured": _median(visit.utilization_measured for visit in good),
            "utilization_during": _median(visit.utilization_during for visit in good),
        }
    return measured


def _lowest(values: Iterable[float]) -> float | None:
    """The lowest of the numbers; imported rows have no CPU time, which is NaN in the samples."""
    return min((value for value in values if not math.isnan(value)), default=None)


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(statistics.median(known)) if known else None


def write_parquet(
    folder: Path,
    measurements: Iterable[Measurement],
    target: Target,
    drop: Collection[str] = (),
    notes: Callable[[str], Mapping[str, str]] = lambda kind: {},
) -> list[Path]:
    """One Parquet file per kind in `folder`, with the definition of the target and the kind's notes as metadata."""
    import pyarrow
    import pyarrow.parquet

    by_kind: dict[str, list[Row]] = {}
    for measurement in measurements:
        by_kind.setdefault(measurement.point.layer.kind, []).append(dataset_row(measurement, target, drop))
    if not by_kind:
        raise NothingMeasured(f"there is nothing to export to {folder}: no point has been measured yet")
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for kind, rows in by_kind.items():
        table = pyarrow.table({name: [row.get(name) for row in rows] for name in _columns(rows)})
        known = {
            "medn.kind": kind,
            "medn.target": json.dumps(target.definition),
            MEASURED_NOTE: json.dumps(measured_columns()),
        }
        table = table.replace_schema_metadata({**known, **notes(kind)})
        written.append(folder / f"{kind}.parquet")
        pyarrow.parquet.write_table(table, written[-1])
    return written


def write_samples(path: Path, measurements: Iterable[Measurement]) -> Path:
    """Every sample of every good visit, one row each, as it was measured."""
    import pyarrow
    import pyarrow.parquet

    visits = [visit for measurement in measurements for visit in measurement.good_visits]
    counts = [len(visit.samples) for visit in visits]

    def joined(name: str) -> NDArray[Any]:
        return np.concatenate([getattr(visit.samples, name) for visit in visits] or [np.empty(0)])

    columns = {
        "point_key": np.repeat([visit.point_key for visit in visits], counts),
        "pass_number": np.repeat([visit.pass_number for visit in visits], counts),
        "wall_s": joined("wall_s"),
        "cpu_s": joined("cpu_s"),
        "preempted": joined("preempted"),
        "calls_per_sample": np.repeat([visit.samples.calls_per_sample for visit in visits], counts),
    }
    pyarrow.parquet.write_table(pyarrow.table(columns), path)
    return path


def _columns(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Every column of any row, inputs before outcomes."""
    names, measured = dict.fromkeys(name for row in rows for name in row), measured_columns()
    return [*(name for name in names if name not in measured), *measured]
