"""What formulas need beside the functions of NumPy, for arrays and for symbols alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from medn.program.numpy_engine import silu as numpy_silu
from medn.program.symbols import StepTable, Symbol, joined

Array = NDArray[np.float64]
"""What formulas are written for; a symbol stands in its place where they are traced."""


class Sums(Protocol):
    """A table that gives one number for each row of an array."""

    def sums(self, inputs: Array) -> Array: ...


Results = TypeVar("Results", bound=tuple[Any, ...])


def rows_of(inputs: Array, value: float) -> Array:
    """A column with the same number for every row of inputs."""
    if isinstance(inputs, Symbol):
        return inputs.tape.constant(value, 1)
    return np.full(len(inputs), value)


def beside(inputs: Array, constants: Array) -> Array:
    """The columns of inputs, and behind them numbers that are the same for every row."""
    if isinstance(inputs, Symbol):
        return joined(inputs.tape, [inputs, constants]) if len(constants) else inputs
    return np.concatenate([inputs, np.broadcast_to(constants, (len(inputs), len(constants)))], axis=1)


def rounded(values: Array) -> Array:
    """The nearest numbers that single precision holds."""
    if isinstance(values, Symbol):
        return values.tape.elementwise("rounded", values)
    return values.astype(np.float32).astype(np.float64)


def either(flags: Any, where: Callable[..., Results], elsewhere: Callable[..., Results], *given: Any) -> Results:
    """What one function says of the rows with a flag, and another of those without; each sees its own rows alone."""
    if isinstance(flags, Symbol):
        tape = flags.tape
        with tape.only_where(flags, True):
            first = where(*given)
        with tape.only_where(flags, False):
            second = elsewhere(*given)
        merged: Any = tuple(tape.elementwise("where", flags, *pair) for pair in zip(first, second, strict=True))
        return merged  # type: ignore[no-any-return]
    if flags.all():
        return where(*given)
    others = ~flags
    if others.all():
        return elsewhere(*given)
    parts = where(*(each[flags] for each in given)), elsewhere(*(each[others] for each in given))
    found: Any = tuple(np.empty((len(flags), *part.shape[1:]), dtype=part.dtype) for part in parts[0])
    for column, *pair in zip(found, *parts, strict=True):
        column[flags], column[others] = pair
    return found  # type: ignore[no-any-return]


def looked_up(table: NDArray[Any], places: NDArray[Any]) -> NDArray[Any]:
    """The row of a table at each place; a place that the table does not have stands for its last row."""
    if isinstance(places, Symbol):
        rows = np.ascontiguousarray(table.reshape(len(table), -1), dtype=np.float64)
        ndim = 1 if table.ndim == 1 else 2
        return places.tape.note("look_up", [places], rows.shape[1], ndim, data=StepTable("look_up", (rows,)))
    if places.dtype.kind == "i":  # places that were checked
        return np.asarray(table[places])
    last = len(table) - 1
    return np.asarray(table[np.where((places >= 0) & (places <= last), places, last).astype(np.intp)])


def dense(values: NDArray[Any], weight: NDArray[Any], bias: NDArray[Any]) -> NDArray[Any]:
    """The product with a matrix, and a row added."""
    if isinstance(values, Symbol):
        return values.dense(weight, bias)
    result: NDArray[Any] = values @ weight
    result += bias
    return result


def silu(values: NDArray[Any]) -> NDArray[Any]:
    """Each value times its sigmoid."""
    if isinstance(values, Symbol):
        # In double precision no step does this: networks compute in single.
        return values.tape.note("silu", [values.astype(np.float32)], values.width, 2, single=True)
    return numpy_silu(values)


def by_table(operation: str, inputs: Array, table: Sums) -> Array:
    """One number of each row that a table knows: each engine reads its arrays in a way of its own."""
    if isinstance(inputs, Symbol):
        return inputs.tape.note(operation, [inputs], 1, 1, data=StepTable(operation, (table,)))
    return table.sums(inputs)


def in_blocks(inputs: Array, formula: Callable[[Array], Array], rows: int) -> Array:
    """One number of each row by a formula, so many rows at a time, as what it makes of them takes much memory."""
    if isinstance(inputs, Symbol) or len(inputs) <= rows:
        return formula(inputs)
    step = max(1, rows)
    return np.concatenate([formula(inputs[start : start + step]) for start in range(0, len(inputs), step)])
