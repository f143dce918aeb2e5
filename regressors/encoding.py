"""A table's inputs as numbers on one scale, for every regressor that measures distances or multiplies weights.

Sizes grow by factors, so columns that span more than a decade are taken as logarithms. All numeric columns are then
standardised, and every category becomes a column of its own; an unknown category is zero in all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medn.core.checking import check_array
from medn.core.table import Array, Schema
from medn.core.text import shown

PREFIX = "encoding_"

MOST_COLUMNS = 16_384
SMALLEST = 1e-37
"""Of the numbers that single precision holds in full."""


@dataclass(frozen=True, eq=False)
class Encoding:
    """How inputs become columns of similar size: first the numeric ones, then one per category.

    >>> schema = Schema(("flops", "function"), {"function": ("relu", "tanh")})
    >>> encoding = Encoding.fit(schema, np.array([[1e3, 0], [1e9, 1]]))
    >>> encoding.names
    ('log flops', 'function=relu', 'function=tanh')
    >>> encoding.transform(np.array([[1e9, 1], [1e3, -1]])).round(3).tolist()
    [[1.0, 0.0, 1.0], [-1.0, 0.0, 0.0]]
    """

    names: tuple[str, ...]
    numeric: NDArray[np.int32]
    """Where each numeric column is in the inputs, those taken as logarithms first."""
    unit: Array
    """What one is in the logarithm of one plus the value, per column taken as a logarithm."""
    centre: Array
    factor: Array
    """Zero for a constant column, so that it stays out of the way wherever it moves to later."""
    categorical: NDArray[np.int32]
    """Where the categorical column behind each category is in the inputs."""
    code: Array
    """The code of each category."""

    @classmethod
    def fit(cls, schema: Schema, inputs: Array) -> Encoding:
        columns = {name: inputs[:, schema.index(name)] for name in schema.numeric}
        logged = [name for name, values in columns.items() if _grows_by_factors(values)]
        plain = [name for name in columns if name not in logged]
        units = {name: _unit(columns[name]) for name in logged}
        scaled = [np.log1p(columns[name] / units[name]) for name in logged] + [columns[name] for name in plain]
        spread = np.array([values.std() for values in scaled])
        varies = spread > [1e-9 * np.abs(values).max() for values in scaled]
        categories = [(name, code) for name, known in schema.categories.items() for code in range(len(known))]
        return cls(
            names=(
                *(f"log {name}" for name in logged),
                *plain,
                *(f"{name}={schema.categories[name][code]}" for name, code in categories),
            ),
            numeric=np.array([schema.index(name) for name in logged + plain], dtype=np.int32),
            unit=np.array(list(units.values()), dtype=np.float64),
            centre=np.array([values.mean() for values in scaled]),
            factor=np.divide(1.0, spread, out=np.zeros_like(spread), where=varies),
            categorical=np.array([schema.index(name) for name, _ in categories], dtype=np.int32),
            code=np.array([code for _, code in categories], dtype=np.float64),
        )

    @property
    def width(self) -> int:
        return len(self.names)

    def transform(self, inputs: NDArray[Any]) -> NDArray[Any]:
        """`width` columns for each row of inputs; a formula, which is traced with symbols too."""
        logged, plain = np.split(self.numeric, [len(self.unit)])
        parts = []
        if len(logged):
            parts.append(np.log(np.maximum(inputs.take(logged, axis=1), 0.0) + self.unit))
        if len(plain):
            parts.append(inputs.take(plain, axis=1))
        values = np.concatenate(parts, axis=1) if parts else inputs.take(self.numeric, axis=1)
        values = (values - self._centre) * self.factor
        if not len(self.code):
            return values
        return np.concatenate((values, (inputs.take(self.categorical, axis=1) == self.code) * 1.0), axis=1)

    def pull_back(self, inputs: Array, gradient: Array) -> Array:
        """The gradient by the inputs, of something whose gradient by the encoded columns is given, row by row."""
        values = inputs.take(self.numeric, axis=1)
        logged = values[:, : len(self.unit)]
        slopes = np.tile(self.factor, (len(inputs), 1))
        slopes[:, : len(self.unit)] *= np.where(logged > 0, 1 / (np.maximum(logged, 0) + self.unit), 0)
        pulled = np.zeros(inputs.shape)
        pulled[:, self.numeric] = gradient[:, : len(self.numeric)] * slopes
        return pulled

    @cached_property
    def _centre(self) -> Array:
        """The centre of log(unit + x), which is quicker than log1p."""
        centre = self.centre.copy()
        centre[: len(self.unit)] += np.log(self.unit)
        return centre

    def check(self, width: int) -> None:
        """That it takes rows of so many inputs; numbers keep to what single precision holds."""
        numbers, categories = len(self.numeric), len(self.code)
        if len(self.names) != numbers + categories or len(self.names) > MOST_COLUMNS:
            raise ValueError(f"an encoding names {len(self.names)} columns and makes {numbers + categories}")
        for name in self.names:
            if not isinstance(name, str):
                raise ValueError(f"the columns of an encoding must have names (got {shown(name)})")
        check_array("the columns of an encoding", self.numeric, (numbers,), "i", 0, width - 1)
        check_array("the categories of an encoding", self.categorical, (categories,), "i", 0, width - 1)
        check_array("the codes of an encoding", self.code, (categories,))
        check_array("the units of an encoding", self.unit, (min(len(self.unit), numbers),), "f", SMALLEST, 1 / SMALLEST)
        check_array("the centres of an encoding", self.centre, (numbers,), "f", -1 / SMALLEST, 1 / SMALLEST)
        check_array("the factors of an encoding", self.factor, (numbers,), "f", -1 / SMALLEST, 1 / SMALLEST)

    @property
    def facts(self) -> dict[str, Any]:
        """What JSON holds of this encoding, ready to stand among the facts of a form."""
        return {"encoding": list(self.names)}

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays of this encoding, named so that they can stand among the arrays of a form."""
        fields = ("numeric", "unit", "centre", "factor", "categorical", "code")
        return {PREFIX + field: getattr(self, field) for field in fields}

    @classmethod
    def restore(cls, facts: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Encoding:
        own = {name.removeprefix(PREFIX): array for name, array in arrays.items() if name.startswith(PREFIX)}
        return cls(names=tuple(facts["encoding"]), **own)


def _unit(values: Array) -> float:
    """Positive columns may be far below one (seconds, shares): their smallest value is the unit there."""
    return min(1.0, float(values.min())) if values.min() > 0 else 1.0


def _grows_by_factors(values: Array) -> bool:
    """Whether a column spans more than a decade. Shares spread over zero to one do not count, small as some may be."""
    lowest, highest = float(values.min()), float(values.max())
    if lowest < 0 or (highest <= 1 and float(np.median(values)) > highest / 10):
        return False
    unit = _unit(values)
    return (unit + highest) / (unit + lowest) > 10
