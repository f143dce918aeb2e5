"""A nest of loops becomes the numbers that stand for its time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from medn.programs.loops import COMPONENTS, NEST_SIZE, Access, Nest, amounts, components, nest_vectors, pieces
from medn.programs.programs import MeasuredPrograms
from medn.programs.rates import device_rates, fitted_rates

MATMUL = {
    "loops": [[1, 16, 1], [2, 64, 0], [3, 4, 0], [4, 8, 2]],
    "unroll": 16,
    "branches": 0,
    "operations": {"add": 1, "multiply": 1},
    "accesses": [
        [0, 2048, [32, 0, 8, 1], [16, 1, 4, 8], [0, 0, 0, 0]],
        [0, 2048, [32, 0, 8, 1], [16, 1, 4, 8], [0, 0, 0, 0]],
        [1, 4096, [64, 1, 0, 0], [16, 64, 1, 1], [0, 0, 0, 0]],
        [2, 8192, [0, 32, 8, 1], [1, 64, 4, 8], [0, 0, 0, 0]],
    ],
}
"""Rows in parallel, a reduction, and four vectors of eight in straight code."""


def nest(**changed: Any) -> Nest:
    return Nest.from_record({**MATMUL, **changed})


def told(of: Nest) -> dict[str, float]:
    return dict(zip(COMPONENTS, components(of), strict=True))


def test_straight_code_is_the_vector_and_what_may_be_written_out() -> None:
    assert nest().straight == 2
    assert nest(unroll=0).straight == 1
    assert nest(unroll=256).straight == 3  # loops in parallel stay loops
    assert (nest().lanes, nest(operations={"inner_choice": 1}).lanes) == (8, 1)


def test_what_is_stored_stays_in_registers_over_a_loop_that_reduces() -> None:
    assert told(nest())["stored_8"] == 16 * 4
    outside = [[4, 8, 0], [2, 64, 0], [3, 4, 0], [1, 8, 2]]
    moved = [
        [number, size, *([step[0], step[2], step[1], step[3]] for step in rest)]
        for number, size, *rest in MATMUL["accesses"]
    ]
    assert told(nest(loops=outside, accesses=moved, unroll=0))["stored_8"] > 16 * 4


def test_vectors_are_counted_in_registers_of_each_width() -> None:
    counted = told(nest())
    assert counted["arithmetic_8"] == 2 * 16 * 64 * 4
    assert counted["arithmetic_4"] == 2 * counted["arithmetic_8"]
    assert [pieces(lanes, 8) for lanes in (1, 8, 14, 15, 49)] == [1, 1, 3, 4, 7]


def test_a_loop_that_moves_nothing_is_run_once_around_straight_code_only() -> None:
    idle = [[9, 1000, 0], *MATMUL["loops"][2:]]
    accesses = [
        [number, size, *([first, *rest[2:]] for first, rest in zip((0, 1, 0), told, strict=True))]
        for number, size, *told in MATMUL["accesses"]
    ]
    without = nest(loops=MATMUL["loops"][2:], accesses=[[n, s, *(each[1:] for each in t)] for n, s, *t in accesses])
    assert components(nest(loops=idle, accesses=accesses)) == components(without)
    around_a_loop = nest(loops=idle, accesses=accesses, unroll=0)
    assert around_a_loop.runs == 1000 * without.runs


def test_windows_that_overlap_touch_what_lies_between() -> None:
    window = Access(0, 4096, [1, 1], [8, 3], [0, 0])
    assert window.touched(2) == (10, 2)  # it may begin anywhere in a line
    assert window.touched(1) == (3, 1)
    rows = Access(0, 4 * 10**6, [100, 100, 1], [7, 3, 3], [0, 0, 0])
    assert rows.touched(3)[0] == 9 * 3
    assert Access(0, 4 * 10**6, [1000], [50], [0]).touched(1) == (50, 50)


def test_less_is_fetched_into_a_larger_cache() -> None:
    fetched = [value for name, value in told(nest()).items() if name.startswith("fetched")]
    assert fetched == sorted(fetched, reverse=True)
    assert fetched[-1] == pytest.approx(2048 / 64 + 4096 / 64 + 8192 / 64, rel=0.1)


def test_every_nest_of_a_program_is_a_row(programs: MeasuredPrograms) -> None:
    for program in programs.programs:
        assert program.nests.shape[1] == NEST_SIZE
        assert len(program.nests) >= len(program.leaves)  # a sum is begun by one store and made by another
        assert np.isfinite(program.nests).all()
        assert (amounts(program.nests) > -1e-6).all()
    np.testing.assert_allclose(amounts(nest_vectors([nest()]))[0], components(nest()), rtol=1e-5, atol=1e-6)
    assert nest_vectors([]).shape == (0, NEST_SIZE)


def test_rates_are_found_again() -> None:
    random = np.random.default_rng(0)
    counted = np.exp(random.normal(size=(200, 3)) * 2 + 5)
    latency = counted @ np.array([1e-9, 5e-9, 2e-8])
    np.testing.assert_allclose(fitted_rates(counted, latency), [1e-9, 5e-9, 2e-8], rtol=0.1)


def test_a_device_with_few_rows_has_the_rates_of_all() -> None:
    random = np.random.default_rng(0)
    counted = np.exp(random.normal(size=(100, 3)))
    device = np.array([0] * 98 + [1] * 2)
    rates = device_rates(counted, counted.sum(axis=1), device, 2)
    assert rates.shape == (3, 3)
    np.testing.assert_array_equal(rates[1], rates[2])
