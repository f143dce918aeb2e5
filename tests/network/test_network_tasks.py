"""Tasks find their targets in a table, and switch themselves off where there are none."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from medn.core.table import Schema, Table
from medn.network.tasks import all_tasks, task_targets
from medn.regressors.distillation import taught
from medn.regressors.encoding import Encoding
from medn.regressors.fitted import Learned
from medn.regressors.forms.constant import Constant
from medn.regressors.networks import common_columns
from medn.regressors.regressor import Effort, Fitted

torch = pytest.importorskip("torch")


@pytest.fixture
def table() -> Table:
    random = np.random.default_rng(0)
    size, count = random.integers(1, 500, (2, 60)).astype(np.float64)
    inputs = np.column_stack([size, count, size * count, 4 * size, random.integers(0, 2, 60)])
    schema = Schema(("size", "count", "flops", "moved_bytes", "cache"), {"cache": ("hot", "cold")})
    return Table(schema, inputs, 1e-6 + 1e-9 * size * count, np.arange(60).astype(str))


def test_a_task_without_data_is_off(table: Table) -> None:
    assert set(task_targets(tuple(all_tasks()), table, table.inputs)) == {
        *("latency", "quantiles", "efficiency", "reconstruction")
    }


def test_a_task_whose_targets_are_all_unknown_is_off(table: Table) -> None:
    unknown = replace(table, further={"energy_j": np.full(60, np.nan)})
    assert set(task_targets(("energy",), unknown, table.inputs)) == {"latency"}


def test_a_target_that_is_not_positive_is_unknown(table: Table) -> None:
    some = replace(table, further={"memory_bytes": np.where(np.arange(60) % 2, 0.0, 100.0)})
    targets = task_targets(("memory",), some, table.inputs)["memory"]
    assert np.isnan(targets).sum() == 30


def test_no_row_is_more_efficient_than_the_best_rates(table: Table) -> None:
    assert task_targets(("efficiency",), table, table.inputs)["efficiency"].max() == pytest.approx(0.0, abs=1e-9)


def test_the_efficiency_needs_flops(table: Table) -> None:
    kept = [0, 1, 3, 4]
    schema = Schema(("size", "count", "moved_bytes", "cache"), table.schema.categories)
    without = replace(table, schema=schema, inputs=table.inputs[:, kept])
    assert set(task_targets(("efficiency",), without, without.inputs)) == {"latency"}


def always(seconds: float) -> Fitted:
    return Learned.from_form(Constant(float(np.log(seconds))))


def test_two_teachers_agree_on_the_mean_of_their_logarithms(table: Table) -> None:
    assert taught(table, [always(1.0), always(4.0)], 0.0, Effort()).target == pytest.approx(2.0)


def test_a_teacher_that_failed_does_not_count_against_two_that_did_not(table: Table) -> None:
    assert taught(table, [always(1.0), always(1.1), always(1e6)], 0.0, Effort()).target == pytest.approx(1.1)


def test_teachers_without_time_label_few_rows(table: Table) -> None:
    assert len(taught(table, [always(1.0)], 5.0, Effort(seconds=0.0))) == len(table)


def test_rows_between_two_rows_keep_products_and_categories(table: Table) -> None:
    mixed = taught(table, [always(1.0)], 2.0, Effort()).inputs[60:]
    assert len(mixed) == 120
    assert mixed[:, 2] == pytest.approx(mixed[:, 0] * mixed[:, 1], rel=1e-5)
    assert set(mixed[:, 4]) == {0.0, 1.0}
    assert mixed[:, 0].min() >= table.inputs[:, 0].min()
    assert mixed[:, 0].max() <= table.inputs[:, 0].max()


def test_columns_that_kinds_have_in_common_mean_the_same_to_both(table: Table) -> None:
    larger = replace(table, inputs=table.inputs * [8, 2, 16, 8, 1])
    encodings = {"a": Encoding.fit(table.schema, table.inputs), "b": Encoding.fit(table.schema, larger.inputs)}
    common = common_columns(encodings)
    row = np.array([[100.0, 100.0, 1e4, 400.0, 0.0]])
    seen = [
        encodings[kind].transform(row)[0, list(common[kind].columns)] * common[kind].factor + common[kind].shift
        for kind in ("a", "b")
    ]
    assert len(seen[0]) == 4
    assert seen[0] == pytest.approx(seen[1])
