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

from medn.core.errors import NothingMeasured
from medn.core.statistic import Target, tail_latencies_s
from medn.core.values import Measurement, Scalar

Row = dict[str, Any]

OUTCOME_COLUMNS = (
    "point_key",
    "status",
    "reason",
    "latency_s",
    "latency_p90_s",
    "latency_p99_s",
    "cpu_s",
    "split_half_difference",
    "visits",
    "samples",
    "disturbed_share",
    "utilization_measured",
    "utilization_during",
    "memory_bytes",
    "memory_reason",
    "energy_j",
    "energy_reason",
    "output_error",
    "environment_id",
)
"""The columns of a row that were measured; all others describe what was asked for."""


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
    measured: Row = dict.fromkeys(OUTCOME_COLUMNS)
    measured |= {
        "point_key": measurement.point.key,
        "status": measurement.status,
        "reason": measurement.reason,
        "visits": len(good),
        "samples": sum(len(visit.samples) for visit in good),
        "memory_reason": measurement.visits[0].memory_reason,
        "energy_reason": measurement.visits[0].energy_reason,
        "output_error": measurement.output_error,
        "environment_id": "+".join(sorted({visit.environment_id for visit in measurement.visits})),
    }
    if good:
        tails = tail_latencies_s(measurement)
        measured |= {
            "latency_s": target.latency_s(measurement),
            "latency_p90_s": tails.get("p90"),
            "latency_p99_s": tails.get("p99"),
            "cpu_s": _lowest(float(visit.samples.cpu_s.min()) for visit in good),
            "split_half_difference": target.split_half_difference(measurement),
            "disturbed_share": sum(int(visit.samples.preempted.sum()) for visit in good) / measured["samples"],
        }
        for column in ("utilization_measured", "utilization_during", "memory_bytes", "energy_j"):
            measured[column] = _median(getattr(visit, column) for visit in good)
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
        known = {"medn.kind": kind, "medn.target": json.dumps(target.definition)}
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
    names = dict.fromkeys(name for row in rows for name in row)
    return [*(name for name in names if name not in OUTCOME_COLUMNS), *OUTCOME_COLUMNS]
