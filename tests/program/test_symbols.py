"""Formulas become programs: each value once, nothing that is not needed, and what decides is followed every way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from medn.program.c_engine import CMachine, is_built
from medn.program.formulas import either, looked_up, rows_of
from medn.program.numpy_engine import NumpyMachine
from medn.program.program import Program
from medn.program.symbols import Symbol, Tape, Untraceable, finished, traced

MACHINES = [NumpyMachine, pytest.param(CMachine, marks=pytest.mark.skipif(not is_built(), reason="no C engine"))]

Formula = Callable[[Any], list[Any]]


def operations(program: Program) -> list[str]:
    return [step.operation for step in program.steps]


def run(machine: Any, formula: Formula, inputs: Any) -> Any:
    program = traced(inputs.shape[1], formula)
    return machine(program).run(np.ascontiguousarray(inputs.T))


def test_what_is_computed_twice_is_one_step() -> None:
    program = traced(2, lambda x: [x[:, 0] * x[:, 1] + (x[:, 0] * x[:, 1]) * 2])
    assert operations(program).count("multiply") == 2


def test_what_no_result_needs_is_no_step() -> None:
    def formula(x: Any) -> list[Any]:
        np.exp(x)
        return [x[:, 0] + 1]

    assert "exp" not in operations(traced(2, formula))


def test_what_is_known_beforehand_is_no_step() -> None:
    program = traced(1, lambda x: [x[:, 0] * np.exp(np.log(x[:, 0].tape.constant(4.0)) * 0.5)])
    assert operations(program) == ["input", "constant", "multiply"]


def test_nothing_but_numbers_can_be_traced() -> None:
    with pytest.raises(Untraceable, match="str cannot be traced"):
        traced(1, lambda x: [x[:, 0] + "x"])


def test_a_symbol_is_no_key() -> None:
    with pytest.raises(TypeError):
        {Tape(1).input(): 1}


def test_what_decides_by_a_number_that_nobody_knows_is_not_traced() -> None:
    with pytest.raises(Untraceable, match="decides"):
        traced(1, lambda x: [1.0 if x[:, 0] > 2 else 0.0])


@pytest.mark.parametrize("machine", MACHINES)
def test_every_way_through_a_formula_is_followed(machine: Any) -> None:
    def grade(x: Any) -> str:
        if x > 10:
            return "large" if x % 2 else "large and even"
        return "small" if x < 3 else "middle"

    tape = Tape(1)
    number = Symbol(tape, tape.input()[:, 0].place, 1, 0)
    ways = tape.every_way(lambda: grade(number))
    assert sorted(name for _, name in ways) == ["large", "large and even", "middle", "small"]
    found = machine(finished(tape, [flag for flag, _ in ways])).run(np.arange(20.0)[None])
    assert (found.sum(axis=0) == 1).all()
    for column, value in zip(found.T, range(20), strict=True):
        assert ways[column.argmax()][1] == grade(value)


def test_a_formula_of_too_many_ways_is_left_to_python() -> None:
    tape = Tape(20)
    row = tape.input()

    def formula() -> list[bool]:
        return [bool(row[:, place] > 0) for place in range(20)]

    with pytest.raises(Untraceable, match="ways"):
        tape.every_way(formula)


FORMULAS: dict[str, Formula] = {
    "arithmetic": lambda x: [x + 2 * x - x / 3, x // 2.5, x % 2.5, -x, x**2, abs(x) ** 0.5],
    "comparisons": lambda x: [x < 1, x <= 1, x > 1, x >= 1, (x == 1) | (x != 2), ~(x > 0) & (x < 2)],
    "functions": lambda x: [np.log(abs(x) + 0.1), np.log1p(abs(x)), np.exp(x), np.sin(x), np.cos(x), np.floor(x)],
    "rounding": lambda x: [np.rint(x), np.ceil(x), np.copysign(abs(x), x), np.clip(x, -1, 1), np.logaddexp(x, 0.5)],
    "limits": lambda x: [np.minimum(x, 0.5), np.maximum(np.arange(4.0), x), np.where(x > 0, x, np.arange(4.0))],
    "rows": lambda x: [x.sum(axis=1), x.min(axis=1), x.max(axis=1), x.min(axis=1, initial=0.0), (x > 0).any(axis=1)],
    "columns": lambda x: [x[:, 2], x.take([3, 0], axis=1), x[:, 1:3], np.concatenate((x, x[:, :1]), axis=1)],
    "products": lambda x: [x @ np.arange(12.0).reshape(4, 3), x @ np.arange(4.0)],
    "tables": lambda x: [looked_up(np.arange(6.0).reshape(3, 2), np.floor(x[:, 0])), rows_of(x, 3.0)],
    "single": lambda x: [(x.astype(np.float32) @ np.eye(4, dtype=np.float32)).astype(np.float64)],
}


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("rows", [1, 3, 32, 101])
@pytest.mark.parametrize("name", FORMULAS)
def test_engines_compute_what_numpy_computes(name: str, rows: int, machine: Any) -> None:
    inputs = np.random.default_rng(rows).normal(0, 2, (rows, 4))
    inputs[0] = [1.0, 0.0, 2.0, -3.0]
    expected = [np.asarray(part, dtype=np.float64).reshape(rows, -1) for part in FORMULAS[name](inputs)]
    np.testing.assert_allclose(run(machine, FORMULAS[name], inputs).T, np.hstack(expected), rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("machine", MACHINES)
def test_strange_numbers_are_what_numpy_makes_of_them(machine: Any) -> None:
    numbers = np.array([0.0, -0.0, 1e-320, 5e-324, 1e308, np.inf, -np.inf, np.nan, -1.0, 750.0, -750.0, 1e7])[:, None]

    def formula(x: Any) -> list[Any]:
        return [np.log(x), np.exp(x), np.log1p(x), np.sin(x), np.maximum(x, 1.0), np.minimum(1.0, x), x < 1]

    with np.errstate(all="ignore"):
        expected = np.hstack([np.asarray(part, dtype=np.float64) for part in formula(numbers)])
    found = run(machine, formula, np.repeat(numbers, 3, axis=0)).T[::3]
    np.testing.assert_allclose(found, expected, rtol=1e-13)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_each_row_goes_its_own_way(machine: Any, share: float) -> None:
    inputs = np.random.default_rng(0).uniform(-1, 1, (100, 1)) + (2 * share - 1) * (share != 0.5)

    def formula(x: Any) -> list[Any]:
        column = x[:, 0]
        return list(either(column > 0, lambda y: (np.exp(y), y), lambda y: (y * y, -y), column))

    np.testing.assert_allclose(run(machine, formula, inputs), formula(inputs), rtol=1e-14)


def test_a_row_is_not_computed_that_nobody_needs() -> None:
    program = traced(1, lambda x: list(either(x[:, 0] > 0, lambda y: (np.exp(y),), lambda y: (np.sin(y),), x[:, 0])))
    conditions = {step.operation: step.condition for step in program.steps if step.operation in ("exp", "sin")}
    assert {name: found and found.truth for name, found in conditions.items()} == {"exp": True, "sin": False}
