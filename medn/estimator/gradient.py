"""How latency changes with each parameter of a layer, where the form knows how it changes with its inputs.

The inputs that follow from the parameters are differentiated through the kind's own formulas, with numbers that carry
their derivatives along. A division that rounds down counts as one that does not, as if sizes could change by a little;
remainders, which have no slope worth following, are held constant.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np

from medn.core.data_sheet import NO_SHEET, Sheet
from medn.core.errors import UsageError
from medn.core.table import Array, Schema
from medn.estimator.columns import Column
from medn.estimator.query import Query
from medn.layer_generators.features import analytic_features


class Slope:
    """A number and its derivatives by the parameters."""

    __slots__ = ("slope", "value")

    def __init__(self, value: float, slope: Array) -> None:
        self.value = value
        self.slope = slope

    def __add__(self, other: Any) -> Slope:
        value, slope = _parts(other)
        return Slope(self.value + value, self.slope + slope)

    __radd__ = __add__

    def __neg__(self) -> Slope:
        return Slope(-self.value, -self.slope)

    def __sub__(self, other: Any) -> Slope:
        return self.__add__(-other)

    def __rsub__(self, other: Any) -> Slope:
        return self.__neg__().__add__(other)

    def __mul__(self, other: Any) -> Slope:
        value, slope = _parts(other)
        return Slope(self.value * value, self.slope * value + self.value * slope)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Slope:
        value, slope = _parts(other)
        return Slope(self.value / value, (self.slope - self.value / value * slope) / value)

    def __rtruediv__(self, other: Any) -> Slope:
        return Slope(other, np.zeros_like(self.slope)) / self

    def __floordiv__(self, other: Any) -> Slope:
        exact = self / other
        return Slope(self.value // _parts(other)[0], exact.slope)

    def __rfloordiv__(self, other: Any) -> Slope:
        return Slope(other, np.zeros_like(self.slope)) // self

    def __mod__(self, other: Any) -> Slope:
        return Slope(self.value % _parts(other)[0], np.zeros_like(self.slope))

    def __pow__(self, exponent: float) -> Slope:
        return Slope(self.value**exponent, exponent * self.value ** (exponent - 1) * self.slope)

    def __lt__(self, other: Any) -> bool:
        return bool(self.value < _parts(other)[0])

    def __le__(self, other: Any) -> bool:
        return bool(self.value <= _parts(other)[0])

    def __gt__(self, other: Any) -> bool:
        return bool(self.value > _parts(other)[0])

    def __ge__(self, other: Any) -> bool:
        return bool(self.value >= _parts(other)[0])


def _parts(number: Any) -> tuple[Any, Any]:
    return (number.value, number.slope) if isinstance(number, Slope) else (number, 0.0)


def input_slopes(
    query: Query,
    opened: Mapping[str, Column],
    schema: Schema,
    held: Collection[str],
    sheet: Sheet = NO_SHEET,
) -> tuple[tuple[str, ...], Array]:
    """The parameters that some input depends on, and how each input changes with them: one row per input."""
    names = tuple(name for name, each in query.parameters.items() if each.type in (int, float))
    unit = np.eye(len(names))
    values: dict[str, Any] = {**opened, **{name: Slope(float(opened[name]), unit[i]) for i, name in enumerate(names)}}
    layer = SimpleNamespace(**{each.name: values[each.name] for each in query.kind.parameters})
    try:
        element_bytes = query.element_bytes[str(opened["dtype"])]
        values |= analytic_features(query.kind, layer, values["batch_size"], element_bytes, sheet)
    except TypeError as error:
        raise UsageError(f"the formulas of {query.kind.name} have no derivative: {error}") from None
    constant = np.zeros(len(names))
    moving = [name not in schema.categories and name not in held for name in schema.names]
    rows = [
        value.slope if moves and isinstance(value := values[name], Slope) else constant
        for name, moves in zip(schema.names, moving, strict=True)
    ]
    slopes = np.array(rows)
    moved = [place for place in range(len(names)) if slopes[:, place].any()]
    return tuple(names[place] for place in moved), slopes[:, moved]
