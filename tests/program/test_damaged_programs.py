"""The C engine refuses programs that read outside, and runs what it accepts; the fuzzer says so of many."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments.fuzz.programs import fuzz
from medn.program.c_engine import CODES, FIELDS_OF_A_STEP, NODE, is_built

pytestmark = pytest.mark.skipif(not is_built(), reason="no C engine")


def step(operation: str, out: int, width: int, *values: tuple[int, int], table: int = -1) -> list[int]:
    fields = [number for value in (*values, *[(0, 1)] * (3 - len(values))) for number in value]
    return [CODES[operation], -1, 0, out, width, *fields, table]


def machine(*steps: list[int], constants: Any = (1.0,), tables: tuple[Any, ...] = (), outputs: Any = (4,)) -> Any:
    from medn.program import _engine  # type: ignore[attr-defined]

    code = np.array(steps, dtype=np.int64).reshape(-1, FIELDS_OF_A_STEP)
    places = np.array(outputs, dtype=np.int64)
    return _engine.Machine(2, 8, code, np.array(constants, dtype=np.float64), tables, places)


def test_a_good_program_runs() -> None:
    made, found = machine(step("add", 4, 1, (0, 1), (-1, 1))), np.empty((1, 3))
    made.run(np.arange(6.0).reshape(2, 3), found)
    assert found.tolist() == [[1.0, 2.0, 3.0]]


WALK = np.zeros(3, dtype=NODE)
WALK["right"] = [2, 1, 2]
WALK["threshold"] = [0.5, np.nan, np.nan]
WALK["value"] = [0.0, 1.0, 2.0]
ROOTS = np.zeros(1, dtype=np.int32)


def walk(field: str, place: int, value: float) -> Any:
    """A tree with one thing changed."""
    nodes = WALK.copy()
    nodes[field][place] = value
    return machine(step("trees", 4, 1, (0, 2), table=0), tables=(nodes, ROOTS))


def kernels(tiles: int, points: int, facts: int = 2, shape: float = 1.0) -> Any:
    """Kernels around two tiles of points with two numbers each, but for what is said otherwise."""
    tables = (np.ones(tiles), np.zeros(points), np.ones(64), np.array([1.0, shape])[:facts])
    return machine(step("kernel", 4, 1, (0, 2), table=0), tables=tables)


WRONG: dict[str, Callable[[], Any]] = {
    "an operation": lambda: machine([99, *step("add", 4, 1, (0, 1), (0, 1))[1:]]),
    "a result": lambda: machine(step("add", 8, 1, (0, 1), (0, 1))),
    "a result over inputs": lambda: machine(step("add", 1, 1, (0, 1), (0, 1))),
    "a wide result": lambda: machine(step("log", 7, 2, (0, 2))),
    "a value": lambda: machine(step("add", 4, 1, (0, 1), (8, 1))),
    "a value below zero": lambda: machine(step("add", 4, 1, (0, 1), (-(2**63), 1))),
    "a constant": lambda: machine(step("add", 4, 1, (0, 1), (-2, 1))),
    "widths": lambda: machine(step("add", 4, 2, (0, 2), (0, 3))),
    "an overlap": lambda: machine(step("log", 4, 2, (5, 2))),
    "an output": lambda: machine(step("add", 4, 1, (0, 1), (0, 1)), outputs=(8,)),
    "a table that is not there": lambda: machine(step("take", 4, 1, (0, 2), table=3)),
    "places": lambda: machine(step("take", 4, 1, (0, 2), table=0), tables=(np.array([2], dtype=np.int32),)),
    "no table": lambda: machine(step("look_up", 4, 1, (0, 1), table=0), tables=(np.empty(0),)),
    "a matrix": lambda: machine(step("dense_double", 4, 2, (0, 2), table=0), tables=(np.ones(3), np.ones(2))),
    "a tree that leads back": lambda: walk("right", 0, 0),
    "a tree that leads out": lambda: walk("right", 0, 9),
    "a tree of no feature": lambda: walk("feature", 0, 2),
    "a last node that is no leaf": lambda: walk("threshold", 2, 1.0),
    "a leaf below infinity": lambda: walk("threshold", 2, -np.inf),
    "a table behind all numbers": lambda: machine(step("kernel", 4, 1, (0, 2), table=2**63 - 1)),
    "a value that is not read": lambda: machine([*step("log", 4, 1, (0, 1))[:7], 2**62, 1, 0, 1, -1]),
    "tiles": lambda: kernels(tiles=127, points=64),
    "squares of points": lambda: kernels(tiles=128, points=63),
    "facts of kernels": lambda: kernels(tiles=128, points=64, facts=1),
    "points that fill no tile": lambda: machine(
        step("kernel", 4, 1, (0, 2), table=0), tables=(np.ones(80), np.ones(40), np.ones(40), np.ones(2))
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_program_that_would_read_outside_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="this is no program"):
        WRONG[name]()


@pytest.mark.parametrize("rows", [1, 40])
def test_walks_end_whatever_is_asked(rows: int) -> None:
    made, found = walk("value", 0, 0.0), np.empty((1, rows))
    for number, leaf in ((-np.inf, 1.0), (np.inf, 2.0), (np.nan, 2.0)):
        made.run(np.full((2, rows), number), found)
        assert found.tolist() == [[leaf] * rows]


@pytest.mark.parametrize("rows", [1, 40])
@pytest.mark.parametrize("shape", [0.0, 1.0])
def test_nothing_is_left_of_kernels_far_away_and_of_no_number_there_are_none(rows: int, shape: float) -> None:
    made, found = kernels(tiles=128, points=64, shape=shape), np.empty((1, rows))
    for far in (1e4, 1e9, 1e150):
        made.run(np.full((2, rows), far), found)
        assert (np.abs(found) < 1e-200).all()
    made.run(np.full((2, rows), np.nan), found)
    assert np.isnan(found).all()


def test_columns_that_do_not_fit_are_refused() -> None:
    made = machine(step("add", 4, 1, (0, 1), (0, 1)))
    for columns, results in (((1, 3), (1, 3)), ((2, 3), (1, 4)), ((2, 3), (2, 3))):
        with pytest.raises(ValueError, match="do not fit"):
            made.run(np.ones(columns), np.empty(results))


def test_damaged_programs_are_refused_or_run(bundle_path: Path) -> None:
    tried, accepted, findings = fuzz([bundle_path], seconds=0.0, seed=5, sanitize=False, at_once=1500)
    assert findings == []
    assert 0 < accepted < tried
