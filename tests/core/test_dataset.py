"""Tables made from measurements: one row per point, failed ones included, and every raw sample."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pyarrow.parquet
import pytest

from medn.core.dataset import dataset_row, write_parquet, write_samples
from medn.core.errors import NothingMeasured
from medn.core.quantities import measured_columns
from medn.core.statistic import Target
from medn.core.values import Condition, Layer, Measurement, Point, Samples, Visit, freeze


def visit(
    pass_number: int,
    *wall_s: float,
    preempted: bool = False,
    cpu_s: float | None = None,
    probes: Mapping[str, float] = MappingProxyType({}),
) -> Visit:
    cpu = np.array(wall_s) if cpu_s is None else np.full(len(wall_s), cpu_s)
    samples = Samples(np.array(wall_s), cpu, np.full(len(wall_s), preempted), calls_per_sample=2)
    return Visit("point", pass_number, f"machine-{pass_number % 2}", 0.0, "ok", samples=samples, probes=probes)


def measured(*visits: Visit, kind: str = "linear", **extra: str) -> Measurement:
    layer = Layer(kind, freeze({"in_features": 8, "bias": True}))
    return Measurement(Point(layer, Condition(batch_size=4, **extra), "torch"), visits)


def failed(kind: str = "linear") -> Measurement:
    return measured(Visit("point", 0, "machine-0", 0.0, "crashed", "the process died"), kind=kind)


def test_a_row_says_what_was_asked_and_what_came_of_it() -> None:
    row = dataset_row(measured(visit(0, 1.0, 1.0), visit(1, 1.0, 1.0), rack="A3"), Target())
    assert (row["device"], row["in_features"], row["batch_size"], row["rack"]) == ("torch", 8, 4, "A3")
    assert (row["status"], row["latency_s"], row["visits"], row["samples"]) == ("ok", 1.0, 2, 4)
    assert (row["split_half_difference"], row["environment_id"]) == (0.0, "machine-0+machine-1")


def test_a_failed_point_is_a_row_that_says_why() -> None:
    row = dataset_row(failed(), Target())
    assert (row["status"], row["reason"], row["latency_s"]) == ("crashed", "the process died", None)


def test_dropped_columns_are_not_there() -> None:
    assert "bias" not in dataset_row(measured(visit(0, 1.0)), Target(), drop=["bias"])


def test_upper_quantiles_count_disturbed_samples_and_the_latency_does_not() -> None:
    visits = [visit(number, 1.0) for number in range(5)] + [visit(9, 5.0, preempted=True) for number in range(5)]
    row = dataset_row(measured(*visits), Target())
    assert row["latency_s"] == 1.0
    assert row["latency_p90_s"] == 5.0
    assert row["latency_p99_s"] is None
    assert row["disturbed_share"] == 0.5


def test_probes_are_the_median_of_the_visits() -> None:
    visits = [visit(number, 1.0, probes={"heat": heat}) for number, heat in enumerate((1.0, 9.0, 2.0))]
    assert dataset_row(measured(*visits), Target())["heat"] == 2.0


def test_imported_rows_without_cpu_time_have_none() -> None:
    assert dataset_row(measured(visit(0, 1.0, cpu_s=math.nan)), Target())["cpu_s"] is None


def test_parquet_has_a_file_per_kind_and_names_the_target(tmp_path: Path) -> None:
    target = Target()
    files = write_parquet(tmp_path / "tables", [measured(visit(0, 1.0)), failed(), failed(kind="softmax")], target)
    assert [path.name for path in files] == ["linear.parquet", "softmax.parquet"]
    table = pyarrow.parquet.read_table(files[0])
    assert table["status"].to_pylist() == ["ok", "crashed"]
    assert table.column_names[-len(measured_columns()) :] == list(measured_columns())
    assert Target.from_definition(json.loads(table.schema.metadata[b"medn.target"])) == target


def test_a_column_that_only_some_rows_have_is_empty_in_the_others(tmp_path: Path) -> None:
    (file,) = write_parquet(tmp_path, [measured(visit(0, 1.0)), measured(visit(0, 1.0), rack="A3")], Target())
    assert pyarrow.parquet.read_table(file)["rack"].to_pylist() == [None, "A3"]


def test_there_is_no_table_of_nothing(tmp_path: Path) -> None:
    with pytest.raises(NothingMeasured):
        write_parquet(tmp_path, [], Target())


def test_every_sample_is_a_row(tmp_path: Path) -> None:
    path = write_samples(tmp_path / "samples.parquet", [measured(visit(0, 1.0, 2.0), visit(1, 3.0)), failed()])
    table = pyarrow.parquet.read_table(path).to_pydict()
    assert table == {
        "point_key": ["point"] * 3,
        "pass_number": [0, 0, 1],
        "wall_s": [1.0, 2.0, 3.0],
        "cpu_s": [1.0, 2.0, 3.0],
        "preempted": [False] * 3,
        "calls_per_sample": [2] * 3,
    }


def test_a_run_without_samples_has_an_empty_table(tmp_path: Path) -> None:
    assert pyarrow.parquet.read_table(write_samples(tmp_path / "samples.parquet", [failed()])).num_rows == 0
