"""A polynomial of the encoded inputs, up to products of two of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from medn.core.checking import LARGEST_LOG, check_array, check_numbers
from medn.core.table import Array
from medn.program.formulas import in_blocks, rows_of
from medn.regressors.encoding import Encoding
from medn.regressors.form import Form, Parts, forms

NUMBERS_AT_ONCE = 1 << 22
"""Products that are held in memory together."""


def products(encoded: Array, first: NDArray[np.int32], second: NDArray[np.int32]) -> Array:
    """Products of pairs of encoded columns, where place 0 stands for one and place n for encoded column n - 1."""
    columns: Array = np.concatenate((rows_of(encoded, 1.0)[:, None], encoded), axis=1)
    found: Array = columns.take(first, axis=1) * columns.take(second, axis=1)
    return found


@forms.register
class Polynomial(Form):
    """Far outside the measured range a parabola leads anywhere, so the result keeps to `lowest` and `highest`."""

    name = "polynomial"
    description = "a polynomial of the encoded inputs"

    def __init__(
        self,
        encoding: Encoding,
        first: NDArray[np.int32],
        second: NDArray[np.int32],
        weights: Array,
        lowest: float,
        highest: float,
    ) -> None:
        self.encoding = encoding
        self.first = first
        self.second = second
        self.weights = weights
        self.lowest = lowest
        self.highest = highest

    def log_value(self, inputs: Array) -> Array:
        return in_blocks(inputs, self._value, NUMBERS_AT_ONCE // max(1, len(self.weights)))

    def _value(self, inputs: Array) -> Array:
        found = products(self.encoding.transform(inputs), self.first, self.second) @ self.weights
        return np.clip(found, self.lowest, self.highest)

    def check(self, width: int) -> None:
        self.encoding.check(width)
        count = len(self.weights)
        for places in (self.first, self.second):
            check_array("the factors of a polynomial", places, (count,), "i", 0, self.encoding.width)
        check_array("the weights of a polynomial", self.weights, (count,))
        check_numbers("the bounds of a polynomial", [self.lowest], -LARGEST_LOG, LARGEST_LOG)
        check_numbers("the bounds of a polynomial", [self.highest], self.lowest, LARGEST_LOG)

    def parts(self) -> Parts:
        facts = {"lowest": self.lowest, "highest": self.highest, **self.encoding.facts}
        own: dict[str, NDArray[Any]] = {"first": self.first, "second": self.second, "weights": self.weights}
        return Parts(self.name, facts, {**own, **self.encoding.arrays})

    @classmethod
    def from_parts(cls, parts: Parts, inner: tuple[Form, ...]) -> Polynomial:
        arrays, facts = parts.arrays, parts.facts
        encoding = Encoding.restore(facts, arrays)
        return cls(encoding, arrays["first"], arrays["second"], arrays["weights"], facts["lowest"], facts["highest"])
