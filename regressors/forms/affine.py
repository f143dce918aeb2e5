"""What was learned as a weighted sum of input columns plus a constant, never below a floor."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from medn.core.checking import check_array, check_numbers
from medn.core.table import Array
from medn.regressors.form import Form, Parts, forms


@forms.register
class Affine(Form):
    name = "affine"
    description = "seconds as a weighted sum of input columns"

    def __init__(self, columns: NDArray[np.int32], weights: Array, constant: float, floor: float) -> None:
        self.columns = columns
        self.weights = weights
        self.constant = constant
        self.floor = floor

    def log_value(self, inputs: Array) -> Array:
        value = inputs.take(self.columns, axis=1) @ self.weights + self.constant
        return np.log(np.maximum(value, self.floor))

    def check(self, width: int) -> None:
        count = len(self.columns)
        check_array("the columns of a sum", self.columns, (count,), "i", 0, width - 1)
        check_array("the weights of a sum", self.weights, (count,))
        check_numbers("the constant of a sum", [self.constant])
        check_numbers("the least value of a sum", [self.floor], 1e-30, 1e30)

    def parts(self) -> Parts:
        facts = {"constant_s": self.constant, "floor_s": self.floor}
        return Parts(self.name, facts, {"columns": self.columns, "weights": self.weights})

    @classmethod
    def from_parts(cls, parts: Parts, inner: tuple[Form, ...]) -> Affine:
        arrays, facts = parts.arrays, parts.facts
        return cls(arrays["columns"], arrays["weights"], facts["constant_s"], facts["floor_s"])
