"""From a query to the inputs of forms, as a program: what is said is opened, checked and put into the kind's formulas.

Which names are said decides what stands for the others, so there is a program for each choice of names, made when it is
asked for first. A program tells of every row whether all of it is allowed; what is not goes the ordinary way, which
finds the sentence for it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from medn.core.data_sheet import Sheet
from medn.core.parameters import LARGEST, Parameter
from medn.core.ranges import matching_bounds
from medn.core.table import Schema
from medn.core.values import Scalar
from medn.estimator.query import Query
from medn.estimator.rules import keeps_rules
from medn.layer_generators.features import analytic_features
from medn.program.formulas import looked_up
from medn.program.program import Program
from medn.program.symbols import Symbol, Tape, Untraceable, finished, joined

UNKNOWN = "\0"
"""Stands for every string that is not known, where any is allowed: the last one is what places outside stand for."""

LARGEST_INPUT = float(np.finfo(np.float32).max)


class Text(Symbol):
    """One of several strings, as its place among them."""

    __slots__ = ("texts",)

    def __init__(self, symbol: Symbol, texts: Sequence[str]) -> None:
        super().__init__(symbol.tape, symbol.place, 1, 0)
        self.texts = texts

    def looked_up(self, table: Mapping[str, float]) -> Symbol:
        numbers = np.array([table.get(text, np.nan) for text in self.texts])
        place: Any = Symbol(self.tape, self.place, 1, 0)
        found: Any = looked_up(numbers, place)
        return Symbol(self.tape, found.place, 1, 0)

    def __eq__(self, other: object) -> Any:
        return self.looked_up({text: float(text == other) for text in self.texts})

    def __ne__(self, other: object) -> Any:
        return self.looked_up({text: float(text != other) for text in self.texts})


class Strings:
    """The strings that each parameter may be, as numbers; -1 is one that nobody knows."""

    def __init__(self, query: Query, schemas: Collection[Schema], constants: Mapping[str, Scalar]) -> None:
        self.texts: dict[str, list[str]] = {}
        self.codes: dict[str, dict[str, int]] = {}
        for name, parameter in query.parameters.items():
            if parameter.type is not str:
                continue
            known = dict.fromkeys(parameter.choices)
            if not parameter.choices:
                known |= dict.fromkeys(text for schema in schemas for text in schema.categories.get(name, ()))
                known |= dict.fromkeys(str(each[name]) for each in (constants, query.defaults) if name in each)
            self.texts[name] = list(known) if parameter.choices else [*known, UNKNOWN]
            codes = {text: code for code, text in enumerate(known)}
            meant = {spelled: codes[text] for spelled, text in parameter.spellings.items() if text in codes}
            self.codes[name] = {**meant, **codes}


class QueryPrograms:
    """The programs of one kind on one device."""

    def __init__(
        self, query: Query, schemas: Sequence[Schema], constants: Mapping[str, Scalar], device: str, sheet: Sheet
    ) -> None:
        self.query = query
        self.schemas = schemas
        self.constants = constants
        self.device = device
        self.sheet = sheet
        self.strings = Strings(query, schemas, constants)
        kind = query.kind
        self._meanings = {name: kind.meaning(name) for name in kind.names}
        self._meanings |= {name: (condition,) for name, condition in query.conditions.items()}

    def meaning(self, name: str) -> tuple[Parameter, ...]:
        """The parameters that a name sets."""
        return self._meanings[name]

    def completed(self, said: Iterable[str]) -> frozenset[str]:
        """The names that are said, and those whose defaults may be said as well without meaning anything else."""
        kind, known = self.query.kind, frozenset(said)
        if any(name in kind.conveniences for name in known):
            return known | set(self.query.conditions)
        meant = {target for name in known for target in kind.shorthands.get(name, ())}
        return known | (self.query.defaults.keys() - meant)

    def program(self, said: Collection[str]) -> Program:
        """For queries that say these names: whether each is good, whether it has what never varied, and the inputs of
        every schema. Raises `Untraceable` where names cannot go together or formulas need more than arithmetic."""
        tape = Tape(len(self.query.names))
        good, given = self._said(tape, said)
        kind = self.query.kind
        if any(name in kind.conveniences for name in said):
            good, given = self._opened(tape, good, given)
        missing = [name for name in self.query.parameters if name not in given and name not in self.query.defaults]
        if missing:
            raise Untraceable(f"{', '.join(missing)} missing")
        values: dict[str, Any] = {**self.query.defaults, **given, "device": self.device}
        layer = SimpleNamespace(**{each.name: values[each.name] for each in kind.parameters})
        good = good & keeps_rules(tape, kind, layer)
        sizes, dtype = self.query.element_bytes, values["dtype"]
        element_bytes = dtype.looked_up(sizes) if isinstance(dtype, Text) else sizes[dtype]
        values |= analytic_features(kind, layer, values["batch_size"], element_bytes, self.sheet)
        inputs: Any = joined(tape, [part for schema in self.schemas for part in self._inputs(values, schema)])
        fitting = abs(inputs) <= LARGEST_INPUT
        rounded = tape.elementwise("rounded", inputs)
        return finished(tape, [good & fitting.all(axis=1), self._matching(tape, values), rounded])

    def _said(self, tape: Tape, said: Collection[str]) -> tuple[Any, dict[str, Any]]:
        """What the names set, and whether each value is allowed by itself."""
        row, good, given = tape.input(), tape.constant(1.0), dict[str, Any]()
        for place, name in enumerate(self.query.names):
            if name not in said:
                continue
            number: Any = row[:, place]
            symbol = Symbol(tape, number.place, 1, 0)
            for parameter in self.meaning(name):
                if parameter.name in given:
                    raise Untraceable(f"{parameter.name} is said twice")
                if parameter.type is str:
                    given[parameter.name] = Text(symbol, self.strings.texts[parameter.name])
                    good = good & (number >= 0) if parameter.choices else good
                else:
                    given[parameter.name] = symbol
                    good = good & _allowed(parameter, symbol)
        return good, given

    def _opened(self, tape: Tape, good: Any, given: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """The same with conveniences turned into parameters, whichever way the kind goes to do that."""
        kind = self.query.kind
        own = {name: value for name, value in given.items() if name not in self.query.conditions}
        found: dict[str, Any] = {}
        for flag, (opened, mistakes) in tape.every_way(lambda: kind.open(dict(own))):
            complete = {**{name: self.query.defaults.get(name) for name in self.query.parameters}, **opened}
            if mistakes or any(complete[each.name] is None for each in kind.parameters):
                good = good & ~flag
                continue
            for parameter in kind.parameters:
                value, name = complete[parameter.name], parameter.name
                if name not in found or _is_same(found[name], value):
                    found[name] = value
                elif isinstance(value, (str, Text)) or isinstance(found[name], (str, Text)):
                    raise Untraceable(f"{name} is a string that something else decides")
                else:
                    found[name] = tape.elementwise("where", flag, value, found[name])
        if not found:
            raise Untraceable("these names contradict one another")
        for parameter in kind.parameters:
            if isinstance(found[parameter.name], Symbol) and parameter.type is not str:
                good = good & _allowed(parameter, found[parameter.name])
        return good, {**found, **{name: value for name, value in given.items() if name in self.query.conditions}}

    def _inputs(self, values: Mapping[str, Any], schema: Schema) -> list[Any]:
        missing = [name for name in schema.names if name not in values]
        if missing:
            raise Untraceable(f"the bundle calls something {', '.join(missing)}")
        found = []
        for name in schema.names:
            value = values[name]
            if name not in schema.categories:
                if isinstance(value, (str, Text)):
                    raise Untraceable(f"{name} is a string")
                found.append(value)
                continue
            codes = {text: float(code) for code, text in enumerate(schema.categories[name])}
            if isinstance(value, str):
                found.append(codes.get(value, -1.0))
            elif isinstance(value, Text):
                found.append(value.looked_up({text: codes.get(text, -1.0) for text in value.texts}))
            else:
                raise Untraceable(f"{name} is a number that stands for a category")
        return found

    def _matching(self, tape: Tape, values: Mapping[str, Any]) -> Any:
        """Whether a row has the values that never varied while measuring."""
        matching: Any = tape.constant(1.0)
        for name, constant in self.constants.items():
            if name not in values:
                continue
            value = values[name]
            if isinstance(value, (str, Text)):
                matching = matching & (value == str(constant))
            elif isinstance(constant, str):
                raise Untraceable(f"{name} is a number where a string never varied")
            else:
                low, high = matching_bounds(constant)
                matching = matching & (value >= low) & (value <= high)
        return matching


def _is_same(first: Any, second: Any) -> bool:
    if isinstance(first, Symbol) and isinstance(second, Symbol):
        return first.place == second.place
    return not isinstance(first, Symbol) and not isinstance(second, Symbol) and bool(first == second)


def _allowed(parameter: Parameter, value: Symbol) -> Any:
    """Whether a number is what the parameter takes: a flag is 0 or 1, a whole number has no fraction."""
    low, high = (0.0, 1.0) if parameter.type is bool else (parameter.low, parameter.high)
    low, high = -LARGEST if low is None else low, LARGEST if high is None else high
    symbol: Any = value
    allowed = (symbol >= low) & (symbol <= high)
    return allowed if parameter.type is float else allowed & (np.floor(symbol) == symbol)
