"""Seconds as a weighted sum of input columns plus a constant, never below a floor."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from medn.core.checking import check_array, check_numbers
from medn.core.table import Array
from medn.regressors.form import Form, Parts, register_form


@register_form
class Affine(Form):
    form = "affine"

    def __init__(self, columns: NDArray[np.int32], weights: Array, constant_s: float, floor_s: float) -> None:
        self.columns = columns
        self.weights = weights
        self.constant_s = constant_s
        self.floor_s = floor_s

    def log_latency(self, inputs: Array) -> Array:
        seconds = inputs.take(self.columns, axis=1) @ self.weights + self.constant_s
        return np.log(np.maximum(seconds, self.floor_s))

    def one(self, row: Array) -> float:
        return math.log(max(float(row.take(self.columns).dot(self.weights)) + self.constant_s, self.floor_s))

    def check(self, width: int) -> None:
        count = len(self.columns)
        check_array("the columns of a sum", self.columns, (count,), "i", 0, width - 1)
        check_array("the weights of a sum", self.weights, (count,))
        check_numbers("the constant of a sum", [self.constant_s])
        check_numbers("the least seconds of a sum", [self.floor_s], 1e-30, 1e30)

    def parts(self) -> Parts:
        facts = {"constant_s": self.constant_s, "floor_s": self.floor_s}
        return Parts(self.form, facts, {"columns": self.columns, "weights": self.weights})

    @classmethod
    def from_parts(cls, parts: Parts) -> Affine:
        arrays, facts = parts.arrays, parts.facts
        return cls(arrays["columns"], arrays["weights"], facts["constant_s"], facts["floor_s"])
