"""The quick way from queries to answers of one kind: programs, run by whichever engine is there.

None stands for what the ordinary way has to look at: a value of a type that is not plain, one that is not allowed, or a
formula that is no plain arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from medn.core.quantities import from_learned
from medn.core.table import Array
from medn.deployed.deployed import Deployed
from medn.estimator.columns import Given
from medn.estimator.prediction import Prediction
from medn.estimator.query_program import QueryPrograms
from medn.program.c_engine import CMachine, c_query
from medn.program.engines import Machine, machine
from medn.program.program import Program
from medn.program.symbols import NOT_TRACED, Symbol, traced

MOST_NAMES = 128
MOST_WAYS = 256
"""Choices of names that programs are made for and kept."""

TYPES = {int: "i", float: "f", bool: "b"}


class PredictedQuantities(NamedTuple):
    """What is predicted of a kind, and where the inputs of each stand among all inputs."""

    latency: Deployed
    further: Mapping[str, Deployed]
    places: Mapping[str, slice]
    """Of the further ones."""
    width: int

    def program(self, further: Sequence[str]) -> Program:
        """From inputs to latency, low, high, whether it is inside, and further quantities."""

        def formula(row: Symbol) -> list[Any]:
            own: Any = row[:, : len(self.latency.schema.names)]
            value, low, high, inside = self.latency.answer(own)
            learned = {name: self.further[name].answer(_part(row, self.places[name])).value for name in further}
            return [value, low, high, inside, *from_learned(value, learned).values()]

        return traced(self.width, formula)


def _part(row: Symbol, place: slice) -> Any:
    return row[:, place]


class Answering:
    """One layer or many of one kind, as programs; made at the first question, so that loading stays fast."""

    def __init__(self, programs: QueryPrograms, quantities: PredictedQuantities, level: float) -> None:
        self.programs = programs
        self.quantities = quantities
        self.names = programs.query.names
        self._places = {name: place for place, name in enumerate(self.names)}
        self._ways: dict[frozenset[str], Machine | None] = {}
        self._defaults = np.zeros(len(self.names))
        for name, default in programs.query.defaults.items():
            known = programs.strings.codes.get(name)
            self._defaults[self._places[name]] = float(default) if known is None else known.get(str(default), -1)
        self._said = lru_cache(MOST_WAYS)(self._completed)
        self.answers = cache(self._answers)
        """The machine for these further quantities, from inputs to answers; None where formulas cannot be traced."""
        self.level = level
        self.one = self._one()

    def _answers(self, further: tuple[str, ...]) -> Machine | None:
        try:
            return machine(self.quantities.program(further))
        except NOT_TRACED:
            return None

    def _one(self) -> Callable[[dict[str, Any]], Prediction | None]:
        """What answers one query: the C engine, or none but the ordinary way."""
        answers = self.answers(tuple(self.quantities.further))
        if not isinstance(answers, CMachine) or len(self.names) > MOST_NAMES:
            return lambda parameters: None
        meanings = [self.programs.meaning(name) for name in self.names]
        codes = tuple(self.programs.strings.codes.get(meant[0].name, {}) for meant in meanings)
        types = "".join(TYPES.get(meant[0].type) or ("s" if meant[0].choices else "t") for meant in meanings)
        defaults = Prediction._field_defaults["further"]
        found: Callable[[dict[str, Any]], Prediction | None] = c_query(
            self._places,
            types.encode(),
            self._defaults.tobytes(),
            codes,
            self._c_way,
            answers.machine,
            Prediction,
            float(self.level),
            tuple(self.quantities.further),
            defaults,
        )
        return found

    def _c_way(self, low: int, high: int) -> Any:
        found = self.way(low | high << 64)
        return found.machine if isinstance(found, CMachine) else None

    def _completed(self, mask: int) -> frozenset[str]:
        return self.programs.completed(name for name, place in self._places.items() if mask >> place & 1)

    def way(self, mask: int) -> Machine | None:
        """The program for the names with these bits, of which there is one for all that come to the same."""
        said = self._said(mask)
        if said not in self._ways:
            if len(self._ways) >= MOST_WAYS:
                return None
            try:
                self._ways[said] = machine(self.programs.program(said))
            except NOT_TRACED:
                self._ways[said] = None
        return self._ways[said]

    def inputs(self, given: Mapping[str, Given], rows: int, gaps: bool) -> tuple[Array, NDArray[np.bool_]] | None:
        """The inputs of all rows, one column each, and whether each row has what never varied."""
        mask, columns = 0, []
        for name, values in given.items():
            place = self._places.get(name)
            if place is None:
                return None
            column = self._numbers(name, values, gaps)
            if column is None:
                return None
            if not column.size:
                continue
            mask |= 1 << place
            columns.append((place, column))
        return self._run(mask, columns, rows)

    def _run(
        self, mask: int, columns: Sequence[tuple[int, Array]], rows: int
    ) -> tuple[Array, NDArray[np.bool_]] | None:
        way = self.way(mask)
        if way is None:
            return None
        matrix = np.repeat(self._defaults[:, None], rows, axis=1)
        for place, column in columns:
            matrix[place] = column
        found = way.run(matrix)
        return (found[2:], found[1] != 0) if found[0].all() else None

    def _numbers(self, name: str, values: Given, gaps: bool) -> Array | None:
        """A column as numbers, an empty one where nothing is said; None where Python has to look at it."""
        parameter = self.programs.meaning(name)[0]
        if not isinstance(values, np.ndarray):
            return self._number(parameter.name, parameter.type, values, gaps)
        kind = values.dtype.kind
        if kind in "iu" or (kind == "b" and parameter.type is bool):
            return None if parameter.type is str else values
        if kind == "f" and parameter.type is not str:
            return self._filled(parameter.name, values, np.isnan(values)) if gaps else values
        if kind not in "OU":
            return None
        listed = values.tolist()
        if parameter.type is str:
            return self._codes(parameter.name, listed)
        allowed = {int, float, type(None), *([bool] if parameter.type is bool else [])}
        if not set(map(type, listed)) <= allowed:
            return None
        try:
            numbers = np.array([np.nan if value is None else value for value in listed], dtype=np.float64)
        except OverflowError:
            return None
        gap = np.isnan(numbers) if gaps else np.array([value is None for value in listed])
        return self._filled(parameter.name, numbers, gap)

    def _filled(self, name: str, numbers: Array, gap: NDArray[np.bool_]) -> Array | None:
        """Defaults where nothing is said."""
        if not gap.any():
            return numbers
        if gap.all():
            return np.empty(0)
        default = self.programs.query.defaults.get(name)
        return None if default is None or isinstance(default, str) else np.where(gap, float(default), numbers)

    def _codes(self, name: str, values: list[Any]) -> Array | None:
        codes = self.programs.strings.codes[name]
        unsaid: set[Any] = {None, ""}
        try:
            different = set(values)
        except TypeError:  # a list or the like
            return None
        if different <= unsaid:
            return np.empty(0)
        if different & unsaid:
            default = self.programs.query.defaults.get(name)
            if not isinstance(default, str) or default not in codes:
                return None
            codes = {**codes, **dict.fromkeys(unsaid, codes[default])}
        any_string = not self.programs.query.parameters[name].choices
        if any(value not in codes and not (any_string and isinstance(value, str)) for value in different):
            return None
        return np.array([codes.get(value, -1) for value in values], dtype=np.float64)

    def _number(self, name: str, type_: type, value: Any, gaps: bool) -> Array | None:
        """A value that all rows have."""
        if value is None or value == "" or (gaps and value != value):
            return np.empty(0)
        if type_ is str:
            return self._codes(name, [value])
        if isinstance(value, bool) and type_ is not bool:
            return None
        try:
            return np.array([float(value)]) if isinstance(value, (bool, int, float)) else None
        except OverflowError:
            return None
