"""What predicts one layer kind on one device: from checked columns to inputs, range, form and interval."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from medn.bundle.bundle import Entry
from medn.core.conditions import ALWAYS_SAID, CONDITIONS
from medn.core.data_sheet import NO_SHEET, SHEET_NUMBERS
from medn.core.errors import UsageError
from medn.core.outside import Outside
from medn.core.quantities import from_learned
from medn.core.ranges import Flags, MeasuredRange, matches_constants
from medn.core.table import Array, Schema, as_inputs
from medn.core.values import Scalar
from medn.deployed.candidate import deployed_of
from medn.deployed.deployed import Deployed
from medn.estimator.answering import Answering, PredictedQuantities
from medn.estimator.columns import Column, Given, value_at
from medn.estimator.gradient import input_slopes
from medn.estimator.prediction import OutsidePrediction, Prediction
from medn.estimator.query import Query, Wrong
from medn.estimator.query_program import QueryPrograms
from medn.layer_generators.features import analytic_columns

FIXED = ("device", *SHEET_NUMBERS)
"""Constants that are no columns of a query: they follow from the device that is asked about."""

TOO_LARGE = "this layer is too large: what it computes or moves is beyond the numbers that predictors take"


class Estimates(NamedTuple):
    """What is said about some rows of one kind."""

    latency_s: Array
    low_s: Array
    high_s: Array
    in_range: Flags
    further: Mapping[str, Array]


class Rows(NamedTuple):
    """Checked rows of one kind, ready to be estimated."""

    columns: Mapping[str, Column]
    """Parameters, conditions and analytic features."""
    inputs: Array


class Further(NamedTuple):
    """A quantity beside latency."""

    deployed: Deployed
    same_range: bool
    """Whether it learned from the same layers as the latency, so that both take the same inputs."""


class Estimator:
    """Everything that is needed for one kind, made once."""

    def __init__(self, entry: Entry, device: str) -> None:
        self.device = device
        self.sheet = entry.latency.facts.sheets.get(device, NO_SHEET)
        self.deployed = deployed_of(entry.latency)
        self.kind = entry.layer_kind
        self.query = Query(self.kind, entry.usual, entry.latency.facts.dtypes)
        self.range = self.deployed.range
        self.level = self.deployed.interval.guaranteed_level
        constants = {name: value for name, value in self.deployed.constants.items() if name not in FIXED}
        self.constants = {**_unknown_conditions(entry.usual), **_only_elsewhere(entry), **constants}
        further = {name: deployed_of(found) for name, found in entry.further.items()}
        self.further = {name: Further(found, found.range.is_same(self.range)) for name, found in further.items()}
        for known in (self.deployed.range, *(each.deployed.range for each in self.further.values())):
            for name in known.schema.numeric:
                if name in self.query.parameters and self.query.parameters[name].type is str:
                    raise UsageError(f"the bundle takes {name} of {self.kind.name} as a number, and it is a string")

    @cached_property
    def known_columns(self) -> set[str]:
        """The names that a query may have."""
        return set(self.query.names)

    @property
    def schemas(self) -> list[Schema]:
        """Those of all inputs: of the latency, and of further quantities that learned from other layers."""
        own = [each.deployed.schema for each in self.further.values() if not each.same_range]
        return [self.range.schema, *own]

    @cached_property
    def answering(self) -> Answering:
        """The quick way, made at the first question."""
        own = [name for name, each in self.further.items() if not each.same_range]
        schemas = self.schemas
        ends = np.cumsum([len(schema.names) for schema in schemas]).tolist()
        first = slice(0, ends[0])
        places = dict.fromkeys(self.further, first) | dict(zip(own, map(slice, ends, ends[1:]), strict=False))
        further = {name: each.deployed for name, each in self.further.items()}
        return Answering(
            QueryPrograms(self.query, schemas, self.constants, self.device, self.sheet),
            PredictedQuantities(self.deployed, further, places, ends[-1]),
            self.level,
        )

    def layer(self, parameters: dict[str, Any]) -> Prediction:
        """One layer. Raises `Wrong` where the query is."""
        found = self.answering.one(parameters)
        if found is None:
            found = self._row(self.estimate(self._prepared_one(parameters)))
        if found.in_range:
            return found
        asked = dict(parameters)
        return OutsidePrediction.of(found, lambda: self.outside(self._prepared_one(asked)))

    def _prepared_one(self, parameters: Mapping[str, Any]) -> Rows:
        return self._prepared(self._on_device(self.query.open_one(parameters)), 1)

    def outside(self, prepared: Rows, row: int = 0) -> list[Outside]:
        """What of a row lies outside what was measured: values of the query first, then what follows from them."""
        values = {name: value_at(column, row) for name, column in prepared.columns.items()}
        found = [
            Outside(name, values[name], known=(constant,))
            for name, constant in self.constants.items()
            if name in values and not matches_constants(values, {name: constant}, 1).all()
        ]
        found += self.range.outside(prepared.inputs[row], values)
        return sorted(found, key=lambda each: each.name not in self.query.names)

    def predict(self, given: Mapping[str, Given], rows: int, gaps: bool = False) -> Estimates:
        """Many layers. Raises `Wrong` where the query is."""
        quick = self.answering.inputs(given, rows, gaps)
        found = self.answered(*quick) if quick else None
        return found or self.estimate(self.prepare(given, rows, gaps))

    def answered(self, inputs: Array, matching: Flags, further: tuple[str, ...] | None = None) -> Estimates | None:
        """What the engine says of inputs, one column each; None where formulas cannot be traced."""
        wanted = tuple(self.further) if further is None else further
        found = self.numbers(inputs, wanted)
        if found is None:
            return None
        latency_s, low_s, high_s, inside, *more = found
        return Estimates(latency_s, low_s, high_s, (inside != 0) & matching, dict(zip(wanted, more, strict=True)))

    def numbers(self, inputs: Array, further: tuple[str, ...]) -> Array | None:
        """The same as the engine gives it: a row of latencies, two of bounds, one of flags whether inputs lie inside,
        and one for each further quantity."""
        machine = self.answering.answers(further)
        if machine is None:
            return None
        found = machine.run(inputs)
        _check_finite(found[1], found[2], dict(zip(further, found[4:], strict=True)))
        return found

    def prepare(self, given: Mapping[str, Given], rows: int, gaps: bool = False) -> Rows:
        """Many layers, to be estimated now or under other conditions. Raises `Wrong` where the query is."""
        return self._prepared(self._on_device(self.query.open(given, rows, gaps)), rows)

    def _on_device(self, opened: Mapping[str, Column]) -> dict[str, Column]:
        """Every column of a query, and the device, which is an input where several were learned together."""
        return {**opened, "device": self.device}

    def under(self, prepared: Rows, conditions: Mapping[str, Scalar]) -> Rows:
        """The same layers under conditions that their work does not depend on, such as the utilization."""
        schema, inputs = self.range.schema, prepared.inputs.copy()
        self.check_conditions(conditions)
        for name, value in conditions.items():
            if name in schema.names:
                categories = {name: schema.categories[name]} if name in schema.categories else {}
                inputs[:, schema.index(name)] = as_inputs({name: value}, Schema((name,), categories))[0]
        return Rows({**prepared.columns, **conditions}, inputs)

    def check_conditions(self, conditions: Mapping[str, Scalar]) -> None:
        """Raises `Wrong` where a value is not allowed."""
        for name, value in conditions.items():
            mistake = self.query.conditions[name].mistake(value)
            if mistake:
                raise Wrong(f"{name}: {mistake}")

    def gradient(self, parameters: Mapping[str, Any]) -> dict[str, float]:
        """The derivative of the latency by each parameter that is a number. Raises `Wrong` where the query is."""
        opened = self._on_device(self.query.open_one(parameters))
        inputs = self._prepared(opened, 1).inputs
        if not self.range.in_range(inputs).all():
            raise Wrong("this layer lies outside what was measured, where no gradient is known")
        names, slopes = input_slopes(self.query, opened, self.range.schema, self.range.free, self.sheet)
        form = self.deployed.form
        latency_s = form.predict(inputs)[0]
        return dict(zip(names, (latency_s * (form.gradient(inputs)[0] @ slopes)).tolist(), strict=True))

    def _prepared(self, opened: Mapping[str, Column], rows: int) -> Rows:
        columns = {**opened, **analytic_columns(self.kind, opened, self.sheet, self.query.element_bytes)}
        return Rows(columns, self._inputs(columns, self.range, rows))

    def estimate(self, prepared: Rows, further: Collection[str] | None = None) -> Estimates:
        """The latency, and the further quantities that are named; all of them, where none is said."""
        columns, inputs = prepared
        rows = len(inputs)
        matching = matches_constants(columns, self.constants, rows)
        wanted = tuple(self.further if further is None else further)
        quick = self.answered(self.inputs_of_all(prepared).T, matching, wanted)
        if quick:
            return quick
        latency_s, low_s, high_s, inside = self.deployed.answer(inputs)
        found = {}
        for name in wanted:
            deployed, same_range = self.further[name]
            own = inputs if same_range else self._inputs(columns, deployed.range, rows)
            found[name] = deployed.predict(own)
        told = from_learned(latency_s, found)
        _check_finite(low_s, high_s, told)
        return Estimates(latency_s, low_s, high_s, inside & matching, told)

    def inputs_of_all(self, prepared: Rows) -> Array:
        """The inputs of every schema side by side."""
        columns, inputs = prepared
        others = [each.deployed.range for each in self.further.values() if not each.same_range]
        return np.concatenate([inputs, *(self._inputs(columns, known, len(inputs)) for known in others)], axis=1)

    def _inputs(self, columns: Mapping[str, Column], known: MeasuredRange, rows: int) -> Array:
        missing = [name for name in known.schema.names if name not in columns]
        if missing:
            raise Wrong(f"this version of medn does not know what the bundle calls {', '.join(missing)}")
        try:
            with np.errstate(over="ignore"):
                inputs = as_inputs(columns, known.schema)
        except OverflowError:  # of a single layer, whose whole numbers have any size
            raise Wrong(TOO_LARGE) from None
        if not math.isfinite(inputs.sum()):  # finite ones are far too small to add up to an infinite one
            raise Wrong(TOO_LARGE, int((~np.isfinite(inputs)).any(axis=1).argmax()))
        return inputs if len(inputs) == rows else np.repeat(inputs, rows, axis=0)

    def _row(self, found: Estimates) -> Prediction:
        further = {name: values.item() for name, values in found.further.items()}
        numbers = (found.latency_s.item(), found.low_s.item(), found.high_s.item())
        return Prediction(*numbers, self.level, found.in_range.item(), further)


def _check_finite(low_s: Array, high_s: Array, told: Mapping[str, Array]) -> None:
    ends = ((low_s, high_s), *((values, values) for values in told.values()))
    if all(low.min(initial=1.0) > 0 and high.max(initial=1.0) < np.inf for low, high in ends):  # NaN is neither
        return
    for name, values in {"latency_s": low_s, "high_s": high_s, **told}.items():
        good = (values > 0) & (values < np.inf)
        if not good.all():
            raise Wrong(f"the bundle predicts no finite {name} above 0 for this layer", int(good.argmin()))


def _only_elsewhere(entry: Entry) -> dict[str, Scalar]:
    """The devices that were measured, where the one that is asked about was not: every layer lies outside then."""
    facts = entry.latency.facts
    return {} if facts.is_measured else {"device": str(facts.settings.get("measured_on", "others"))}


def _unknown_conditions(usual: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """The conditions that were declared after a bundle was made: it was measured at their defaults."""
    later = {name: each.default for name, each in CONDITIONS.items() if name not in (*ALWAYS_SAID, *usual)}
    return {name: default for name, default in later.items() if default is not None}
