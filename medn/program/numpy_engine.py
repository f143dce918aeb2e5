"""Programs run by NumPy, a step for all rows at a time: always there, and what the other engines are compared with.

Columns lie one below the other: a value is an array with a row for each of its numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medn.program.program import CONSTANT, INPUT, Program, ProgramStep

Array = NDArray[np.float64]


def _rounded(value: Any) -> Any:
    return np.asarray(value).astype(np.float32).astype(np.float64)


def _flag(comparison: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda first, second: comparison(first, second).astype(np.float64)


OPERATIONS: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "floor_divide": lambda first, second: np.floor(np.divide(first, second)),
    "remainder": lambda first, second: first - second * np.floor(np.divide(first, second)),
    "minimum": np.minimum,
    "maximum": np.maximum,
    "less": _flag(np.less),
    "less_equal": _flag(np.less_equal),
    "equal": _flag(np.equal),
    "where": lambda flag, first, second: np.where(flag != 0, first, second),
    "log": np.log,
    "log1p": np.log1p,
    "exp": np.exp,
    "sqrt": np.sqrt,
    "sin": np.sin,
    "cos": np.cos,
    "floor": np.floor,
    "rint": np.rint,
    "absolute": np.abs,
    "rounded": _rounded,
    "sum": lambda value: value.sum(axis=0, keepdims=True),
    "least": lambda value: value.min(axis=0, keepdims=True),
    "most": lambda value: value.max(axis=0, keepdims=True),
    "single": lambda value: value.astype(np.float32),
    "double": lambda value: value.astype(np.float64),
}
"""What needs nothing beside its values."""


def silu(values: NDArray[Any]) -> NDArray[Any]:
    """Each value times its sigmoid."""
    result: NDArray[Any] = np.negative(values)
    np.exp(result, out=result)
    result += 1
    np.divide(values, result, out=result)
    return result


class NumpyMachine:
    """A program, ready to be run."""

    engine = "NumPy"

    def __init__(self, program: Program) -> None:
        self.program = program
        self._last_use: dict[int, int] = {}
        for place, step in enumerate(program.steps):
            for argument in (*step.arguments, *([step.condition.flag] if step.condition else [])):
                self._last_use[argument] = place
        for place in program.outputs:
            self._last_use[place] = len(program.steps)
        self._ends: dict[int, list[int]] = {}
        for value, place in self._last_use.items():
            self._ends.setdefault(place, []).append(value)

    def run(self, columns: Array) -> Array:
        """One row of numbers for each output, of columns that are one row for each input."""
        rows = columns.shape[1]
        values: dict[int, Any] = {}
        with np.errstate(all="ignore"):  # who asks for the impossible is told so elsewhere
            for place, step in enumerate(self.program.steps):
                if step.condition and not self._needed(values[step.condition.flag], step.condition.truth):
                    values[place] = np.zeros((step.width, 1), dtype=np.float32 if step.single else np.float64)
                else:
                    values[place] = self._value(step, values, columns)
                for done in self._ends.get(place, ()):
                    del values[done]
        return np.concatenate([np.broadcast_to(values[p], (len(values[p]), rows)) for p in self.program.outputs])

    @staticmethod
    def _needed(flags: Array, truth: bool) -> bool:
        return bool((flags != 0).any() if truth else (flags == 0).any())

    @staticmethod
    def _value(step: ProgramStep, values: dict[int, Any], columns: Array) -> Any:
        if step.operation == INPUT:
            return columns
        if step.operation == CONSTANT:
            return step.data[:, None]
        arguments = [values[place] for place in step.arguments]
        plain = OPERATIONS.get(step.operation)
        if plain is not None:
            found = plain(*arguments)
            return found if len(found) == step.width else np.broadcast_to(found, (step.width, found.shape[1]))
        return WITH_DATA[step.operation](step.data, *arguments)


def _dense(data: Any, values: NDArray[Any]) -> NDArray[Any]:
    weight, bias = data.arrays
    result: NDArray[Any] = weight.T @ values
    result += bias[:, None]
    return result


def _join(data: Any, *parts: Array) -> Array:
    rows = max(part.shape[1] for part in parts)
    return np.concatenate([np.broadcast_to(part, (len(part), rows)) for part in parts])


def _look_up(data: Any, places: Array) -> Array:
    (table,) = data.arrays
    last = len(table) - 1
    whole = np.where((places[0] >= 0) & (places[0] <= last), places[0], last).astype(np.intp)
    return np.ascontiguousarray(table[whole].T)


def _sums(data: Any, values: Array) -> Array:
    found: Array = data.arrays[0].sums(np.ascontiguousarray(values.T))[None]
    return found


def _near_points(data: Any, values: Array) -> Array:
    points, function, *_ = data.arrays
    found: Array = points.map(np.ascontiguousarray(values.T), function)[None]
    return found


WITH_DATA: dict[str, Callable[..., Any]] = {
    "take": lambda places, values: values[places],
    "join": _join,
    "look_up": _look_up,
    "dense": _dense,
    "silu": lambda data, values: silu(values),
    "trees": _sums,
    "oblivious_trees": _sums,
    "kernel": _near_points,
    "nearest": _near_points,
}
