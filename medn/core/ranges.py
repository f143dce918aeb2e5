"""What was measured, column by column and jointly: whether a row lies inside, how far off it is, where the edge is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medn.core.checking import check_array, check_numbers, check_whole
from medn.core.outside import COMBINATION, Outside
from medn.core.table import Array, Schema
from medn.core.text import shown
from medn.core.values import Scalar
from medn.program.formulas import dense, looked_up

Flags = NDArray[np.bool_]

ROWS_AT_ONCE = 512
"""Matrix products of so few rows are done by one thread: others would take longer to start than to compute."""

MOST_CENTRES = 65_536
SMALLEST_SQUARE = 1e-9
"""Squared distances up to this are none."""

DEVICE = "device"
WORK_COLUMNS = ("flops", "moved_bytes")


def squeezed(inputs: Array) -> Array:
    """The logarithm where values are large, the value itself where they are small, for either sign."""
    found: Array = np.copysign(np.log1p(np.abs(inputs)), inputs)
    return found


def _unsqueezed(squeezed: Array) -> Array:
    return np.asarray(np.copysign(np.expm1(np.abs(squeezed)), squeezed))


@dataclass(frozen=True, eq=False)
class MeasuredRange:
    """What a regressor has learned from. Numbers have bounds, categories a set of codes, both together a distance."""

    schema: Schema
    low: Array
    high: Array
    """Lowest and highest value of each column; for categories the usual code stands in both."""
    slack: float
    free: tuple[str, ...]
    """Columns without bounds, such as remainders: their lowest and highest value mean nothing."""
    seen: Mapping[str, tuple[int, ...]]
    """The codes of each category that were learned from."""
    shift: Array
    components: Array
    """Squeezed inputs less `shift` times `components` are the few numbers whose distance to the centres counts."""
    centres: Array
    reach: float
    """The distance at which a row counts as outside."""
    device_ends: Array | None = None
    """Where several devices were learned together, the lowest and the highest values on each: two tables with a row
    per device. What follows from a device's data sheet ends elsewhere on each, so the nearest row is one of its own."""

    # Formulas are traced with symbols too (medn.program.symbols): functions of NumPy alone, and nothing in place.

    def distance(self, inputs: Array) -> Array:
        """Distance to the nearest measured neighbourhood; 1 is the edge."""
        if not isinstance(inputs, np.ndarray):
            return self._distance(inputs)
        found = np.empty(len(inputs))
        for start in range(0, len(inputs), ROWS_AT_ONCE):
            found[start : start + ROWS_AT_ONCE] = self._distance(inputs[start : start + ROWS_AT_ONCE])
        return found

    def _distance(self, inputs: Array) -> Array:
        centre_squares, doubled = self._centre_terms
        places = dense(self._squeezed(inputs), self.components, -self._shifted)
        nearest = dense(places, -doubled.T, centre_squares).min(axis=1) + (places * places).sum(axis=1)
        # What is left of two equal numbers differs with the order of summation: as good as nothing.
        found: Array = np.sqrt(np.where(nearest <= SMALLEST_SQUARE, 0.0, nearest)) / self.reach
        return found

    def excess(self, inputs: Array) -> Array:
        """How far each row's worst number lies beyond what was seen, as a share of the span of its column."""
        middle, half, span = self._bounds
        return np.asarray(((np.abs(squeezed(inputs) - middle) - half) / span).max(axis=1).clip(min=0.0))

    def in_range(self, inputs: Array) -> Flags:
        """Whether each row lies where was measured."""
        return self.place(inputs)[1]

    def place(self, inputs: Array) -> tuple[Array, Flags]:
        """The distance of each row to what was measured, and whether it lies inside."""
        distance = self.distance(inputs)
        lowest, highest = self.edges
        inside = (distance <= 1.0) & ((inputs >= lowest) & (inputs <= highest)).all(axis=1)
        for index, codes in self._codes:
            inside = inside & (inputs[:, index, None] == codes).any(axis=1)
        return distance, inside

    def outside(self, row: Array, values: Mapping[str, Scalar]) -> list[Outside]:
        """Which of the values behind a single row lie beyond the edges, or were not seen; empty for a row inside.

        Where each was measured by itself, it is how far off all of them are together.
        """
        found = [
            Outside(name, values[name], float(low), float(high))
            for name, number, low, high in zip(self.schema.names, row, *self.edges, strict=True)
            if name not in self.seen and not low <= number <= high
        ]
        found += [
            Outside(name, values[name], known=tuple(self.schema.categories[name][code] for code in codes))
            for name, codes in self.seen.items()
            if row[self.schema.index(name)] not in codes
        ]
        distance = float(self.distance(row[None])[0])
        return found or ([Outside(COMBINATION, distance, 0.0, 1.0)] if distance > 1.0 else [])

    def is_same(self, other: MeasuredRange) -> bool:
        """Whether both say the same of every row."""
        return self is other or (self.schema == other.schema and self.as_json() == other.as_json())

    # What does not depend on the rows is worked out once.

    def _squeezed(self, inputs: Array) -> Array:
        """As `squeezed`, but quicker where no column needs its care for small numbers."""
        return np.copysign(np.log(np.abs(inputs) + 1.0), inputs) if self._is_plain else squeezed(inputs)

    @cached_property
    def edges(self) -> tuple[Array, Array]:
        """The lowest and the highest number of each column that still counts as inside."""
        middle, half, span = self._bounds
        with np.errstate(over="ignore", invalid="ignore"):
            beyond = half + np.where(np.isfinite(span), self.slack * span, np.inf)
            lowest, highest = _unsqueezed(middle - beyond), _unsqueezed(middle + beyond)
        # Where no number was negative, none is inside.
        return np.where(self.low >= 0.0, np.maximum(lowest, 0.0), lowest), highest

    @cached_property
    def _centre_terms(self) -> tuple[Array, Array]:
        return (self.centres**2).sum(axis=1), 2 * self.centres

    @cached_property
    def _shifted(self) -> Array:
        return np.asarray(self.shift @ self.components)

    @cached_property
    def _is_plain(self) -> bool:
        """Whether every column reaches numbers so large that the logarithm of one more than them is exact enough."""
        return bool((np.maximum(np.abs(self.low), np.abs(self.high))[self.components.any(axis=1)] > 1e-2).all())

    @cached_property
    def _bounds(self) -> tuple[Array, Array, Array]:
        """Middle, half and whole span of each column on the logarithmic scale; without end for one without bounds."""
        low, high = squeezed(self.low), squeezed(self.high)
        span = np.maximum(high - low, 1e-6)
        span[[name in self.seen or name in self.free for name in self.schema.names]] = np.inf
        return (low + high) / 2, (high - low) / 2, span

    @cached_property
    def _codes(self) -> list[tuple[int, Array]]:
        return [(self.schema.index(name), np.array(codes, dtype=np.float64)) for name, codes in self.seen.items()]

    def clip(self, inputs: Array) -> Array:
        """The nearest row inside: numbers at their bounds, an unknown category replaced by the usual one."""
        numbers = np.array([name not in self.seen for name in self.schema.names])
        known = self.with_known_categories(inputs)
        low, high = self.low, self.high
        if self.device_ends is not None:
            device = known[:, self.schema.index(DEVICE)]
            low, high = (looked_up(ends, device) for ends in self.device_ends)
        return np.where(numbers, np.clip(known, low, high), known)

    def with_known_categories(self, inputs: Array) -> Array:
        """The same rows, an unknown category replaced by the usual one: no form knows what else it stands for."""
        found = inputs
        for index, codes in self._codes:
            known = (inputs[:, index, None] == codes).any(axis=1)
            others = np.arange(len(self.low)) != index
            found = np.where(known[:, None] | others, found, self.low)
        return found

    def far(self, inputs: Array, distance: Array) -> Array:
        """How far each row lies beyond what was seen, in powers of e: its worst number, or its distance.

        A category that was not seen counts as one power: nothing tells how much it matters.
        """
        middle, half, span = self._bounds
        beyond = np.where(np.isfinite(span), np.abs(squeezed(inputs) - middle) - half, 0.0).max(axis=1, initial=0.0)
        found: Array = np.maximum(beyond, np.log(np.maximum(distance, 1.0)))
        for index, codes in self._codes:
            unknown = ~(inputs[:, index, None] == codes).any(axis=1)
            found = np.where(unknown, np.maximum(found, 1.0), found)
        return found

    def as_json(self) -> dict[str, Any]:
        arrays = {name: getattr(self, name).tolist() for name in ("low", "high", "shift", "components", "centres")}
        seen = {name: list(codes) for name, codes in self.seen.items()}
        ends = {} if self.device_ends is None else {"device_ends": self.device_ends.tolist()}
        return {**arrays, "slack": self.slack, "free": list(self.free), "seen": seen, "reach": self.reach, **ends}

    @classmethod
    def from_json(cls, written: Mapping[str, Any], schema: Schema) -> MeasuredRange:
        columns, count = len(schema.names), len(written["centres"])
        if not count:
            raise ValueError("a range without centres has seen nothing")
        found = cls(
            schema=schema,
            low=np.array(written["low"], dtype=np.float64),
            high=np.array(written["high"], dtype=np.float64),
            slack=float(written["slack"]),
            # Earlier versions named columns here that were no inputs, such as those that never varied.
            free=tuple(name for name in schema.names if name in written["free"]),
            seen={name: tuple(codes) for name, codes in written["seen"].items()},
            shift=np.array(written["shift"], dtype=np.float64),
            components=np.array(written["components"], dtype=np.float64).reshape(columns, -1),
            centres=np.array(written["centres"], dtype=np.float64).reshape(count, -1),
            reach=float(written["reach"]),
            device_ends=np.array(written["device_ends"], dtype=np.float64) if "device_ends" in written else None,
        )
        found.check()
        return found

    def check(self) -> None:
        """That all of it fits the schema. Raises a ValueError that says what does not."""
        columns, count = len(self.schema.names), self.components.shape[1]
        for what, array in (("lowest", self.low), ("highest", self.high), ("middle", self.shift)):
            check_array(f"the {what} numbers of a range", array, (columns,))
        check_array("the components of a range", self.components, (columns, count))
        check_array("the centres of a range", self.centres, (len(self.centres), count))
        if len(self.centres) > MOST_CENTRES or count > columns:
            raise ValueError("the centres of a range do not fit its components")
        check_numbers("the slack of a range", [self.slack], 0.0, 1e3)
        check_numbers("the reach of a range", [self.reach], 1e-30, 1e30)
        if not (self.low <= self.high).all():
            raise ValueError("a range must end at or above its start")
        if self.device_ends is not None:
            check_array(
                "the ends of a range", self.device_ends, (2, len(self.schema.categories.get(DEVICE, ())), columns)
            )
            if not (self.device_ends[0] <= self.device_ends[1]).all():
                raise ValueError("the range of a device must end at or above its start")
        if set(self.seen) != set(self.schema.categories):
            raise ValueError("the categories of a range are not those of its inputs")
        for name, codes in self.seen.items():
            if not codes:
                raise ValueError(f"a range has seen nothing of {shown(name)}")
            for code in codes:
                check_whole("the codes of a range", code, 0, len(self.schema.categories[name]) - 1)


def matches_constants(columns: Mapping[str, Any], constants: Mapping[str, Scalar], rows: int) -> Flags:
    """Whether each row has the values that never varied while measuring; a column left out is taken to match.

    >>> matches_constants({"threads": np.array([1, 2]), "dtype": "fp32"}, {"threads": 1, "dtype": "fp32"}, 2).tolist()
    [True, False]
    """
    matching = np.ones(rows, dtype=bool)
    for name, value in constants.items():
        given = columns.get(name, value)
        if isinstance(value, str) or np.asarray(given).dtype.kind not in "biuf":
            matching &= np.asarray(given).astype(str) == str(value)
        else:
            low, high = matching_bounds(value)
            matching &= (given >= low) & (given <= high)
    return matching


def is_constant(value: Scalar, constant: Scalar) -> bool:
    """The same of one value.

    >>> is_constant(1.0, 1), is_constant("fp16", "fp32")
    (True, False)
    """
    if isinstance(value, str) or isinstance(constant, str):
        return str(value) == str(constant)
    low, high = matching_bounds(constant)
    return low <= value <= high


def matching_bounds(constant: float) -> tuple[float, float]:
    """The lowest and highest number that still is this constant."""
    tolerance = 1e-8 + 1e-6 * abs(constant)
    return constant - tolerance, constant + tolerance
