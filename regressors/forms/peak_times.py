"""How long the work of a layer takes at the peaks of data sheets, each device's time with a weight of its own."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np

from medn.core.checking import check_array
from medn.core.table import Array
from medn.program.formulas import rows_of
from medn.regressors.form import Form, Parts, forms
from medn.regressors.forms.roofline import Columns


@forms.register
class PeakTimes(Form):
    """A weighted sum of the logarithms of what devices take at best: arithmetic and traffic, one after the other, and
    what no work can avoid."""

    name = "peak_times"
    description = "the work at the peaks of data sheets"

    def __init__(self, columns: Columns, rates: Array, weights: Array) -> None:
        self.columns = columns
        self.rates = rates
        """Of each device the FLOPs and the bytes per second, and how often per second nothing can be begun."""
        self.weights = weights

    def log_value(self, inputs: Array) -> Array:
        total: Array = rows_of(inputs, 0.0)
        for time, weight in zip(self.times(inputs), self.weights.tolist(), strict=True):
            total = total + weight * time
        return total

    def times(self, inputs: Array) -> list[Array]:
        """The logarithm of the seconds on each device."""
        work = np.exp(self.columns.log_work(inputs))
        found = []
        for flops, moved, begun in self.rates.tolist():
            found.append(np.log(work[:, 0] / flops + work[:, 1] / moved + 1.0 / begun))
        return found

    def check(self, width: int) -> None:
        self.columns.check(width)
        count = len(self.weights)
        if not count:
            raise ValueError("times at the peaks need a device")
        check_array("the rates of devices", self.rates, (count, 3), "f", 1e-6, 1e36)
        check_array("the weights of devices", self.weights, (count,), "f", -1e3, 1e3)

    def parts(self) -> Parts:
        return Parts(self.name, {"columns": asdict(self.columns)}, {"rates": self.rates, "weights": self.weights})

    @classmethod
    def from_parts(cls, parts: Parts, inner: tuple[Form, ...]) -> PeakTimes:
        written = parts.facts["columns"]
        columns = Columns(**{**written, "traffic": tuple(written["traffic"])})
        return cls(columns, parts.arrays["rates"], parts.arrays["weights"])
