"""What lies outside is flagged, and how far away it is."""

from __future__ import annotations

import json

import numpy as np
import pytest

from medn.core.learn_range import learn_range
from medn.core.outside import COMBINATION
from medn.core.ranges import MeasuredRange, matches_constants
from medn.core.table import Array, Schema, Table

SCHEMA = Schema(("size", "flops", "moved_bytes", "function"), {"function": ("relu", "tanh", "gelu")})


def law(inputs: Array) -> Array:
    """A made-up device: overhead, a peak and a bandwidth."""
    return 5e-6 + np.maximum(inputs[:, 1] / 5e10, inputs[:, 2] / 1e10)


def made_up(rows: int, seed: int, smallest: float = 16, largest: float = 512) -> Table:
    random = np.random.default_rng(seed)
    size = np.exp(random.uniform(np.log(smallest), np.log(largest), rows))
    inputs = np.column_stack([size, 2 * size**3, 12 * size**2, random.integers(0, 2, rows)])
    inputs = inputs.astype(np.float32).astype(np.float64)
    return Table(SCHEMA, inputs, law(inputs), np.arange(rows).astype(str))


@pytest.fixture(scope="module")
def learned() -> MeasuredRange:
    return learn_range(made_up(400, 0), made_up(100, 1))


def test_rows_of_the_same_origin_are_inside(learned: MeasuredRange) -> None:
    assert learned.in_range(made_up(500, 2).inputs).mean() > 0.95


@pytest.mark.parametrize(("smallest", "largest"), [(1024, 2048), (1, 8)])
def test_rows_beyond_a_column_are_outside(learned: MeasuredRange, smallest: float, largest: float) -> None:
    assert not learned.in_range(made_up(50, 3, smallest, largest).inputs).any()


def test_a_category_that_was_not_learned_is_outside(learned: MeasuredRange) -> None:
    inputs = made_up(20, 4).inputs
    for code in (2.0, -1.0):
        inputs[:, 3] = code
        assert not learned.in_range(inputs).any()


def test_a_combination_that_was_never_measured_is_outside(learned: MeasuredRange) -> None:
    strange = np.array([[20.0, 2e8, 12 * 400.0, 0.0]])
    assert (learned.low[:3] <= strange[0, :3]).all()
    assert (strange[0, :3] <= learned.high[:3]).all()
    assert not learned.in_range(strange).any()


def test_a_combination_that_was_never_measured_is_told_by_its_distance(learned: MeasuredRange) -> None:
    row = np.array([20.0, 2e8, 12 * 400.0, 0.0])
    (found,) = learned.outside(row, {})
    assert (found.name, found.high) == (COMBINATION, 1.0)
    assert found.value == pytest.approx(learned.distance(row[None])[0])


def test_distance_grows_with_distance(learned: MeasuredRange) -> None:
    distances = [learned.distance(made_up(1, 5, size, size * 1.0001).inputs)[0] for size in (600, 1200, 4800)]
    assert distances == sorted(distances)
    assert distances[-1] > 1


def test_clipping_leads_to_the_edge(learned: MeasuredRange) -> None:
    clipped = learned.clip(np.array([[4096.0, 1e12, 1e9, 2.0]]))
    assert clipped[0, 0] == learned.high[0]
    assert clipped[0, 3] in (0.0, 1.0)


@pytest.mark.parametrize("rows", [1, 3, 12])
def test_tiny_tables_have_a_range(rows: int) -> None:
    learned = learn_range(made_up(rows, 0), made_up(2, 1))
    assert learned.in_range(made_up(rows, 0).inputs).mean() >= 0.6
    assert np.isfinite(learned.distance(made_up(5, 2).inputs)).all()


def test_a_constant_column_admits_its_value_only() -> None:
    schema = Schema(("size", "batch_size"))
    inputs = np.column_stack([np.arange(1.0, 51.0), np.ones(50)])
    train = Table(schema, inputs, np.ones(50), np.arange(50).astype(str))
    learned = learn_range(train, train)
    assert learned.in_range(np.array([[25.0, 1.0], [25.0, 2.0]])).tolist() == [True, False]


def test_a_column_that_is_free_has_no_bounds() -> None:
    schema = Schema(("size", "size_mod_8"))
    size = np.arange(8.0, 58.0) * 8
    train = Table(schema, np.column_stack([size, np.zeros(50)]), size, np.arange(50).astype(str))
    row = np.array([[80.0, 4.0]])
    assert not learn_range(train, train).in_range(row).any()
    assert learn_range(train, train, free=["size_mod_8"]).in_range(row).all()


def test_few_rows_are_more_lenient_than_many() -> None:
    slacks = [learn_range(made_up(rows, 0), made_up(rows // 4, 1)).slack for rows in (16, 2000)]
    assert slacks[1] == 0.05 <= slacks[0] <= 0.15


def test_a_range_that_leaves_free_what_is_no_input_is_read(learned: MeasuredRange) -> None:
    written = {**learned.as_json(), "free": ["a column that never varied"]}
    assert MeasuredRange.from_json(written, learned.schema).free == ()


def test_a_range_survives_json(learned: MeasuredRange) -> None:
    again = MeasuredRange.from_json(json.loads(json.dumps(learned.as_json())), SCHEMA)
    rows = made_up(100, 8, 1, 4096).inputs
    np.testing.assert_array_equal(again.in_range(rows), learned.in_range(rows))
    np.testing.assert_allclose(again.distance(rows), learned.distance(rows))


def test_the_same_seed_gives_the_same_range(learned: MeasuredRange) -> None:
    again = learn_range(made_up(400, 0), made_up(100, 1))
    np.testing.assert_array_equal(again.centres, learned.centres)


def test_values_that_never_varied_must_match() -> None:
    columns = {"threads": np.array([1, 2, 1]), "cache": np.array(["hot", "hot", "cold"])}
    constants = {"threads": 1, "cache": "hot", "dtype": "fp32"}
    assert matches_constants(columns, constants, 3).tolist() == [True, False, False]


def pooled_table() -> Table:
    """Two devices; what the work takes at their peaks follows from both, as the inputs of data sheets do."""
    work = np.tile(np.geomspace(1e3, 1e6, 60), 2)
    device = np.repeat([0.0, 1.0], 60)
    at_peak = work / np.where(device == 0, 10.0, 1.0)
    schema = Schema(("flops", "peak_us", "device"), {"device": ("fast", "slow")})
    groups = np.array([str(number) for number in range(120)])
    return Table(schema, np.column_stack([work, at_peak, device]), at_peak / 1e6, groups)


def test_the_nearest_row_of_a_device_is_one_that_was_measured_on_it() -> None:
    """The slow device takes as long as the fast one would for ten times the work, which must not count twice."""
    table = pooled_table()
    known = learn_range(table, table)
    nearest = known.clip(np.array([[4e6, 4e5, 0.0], [4e6, 4e6, 1.0]]))
    assert nearest == pytest.approx(np.array([[1e6, 1e5, 0.0], [1e6, 1e6, 1.0]]))


def test_the_ends_of_devices_are_read_as_they_were_written() -> None:
    table = pooled_table()
    known = learn_range(table, table)
    read = MeasuredRange.from_json(json.loads(json.dumps(known.as_json())), table.schema)
    rows = np.array([[4e6, 4e5, 0.0], [1.0, 1.0, 1.0], [4e6, 4e6, -1.0]])
    assert (read.clip(rows) == known.clip(rows)).all()
    assert read.is_same(known)


@pytest.mark.parametrize("ends", [[[0.0, 0.0, 0.0]], [[0.0] * 3, [float("nan")] * 3], [[9e9] * 3] * 2, "many"])
def test_ends_of_devices_that_cannot_be_are_refused(ends: object) -> None:
    table = pooled_table()
    written = learn_range(table, table).as_json()
    written["device_ends"] = [ends, written["device_ends"][1]]
    with pytest.raises(ValueError, match=r"range|could not convert|inhomogeneous"):
        MeasuredRange.from_json(written, table.schema)
