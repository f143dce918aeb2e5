"""The same latency for every input."""

from __future__ import annotations

import numpy as np

from medn.core.checking import LARGEST_LOG, check_numbers
from medn.core.table import Array
from medn.program.formulas import rows_of
from medn.regressors.form import Form, Parts, forms


@forms.register
class Constant(Form):
    name = "constant"
    description = "the same latency for every input"

    def __init__(self, log_value: float) -> None:
        self.value = log_value

    def log_value(self, inputs: Array) -> Array:
        found: Array = rows_of(inputs, self.value)
        return found

    def gradient(self, inputs: Array) -> Array:
        return np.zeros(inputs.shape)

    def check(self, width: int) -> None:
        check_numbers("a constant latency", [self.value], -LARGEST_LOG, LARGEST_LOG)

    def parts(self) -> Parts:
        return Parts(self.name, {"log_value": self.value})

    @classmethod
    def from_parts(cls, parts: Parts, inner: tuple[Form, ...]) -> Constant:
        facts = parts.facts
        return cls(facts["log_latency"] if "log_latency" in facts else facts["log_value"])  # as it was called before
