"""The same latency for every input."""

from __future__ import annotations

import numpy as np

from medn.core.checking import LARGEST_LOG, check_numbers
from medn.core.table import Array
from medn.regressors.form import Form, Parts, register_form


@register_form
class Constant(Form):
    form = "constant"

    def __init__(self, log_value: float) -> None:
        self.value = log_value

    def log_value(self, inputs: Array) -> Array:
        return np.full(len(inputs), self.value)

    def one(self, row: Array) -> float:
        return self.value

    def gradient(self, inputs: Array) -> Array:
        return np.zeros(inputs.shape)

    def check(self, width: int) -> None:
        check_numbers("a constant latency", [self.value], -LARGEST_LOG, LARGEST_LOG)

    def parts(self) -> Parts:
        return Parts(self.form, {"log_value": self.value})

    @classmethod
    def from_parts(cls, parts: Parts) -> Constant:
        return cls(**parts.facts)
