"""Formulas written down while they run once: symbols in the place of numbers, each leaving a step behind.

A formula of plain arithmetic and NumPy functions runs alike on numbers, on columns and on symbols. `traced` gives it
symbols and keeps the steps as a program. Where a formula of Python decides something by a symbol, it is run again until
every way through it was taken (`every_way`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from medn.program.numpy_engine import OPERATIONS
from medn.program.program import CONSTANT, ELEMENTWISE, INPUT, OnlyWhere, Program, ProgramStep, pruned

Result = TypeVar("Result")

MOST_WAYS = 256
"""Through a formula that decides; one with more is left to Python."""

SMALL = 4096
"""Arrays up to so many bytes are known again by their content, larger ones by being the same array."""

NOTHING_DONE = {"add": 0.0, "subtract": 0.0, "multiply": 1.0, "divide": 1.0}
"""What as the second number leaves the first as it is."""


WITH_ITSELF = {"equal": 1.0, "less_equal": 1.0, "less": 0.0}
"""How a number compares with itself; one that is none is refused before."""


class Untraceable(TypeError):
    """A formula needs more than a program can do."""


NOT_TRACED = (Untraceable, TypeError, ValueError, AttributeError, ArithmeticError, LookupError)
"""What a formula may raise that was not written for symbols: all that goes wrong in it when it gets something else."""


class Tape:
    """The steps of one run, each once, and the decisions that are taken in it."""

    def __init__(self, inputs: int) -> None:
        self.steps: list[ProgramStep] = [ProgramStep(INPUT, (), inputs)]
        self._known: dict[Any, int] = {}
        self._kept: list[Any] = []
        """Arrays that are known by being the same, so that no other takes their place."""
        self.condition: OnlyWhere | None = None
        self._decisions: list[tuple[int, bool]] | None = None
        """Those that were taken on the way that is gone now."""
        self._forced: list[bool] = []

    def input(self) -> Symbol:
        """All numbers of a row."""
        return Symbol(self, 0, self.steps[0].width, 2)

    def constant(self, value: Any, ndim: int = 0, single: bool = False) -> Symbol:
        array = np.asarray(value, dtype=np.float32 if single else np.float64).ravel()
        return self.note(CONSTANT, (), array.size, ndim, data=array, single=single)

    def note(
        self,
        operation: str,
        arguments: Sequence[Symbol],
        width: int,
        ndim: int,
        data: Any = None,
        single: bool = False,
    ) -> Symbol:
        """The value of a step; the same step again is the same value."""
        places = tuple(each.place for each in arguments)
        what = (operation, places, width, single, self._content(data))
        unconditional = operation == CONSTANT or self.condition is None
        for condition in (None,) if unconditional else (None, self.condition):
            if (what, condition) in self._known:
                return Symbol(self, self._known[what, condition], width, ndim, single)
        condition = None if unconditional else self.condition
        self._known[what, condition] = len(self.steps)
        self.steps.append(ProgramStep(operation, places, width, single, data, condition))
        return Symbol(self, len(self.steps) - 1, width, ndim, single)

    def _content(self, data: Any) -> Any:
        if isinstance(data, np.ndarray) and data.nbytes <= SMALL:
            return (data.dtype.str, data.shape, data.tobytes())
        if data is None or isinstance(data, (int, float, str, tuple)):
            return data
        self._kept.append(data)
        return id(data)

    def constant_of(self, symbol: Symbol) -> float | None:
        """The number that a symbol always is, if it is one."""
        step = self.steps[symbol.place]
        return float(step.data[0]) if step.operation == CONSTANT and step.width == 1 else None

    @contextmanager
    def only_where(self, flags: Symbol, truth: bool) -> Iterator[None]:
        """The steps noted meanwhile are needed by rows with this flag alone."""
        if self.condition is not None:
            raise Untraceable("one condition stands inside another")
        self.condition = OnlyWhere(flags.place, truth)
        try:
            yield
        finally:
            self.condition = None

    def decide(self, symbol: Symbol) -> bool:
        known = self.constant_of(symbol)
        if known is not None:
            return bool(known)
        if self._decisions is None:
            raise Untraceable("a formula decides by a number that nobody knows yet")
        for place, truth in self._decisions:
            if place == symbol.place:
                return truth
        turn = len(self._decisions)
        truth = self._forced[turn] if turn < len(self._forced) else False
        self._decisions.append((symbol.place, truth))
        return truth

    def every_way(self, run: Callable[[], Result]) -> list[tuple[Symbol, Result]]:
        """What a formula gives on every way through it, with the flag that tells the rows that go it."""
        found: list[tuple[Symbol, Result]] = []
        waiting: list[list[bool]] = [[]]
        while waiting:
            if len(found) >= MOST_WAYS:
                raise Untraceable(f"more than {MOST_WAYS} ways lead through a formula")
            self._forced, self._decisions = waiting.pop(), []
            start = len(self._forced)
            try:
                result, taken = run(), self._decisions
            finally:
                self._decisions = None
            answers = [truth for _, truth in taken]
            waiting += [[*answers[:turn], True] for turn in range(start, len(taken))]
            flag: Any = self.constant(1.0)
            for place, truth in taken:
                is_zero = self.elementwise("equal", Symbol(self, place, 1, 0), 0.0)
                flag = flag & (~is_zero if truth else is_zero)
            found.append((flag, result))
        return found

    def elementwise(self, operation: str, *operands: Any) -> Symbol:
        if len(operands) != ELEMENTWISE[operation]:
            raise Untraceable(f"{operation} takes {ELEMENTWISE[operation]} values")
        first, *rest = operands
        if isinstance(first, Symbol) and operation in NOTHING_DONE and self._is(rest[0], NOTHING_DONE[operation]):
            return first
        single = any(isinstance(each, Symbol) and each.single for each in operands)
        symbols = [self._operand(each, single) for each in operands]
        widths = {each.width for each in symbols} - {1}
        if len(widths) > 1:
            raise Untraceable(f"values of {sorted(widths)} numbers cannot be put together")
        if any(each.single != single for each in symbols) or (single and operation not in ("add",)):
            raise Untraceable(f"{operation} is not for numbers in single precision")
        ndim = max(each.ndim for each in symbols)
        if operation in WITH_ITSELF and symbols[0].place == symbols[1].place:
            return self.constant(WITH_ITSELF[operation], ndim)
        steps = [self.steps[each.place] for each in symbols]
        if all(step.operation == CONSTANT for step in steps):
            with np.errstate(all="ignore"):
                return self.constant(OPERATIONS[operation](*(step.data for step in steps)), ndim)
        return self.note(operation, symbols, max(widths, default=1), ndim, single=single)

    @staticmethod
    def _is(value: Any, number: float) -> bool:
        return isinstance(value, (bool, int, float, np.generic)) and float(value) == number

    def _operand(self, value: Any, single: bool) -> Symbol:
        if isinstance(value, Symbol):
            return value
        if isinstance(value, (bool, int, float, np.generic)):
            return self.constant(float(value), 0, single)
        if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
            if value.ndim > 1 and value.shape[0] != 1:
                raise Untraceable("a constant must be the same for every row")
            return self.constant(value, 2 if value.ndim else 0, single)
        raise Untraceable(f"{type(value).__name__} cannot be traced")


class Symbol:
    """One or more numbers of every row that nobody knows yet. It has no hash and is no index: only arithmetic."""

    __slots__ = ("ndim", "place", "single", "tape", "width")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, tape: Tape, place: int, width: int, ndim: int, single: bool = False) -> None:
        self.tape = tape
        self.place = place
        self.width = width
        self.ndim = ndim
        """0 for a number of a formula that takes one layer, 1 for a column, 2 for several columns."""
        self.single = single

    def __bool__(self) -> bool:
        if self.width != 1:
            raise Untraceable("several numbers are neither true nor false")
        return self.tape.decide(self)

    def __format__(self, wanted: str) -> str:
        return "?"  # in a sentence about what is wrong, of which only that there is one counts

    def __neg__(self) -> Symbol:
        return self.tape.elementwise("subtract", 0.0, self)

    def __abs__(self) -> Symbol:
        return self.tape.elementwise("absolute", self)

    def __round__(self, digits: int | None = None) -> Symbol:
        if digits:
            raise Untraceable("numbers are rounded to whole ones only")
        return self.tape.elementwise("rint", self)

    def __invert__(self) -> Symbol:
        return self.tape.elementwise("equal", self, 0.0)

    def __pow__(self, exponent: Any) -> Symbol:
        if exponent == 0.5:
            return self.tape.elementwise("sqrt", self)
        if exponent == 2:
            return self.tape.elementwise("multiply", self, self)
        raise Untraceable("a power can be traced for the exponents 2 and 0.5")

    def __getitem__(self, key: Any) -> Symbol:
        """Of several columns: one (`[:, 3]`), some (`[:, 2:5]`), or one that stays several (`[:, 3, None]`)."""
        if not isinstance(key, tuple) or key[0] not in (slice(None), Ellipsis):
            raise Untraceable("rows cannot be picked by a formula")
        _, which, *more = key
        if which is None:
            return Symbol(self.tape, self.place, self.width, 2, self.single)
        if isinstance(which, (int, np.integer)):
            return self._taken([which], 2 if more else 1)
        return self._taken(np.arange(self.width)[which], 2)

    def take(self, places: Any, axis: int = 1) -> Symbol:
        return self._taken(places, 2)

    def _taken(self, places: Any, ndim: int) -> Symbol:
        chosen = np.asarray(places, dtype=np.int32).ravel()
        chosen = np.where(chosen < 0, chosen + self.width, chosen).astype(np.int32)
        if len(chosen) and not 0 <= chosen.min() <= chosen.max() < self.width:
            raise Untraceable("there is no such column")
        if np.array_equal(chosen, np.arange(self.width)):
            return Symbol(self.tape, self.place, self.width, ndim, self.single)
        if self.single:
            raise Untraceable("columns in single precision are not picked")
        step = self.tape.steps[self.place]
        if step.operation == CONSTANT:
            return self.tape.constant(step.data[chosen], ndim)
        return self.tape.note("take", [self], len(chosen), ndim, data=chosen)

    def __matmul__(self, weight: Any) -> Symbol:
        matrix = np.asarray(weight)
        columns = matrix.shape[1] if matrix.ndim == 2 else 1
        dtype = np.float32 if self.single else np.float64
        return self.dense(matrix.reshape(len(matrix), columns), np.zeros(columns, dtype), 2 if matrix.ndim == 2 else 1)

    def dense(self, weight: NDArray[Any], bias: NDArray[Any], ndim: int = 2) -> Symbol:
        """The product with a matrix, and a row added."""
        if weight.shape != (self.width, len(bias)):
            raise Untraceable("a matrix does not fit what it is multiplied with")
        dtype = np.float32 if self.single else np.float64
        data = (_kept(weight, dtype), _kept(bias, dtype))
        return self.tape.note("dense", [self], len(bias), ndim, data=StepTable("dense", data), single=self.single)

    def astype(self, dtype: Any) -> Symbol:
        """In single precision, or back in double."""
        single = np.dtype(dtype) == np.float32
        if single == self.single:
            return self
        return self.tape.note("single" if single else "double", [self], self.width, self.ndim, single=single)

    def copy(self) -> Symbol:
        return self

    def sum(self, axis: int = 1) -> Symbol:
        return self._reduced("sum", axis)

    def min(self, axis: int = 1, initial: float | None = None) -> Symbol:
        found = self._reduced("least", axis)
        return found if initial is None else self.tape.elementwise("minimum", found, initial)

    def max(self, axis: int = 1, initial: float | None = None) -> Symbol:
        found = self._reduced("most", axis)
        return found if initial is None else self.tape.elementwise("maximum", found, initial)

    def all(self, axis: int = 1) -> Symbol:
        return self._reduced("least", axis)

    def any(self, axis: int = 1) -> Symbol:
        return self._reduced("most", axis)

    def _reduced(self, operation: str, axis: int) -> Symbol:
        if axis not in (1, -1) or self.single:
            raise Untraceable("only the numbers of a row are put together, in double precision")
        if self.width == 1:
            return Symbol(self.tape, self.place, 1, 1)
        return self.tape.note(operation, [self], 1, 1)

    def looked_up(self, table: Mapping[str, float]) -> Symbol:
        raise Untraceable("a number is no name")

    def __array__(self, *arguments: Any, **options: Any) -> Any:
        raise Untraceable("a number that nobody knows yet is no array")

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        if method != "__call__" or options or ufunc.__name__ not in FUNCTIONS:
            raise Untraceable(f"{ufunc.__name__} cannot be traced")
        return FUNCTIONS[ufunc.__name__](self.tape, *inputs)

    def __array_function__(self, function: Any, types: Any, arguments: Any, options: Mapping[str, Any]) -> Any:
        if function is np.ndim:
            return self.ndim
        if function is np.where:
            return self.tape.elementwise("where", *arguments)
        if function is np.clip:
            value, low, high = arguments
            return np.minimum(np.maximum(value, low), high)
        if function is np.concatenate:
            return joined(self.tape, arguments[0])
        raise Untraceable(f"{function.__name__} cannot be traced")


class StepTable(NamedTuple):
    """Arrays of a step, which are equal where they are the same ones."""

    name: str
    arrays: tuple[Any, ...]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StepTable) and _sameness(self) == _sameness(other)

    def __hash__(self) -> int:
        return hash(_sameness(self))


def _sameness(table: StepTable) -> tuple[Any, ...]:
    return (table.name, *map(id, table.arrays))


def _kept(array: NDArray[Any], dtype: Any) -> NDArray[Any]:
    return np.ascontiguousarray(array, dtype=dtype)


def joined(tape: Tape, parts: Sequence[Any]) -> Symbol:
    """Columns side by side."""
    symbols = [tape._operand(each, False) for each in parts]
    if any(each.single for each in symbols):
        raise Untraceable("columns in single precision are not put side by side")
    return tape.note("join", symbols, sum(each.width for each in symbols), 2)


def _logaddexp(tape: Tape, first: Any, second: Any) -> Any:
    """The logarithm of a sum, from those of its terms."""
    return np.maximum(first, second) + np.log1p(np.exp(-abs(first - second)))


def _copysign(tape: Tape, size: Any, sign: Any) -> Symbol:
    return tape.elementwise("where", tape.elementwise("less", sign, 0.0), -size, size)


def _plain(operation: str) -> Callable[..., Symbol]:
    return lambda tape, *operands: tape.elementwise(operation, *operands)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{name: _plain(name) for name, count in ELEMENTWISE.items() if name not in ("where", "rounded")},
    "greater": lambda tape, first, second: tape.elementwise("less", second, first),
    "greater_equal": lambda tape, first, second: tape.elementwise("less_equal", second, first),
    "not_equal": lambda tape, first, second: ~tape.elementwise("equal", first, second),
    "bitwise_and": lambda tape, first, second: tape.elementwise("multiply", first, second),
    "logical_and": lambda tape, first, second: tape.elementwise("multiply", first, second),
    "bitwise_or": lambda tape, first, second: tape.elementwise("maximum", first, second),
    "logical_or": lambda tape, first, second: tape.elementwise("maximum", first, second),
    "invert": lambda tape, flags: ~flags,
    "logical_not": lambda tape, flags: ~flags,
    "negative": lambda tape, value: -value,
    "ceil": lambda tape, value: -tape.elementwise("floor", -value),
    "power": lambda tape, value, exponent: value**exponent,
    "logaddexp": _logaddexp,
    "copysign": _copysign,
}
"""What NumPy calls its functions, and the steps that each is."""

OPERATORS = {
    **{"add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide", "floordiv": "floor_divide"},
    **{"mod": "remainder", "and": "bitwise_and", "or": "bitwise_or"},
}
COMPARISONS = {
    **{"lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal", "eq": "equal", "ne": "not_equal"}
}


def _operator(name: str, swapped: bool = False) -> Callable[[Symbol, Any], Any]:
    function = FUNCTIONS[name]

    def method(self: Symbol, other: Any) -> Any:
        return function(self.tape, other, self) if swapped else function(self.tape, self, other)

    return method


for _name, _function in (OPERATORS | COMPARISONS).items():
    setattr(Symbol, f"__{_name}__", _operator(_function))
for _name, _function in OPERATORS.items():
    setattr(Symbol, f"__r{_name}__", _operator(_function, swapped=True))


def traced(width: int, formula: Callable[[Symbol], Sequence[Any]]) -> Program:
    """The program of a formula that makes some values of `width` numbers of a row. Raises `Untraceable`."""
    tape = Tape(width)
    return finished(tape, formula(tape.input()))


def finished(tape: Tape, results: Sequence[Any]) -> Program:
    """What was noted, as far as these results need it."""
    outputs = [tape._operand(each, False) for each in results]
    if any(each.single for each in outputs):
        raise Untraceable("results are in double precision")
    return pruned(tape.steps, [each.place for each in outputs])
