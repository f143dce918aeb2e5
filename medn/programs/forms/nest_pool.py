"""A form that reads programs as wholes, over rows that hold their nests one by one."""

from __future__ import annotations

import numpy as np

from medn.core.checking import check_array
from medn.core.table import Array
from medn.programs.encodings import HEAD
from medn.programs.loops import COMPONENTS, NEST_SIZE
from medn.programs.pooled_nests import pooled_nests, pooled_width
from medn.regressors.form import Form, Parts, forms


@forms.register
class NestPool(Form):
    name = "nest_pool"
    description = (
        "another form on the pooled nests of a tensor program, times what they take at the rates of the device"
    )

    def __init__(self, form: Form, rates: Array) -> None:
        self.form = form
        self.rates = np.asarray(rates, dtype=np.float64)
        self.token_size = NEST_SIZE

    def log_value(self, inputs: Array) -> Array:
        pooled = pooled_nests(np.asarray(inputs, dtype=np.float32), self.rates)
        return self.form.run(pooled) + np.log(pooled[:, 0])

    def run(self, inputs: Array) -> Array:
        """There is no flat program of it, but of the form inside."""
        return self.log_value(inputs)

    def check(self, width: int) -> None:
        check_array("the rates of a pool", self.rates, (len(self.rates), len(COMPONENTS)), low=0.0)
        if (width - HEAD) % (2 + NEST_SIZE):
            raise ValueError(f"rows of {width} numbers are no sequences of nests")

    @classmethod
    def inner_widths(cls, parts: Parts, width: int) -> tuple[int, ...]:
        return (pooled_width(len(parts.arrays["rates"]) - 1),)

    def parts(self) -> Parts:
        return Parts(self.name, {}, {"rates": self.rates}, inner=(self.form.parts(),))

    @classmethod
    def from_parts(cls, parts: Parts, inner: tuple[Form, ...]) -> NestPool:
        return cls(inner[0], parts.arrays["rates"])
