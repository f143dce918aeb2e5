"""A deployed predictor: from inputs to a quantity, its interval, and whether they lie where was measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from medn.core.intervals import Interval
from medn.core.ranges import Flags, MeasuredRange
from medn.core.table import Array, Schema
from medn.core.values import Scalar
from medn.deployed.beyond import HELD, seen_from_the_edge
from medn.program.formulas import either
from medn.regressors.form import Form


class Answer(NamedTuple):
    """What is said of some rows, in the unit of the quantity that was learned."""

    value: Array
    low: Array
    high: Array
    inside: Flags
    """Whether each row lies in the range that was measured."""


@dataclass(frozen=True, eq=False)
class Deployed:
    """Everything that predicts one kind on one device. Whoever tells an error or a coverage tells that of this."""

    form: Form
    range: MeasuredRange
    interval: Interval
    constants: Mapping[str, Scalar]
    """Columns that never varied while measuring."""
    way: str = HELD
    """What is predicted beyond the range: one of `medn.deployed.beyond.WAYS`."""
    roofline: Form | None = None
    """The seconds that the work alone explains, to go on with beyond the range; None where nobody knows."""

    @property
    def schema(self) -> Schema:
        return self.range.schema

    def predict(self, inputs: Array) -> Array:
        """The quantity that was learned, in its unit."""
        return self.answer(inputs).value

    def bounds(self, inputs: Array) -> tuple[Array, Array]:
        """The lowest and the highest value that the interval holds."""
        found = self.answer(inputs)
        return found.low, found.high

    def answer(self, inputs: Array) -> Answer:
        """What is said of rows; a formula, which is traced with symbols too."""
        distance, inside = self.range.place(inputs)
        # Forms take longest, so they are asked once: of rows inside as they are, of others at the nearest edge.
        (seen,) = either(inside, lambda rows: (rows,), lambda rows: (self.range.clip(rows),), inputs)
        found = self.form.log_value(seen)
        logs, widths = either(inside, self._inside, self._outside, inputs, distance, found)
        with np.errstate(over="ignore"):  # who asks for the impossible is told so elsewhere
            value, factor = np.exp(logs), np.exp(widths)
            return Answer(value, value / factor, value * factor, inside)

    def _inside(self, inputs: Array, distance: Array, logs: Array) -> tuple[Array, Array]:
        """The logarithm of the value, and the width of its interval."""
        return logs, self.interval.width(logs, distance)

    def _outside(self, inputs: Array, distance: Array, edge: Array) -> tuple[Array, Array]:
        roofline = self.roofline.log_value if self.roofline else None
        beyond = seen_from_the_edge(inputs, distance, self.range, self.form.log_value, roofline, edge)
        logs = beyond.log_value(self.way)
        return logs, self.interval.width_beyond(edge, logs, distance, beyond.far)
