"""One layer as fast as can be: plain numbers through lines of arithmetic that were written down beforehand.

The lines come from the kind's own formulas, traced with a layer that went the ordinary way before; they give the inputs
of the form and check the query as they go. Whatever they do not answer for (a value that is not allowed, a layer
outside what was measured, a way through the rules that no layer took yet) goes the ordinary way.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from operator import itemgetter
from types import SimpleNamespace
from typing import Any

import numpy as np

from medn.core.data_sheet import NO_SHEET, Sheet
from medn.core.parameters import LARGEST, Parameter
from medn.core.quantities import from_learned
from medn.core.ranges import matching_bounds
from medn.core.values import Scalar
from medn.deployed.deployed import Deployed
from medn.estimator.columns import Column
from medn.estimator.prediction import Prediction
from medn.estimator.query import Query
from medn.estimator.tracing import Compute, Symbol, Tape, compiled, written
from medn.layer_generators.features import analytic_features
from medn.regressors.form import Form

MOST_WAYS = 64
"""Ways to ask, and ways through the formulas of a kind, that are kept."""

INWARD = 1e-6
"""The edges are drawn in by this share: inputs are rounded to float32, so what lies so near goes the ordinary way."""


@dataclass(frozen=True)
class Way:
    """How the values of a query with certain names are found among them and the defaults."""

    defaults: tuple[Scalar, ...]
    numbers: itemgetter[Any]
    strings: itemgetter[Any]


class Single:
    """Predictions of one layer at a time, for one kind on one device."""

    def __init__(
        self,
        query: Query,
        deployed: Deployed,
        constants: Mapping[str, Scalar],
        further: Mapping[str, Form],
        sheet: Sheet = NO_SHEET,
    ) -> None:
        self.query = query
        self.deployed = deployed
        self.range = deployed.range
        self.constants = constants
        self.level = deployed.interval.guaranteed_level
        self.further = further
        self.sheet = sheet
        self._numbers = [name for name, each in query.parameters.items() if each.type is not str]
        self._strings = [name for name, each in query.parameters.items() if each.type is str]
        self._packed = struct.Struct(f"{len(deployed.schema.names)}f").pack
        self._ways: dict[tuple[str, ...], Way] = {}
        self._programs: dict[tuple[str, ...], tuple[Compute, ...]] = {}

    def __call__(self, parameters: Mapping[str, Any]) -> Prediction | None:
        """None if the query has to go the ordinary way."""
        way = self._ways.get(tuple(parameters))
        if way is None:
            return None
        given = (*parameters.values(), *way.defaults)
        try:
            for compute in self._programs.get(way.strings(given), ()):
                found = compute(*way.numbers(given))
                if found is not None:
                    return self._predict(*found)
        except (
            TypeError,
            ValueError,
            ArithmeticError,
            struct.error,
        ):  # strings among numbers, numbers without end
            return None
        return None

    def _predict(self, inputs: tuple[float, ...], matches: bool) -> Prediction | None:
        row = np.frombuffer(self._packed(*inputs), dtype=np.float32).astype(np.float64)
        found = self.deployed.one(row)
        if found is None:
            return None
        latency_s, factor = found
        if not latency_s * factor < LARGEST:
            return None
        if self.further:
            learned = {name: math.exp(form.one(row)) for name, form in self.further.items()}
            more = from_learned(latency_s, learned, larger=max)
            return Prediction(latency_s, latency_s / factor, latency_s * factor, self.level, matches, more)
        return Prediction(latency_s, latency_s / factor, latency_s * factor, self.level, matches)

    def learn(self, parameters: Mapping[str, Any], opened: Mapping[str, Column]) -> None:
        """Write down the way that a good query took; the next one like it takes it faster."""
        names = tuple(parameters)
        if names not in self._ways and len(self._ways) < MOST_WAYS:
            way = self._way(names)
            if way is None:
                return
            self._ways[names] = way
        strings = tuple(str(opened[name]) for name in self._strings)
        known = self._programs.get(strings, ())
        if len(self._programs) < MOST_WAYS and len(known) < MOST_WAYS:
            try:
                program = self._program(opened)
            except (TypeError, ArithmeticError):  # a formula that needs more than arithmetic
                return
            if program:
                self._programs[strings] = (*known, program)

    def _way(self, names: tuple[str, ...]) -> Way | None:
        """None where names mean more than the parameters of a layer."""
        kind = self.query.kind
        if any(name in kind.conveniences for name in names):
            return None
        targets = {target: place for place, name in enumerate(names) for target in kind.shorthands.get(name, (name,))}
        silent = {name: default for name, default in self.query.defaults.items() if name not in targets}
        places = targets | {name: len(names) + place for place, name in enumerate(silent)}

        numbers, strings = ([places[name] for name in wanted] for wanted in (self._numbers, self._strings))
        return Way(tuple(silent.values()), itemgetter(*numbers), itemgetter(*strings))

    def _program(self, opened: Mapping[str, Column]) -> Compute | None:
        """The lines that lead from the numbers of a query to the inputs of the form."""
        tape = Tape()
        values: dict[str, Any] = dict(opened)
        for name in self._numbers:
            values[name] = tape.argument(_whole(self.query.parameters[name], opened[name]))
        arguments = list(tape.lines)
        layer = SimpleNamespace(**{each.name: values[each.name] for each in self.query.kind.parameters})
        if next(iter(self.query.kind.rules(layer)), None) is not None:
            return None
        element_bytes = self.query.element_bytes[str(opened["dtype"])]
        values |= analytic_features(self.query.kind, layer, values["batch_size"], element_bytes, self.sheet)
        return self._written(tape, arguments, values)

    def _written(self, tape: Tape, arguments: list[str], values: Mapping[str, Any]) -> Compute | None:
        constants: dict[str, Any] = {"numbers": (float, int)}
        # What a name may be at least and at most; whole numbers are compared with whole numbers, which is quickest.
        limits = {values[name].name: _limits(self.query.parameters[name]) for name in self._numbers}
        inputs = []
        for name, low, high in zip(self.range.schema.names, *self.range.edges, strict=True):
            if name in self.range.schema.categories:
                code = self._code(name, str(values[name]))
                if code is None:
                    return None
                inputs.append(str(code))
                continue
            value = values[name]
            inputs.append(written(value))
            if math.isfinite(low) and math.isfinite(high):
                least, most = limits.get(inputs[-1], (-LARGEST, LARGEST))
                least, most = max(least, low + INWARD * abs(low)), min(most, high - INWARD * abs(high))
                is_whole = isinstance(value, Symbol) and isinstance(value.value, int)
                limits[inputs[-1]] = (math.ceil(least), math.floor(most)) if is_whole else (least, most)

        def between(name: str, least: float, most: float) -> str:
            places = f"k{len(constants)}", f"k{len(constants) + 1}"
            constants.update(zip(places, (least, most), strict=True))
            return f"{places[0]} <= {name} <= {places[1]}"

        allowed = [between(name, *limits[name]) for name in arguments]
        inside = [between(name, *ends) for name, ends in limits.items() if name not in arguments]
        matching = []
        for name, constant in self.constants.items():
            if name not in values:
                continue
            if isinstance(constant, str):
                matching += [] if str(values[name]) == constant else ["False"]
            else:
                matching.append(between(written(values[name]), *matching_bounds(constant)))
        # A flag is an int too, but no size and no share; of flags, one sum tells whether all of them are whole.
        by_type = {
            type_: [values[name].name for name in self._numbers if self.query.parameters[name].type is type_]
            for type_ in (int, bool, float)
        }
        wrong_type = f"not ({' is '.join(f'{name}.__class__' for name in by_type[int])} is int)"
        if by_type[bool]:
            wrong_type += f" or (0 + {' + '.join(by_type[bool])}).__class__ is not int"
        wrong_type += "".join(f" or {name}.__class__ not in numbers" for name in by_type[float])
        wrong = [f"not {name}" if truth else name for name, truth in tape.guards]
        wanted = {token for line in (*wrong, *inside, *matching, *inputs) for token in line.split()}
        body = [
            f"if {wrong_type} or not ({_all(allowed)}): return None",
            *tape.body(wanted),
            f"if {' or '.join([*wrong, f'not ({_all(inside)})'])}: return None",
            f"return ({', '.join(inputs)},), {_all(matching)}",
        ]
        return compiled(arguments, body, constants)

    def _code(self, name: str, text: str) -> int | None:
        """The code of a category; None if it was not learned from."""
        known = self.range.schema.categories[name]
        code = known.index(text) if text in known else -1
        return code if code in self.range.seen.get(name, ()) else None


def _all(tests: list[str]) -> str:
    return " and ".join(tests) or "True"


def _whole(parameter: Parameter, value: Any) -> Any:
    return value if parameter.type is float else int(value)


def _limits(parameter: Parameter) -> tuple[float, float]:
    """What is allowed, as far as numbers can tell; no number without end ever is."""
    if parameter.type is bool:
        return 0, 1
    low = -LARGEST if parameter.low is None else parameter.low
    high = LARGEST if parameter.high is None else parameter.high
    return (math.ceil(low), math.floor(high)) if parameter.type is int else (low, high)
