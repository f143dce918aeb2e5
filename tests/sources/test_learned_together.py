"""One network for what was measured on known devices, as a new device sees it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from medn.core.table import Array, Schema, Table
from medn.layer_generators.kind import layer_kinds
from medn.regressors.forms.constant import Constant
from medn.regressors.regressor import Effort, regressors
from medn.regressors.shared_encoder import SharedEncoder
from medn.regressors.sources import Sources, with_sources
from medn.regressors.views import View
from medn.runs.inputs import InputChoice
from medn.runs.tables import KindTable
from medn.sources.device_rows import side_by_side
from medn.sources.learned_together import learn_together, read_network, save_network, seen_from

NAMES = ("in_features", "out_features", "batch_size", "flops", "moved_bytes", "peak_us", "multiprocessors")


def kind_table(device: str, speed: float, rows: int, seed: int, constant: bool = False) -> KindTable:
    """Layers of a device whose latency is a law of its own; the batch size may never vary."""
    random = np.random.default_rng(seed)
    wide, high = (np.exp(random.uniform(3, 7, rows)).round() for _ in range(2))
    batch = np.full(rows, 8.0) if constant else 2.0 ** random.integers(0, 6, rows)
    flops, moved = 2 * wide * high * batch, 4 * (wide * high + batch * (wide + high))
    columns = {"in_features": wide, "out_features": high, "flops": flops, "moved_bytes": moved}
    columns |= {"peak_us": flops / speed, "multiprocessors": np.full(rows, speed / 1e3)}
    columns |= {} if constant else {"batch_size": batch}
    seconds = 1e-5 + np.maximum(flops / speed / 1e6, moved / speed / 2e5) * np.where(high % 64 == 0, 0.7, 1.0)
    schema = Schema(tuple(columns))
    inputs = np.column_stack(list(columns.values())).astype(np.float32).astype(np.float64)
    table = Table(schema, inputs, seconds, np.array([f"layer {row}" for row in range(rows)]))
    constants = {"batch_size": 8} if constant else {}
    kind = layer_kinds["linear"]
    return KindTable(kind, table, InputChoice(), constants, {}, (), 0, None, None, devices=(device,))


@pytest.fixture(scope="module")
def shared() -> SharedEncoder:
    tables = {"old": kind_table("old", 1e3, 300, 1), "older": kind_table("older", 4e2, 300, 2)}
    found = learn_together(tables, seconds=60.0)
    assert found is not None
    return found


def test_only_what_says_the_same_on_all_devices_is_an_input(shared: SharedEncoder) -> None:
    assert "peak_us" not in shared.rows.schema.names
    assert "multiprocessors" not in shared.rows.schema.names
    assert {"in_features", "batch_size", "flops"} <= set(shared.rows.schema.names)


def test_a_column_that_never_varied_on_one_device_is_the_same_in_its_rows() -> None:
    rows = side_by_side({"a": kind_table("a", 1e3, 30, 1), "b": kind_table("b", 1e3, 20, 2, constant=True)})
    assert rows is not None
    batch = rows.inputs[:, rows.schema.index("batch_size")]
    assert set(batch[rows.device == 1]) == {8.0}
    assert len(set(batch[rows.device == 0])) > 1


def test_what_was_kept_comes_back(shared: SharedEncoder, tmp_path: Path) -> None:
    save_network(tmp_path / "linear.safetensors", shared)
    again = read_network(tmp_path / "linear.safetensors")
    assert again is not None
    assert again.key == shared.key
    inputs = shared.rows.inputs[:20].astype(np.float64)
    assert np.array_equal(again.represented(inputs), shared.represented(inputs))


def test_a_damaged_network_counts_as_none(tmp_path: Path) -> None:
    (tmp_path / "linear.safetensors").write_bytes(b"nothing of the sort")
    assert read_network(tmp_path / "linear.safetensors") is None
    assert read_network(tmp_path / "absent.safetensors") is None


def test_too_few_rows_are_no_network() -> None:
    assert learn_together({"old": kind_table("old", 1e3, 20, 1)}, seconds=5.0) is None
    assert learn_together({}, seconds=5.0) is None


def known_table(shared: SharedEncoder, found: KindTable) -> Table:
    """With a source that knows nothing, so that all comes from the network."""
    same = View.same(len(found.table.schema.names))
    return with_sources(found.table, Sources(("none",), (Constant(-8.0),), (same,), (0,), seen_from(shared, found)))


def error(log_values: Array, table: Table) -> float:
    return float(np.abs(np.expm1(log_values - np.log(table.target))).mean())


def test_few_rows_of_a_new_device_give_it_a_decoder(shared: SharedEncoder) -> None:
    table = known_table(shared, kind_table("new", 2e3, 200, 3))
    few, others = table.take(np.arange(12)), table.take(np.arange(12, 200))
    family = regressors["medn_across_devices"]
    form = family.fit(few, few.take(np.arange(0)), family.defaults, Effort()).export()
    mean = Constant(float(np.log(few.target).mean()))
    assert error(form.log_value(others.inputs), others) < 0.25 * error(mean.log_value(others.inputs), others)


def test_a_new_device_without_a_varying_column_is_seen_all_the_same(shared: SharedEncoder) -> None:
    found = kind_table("new", 2e3, 40, 3, constant=True)
    view = seen_from(shared, found).view
    batch = view.inputs(found.table.inputs)[:, shared.rows.schema.index("batch_size")]
    assert set(batch) == {8.0}


def test_without_rows_of_known_devices_it_says_what_to_give() -> None:
    found = kind_table("new", 2e3, 40, 3)
    same = View.same(len(found.table.schema.names))
    table = with_sources(found.table, Sources(("none",), (Constant(-8.0),), (same,), (0,)))
    family = regressors["medn_across_devices"]
    with pytest.raises(Exception, match="only their bundles are there"):
        family.fit(table, replace(table), family.defaults, Effort())
