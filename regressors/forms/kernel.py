"""A sum of bells around chosen measured points, as support vector regression leaves it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from medn.core.checking import check_array, check_numbers
from medn.core.table import Array
from medn.regressors.distances import Points
from medn.regressors.encoding import Encoding
from medn.regressors.form import Form, Parts, register_form


@register_form
class Kernel(Form):
    """Far from all points it is `constant`."""

    form = "kernel"

    def __init__(
        self, encoding: Encoding, points: NDArray[np.float32], weights: Array, constant: float, gamma: float
    ) -> None:
        self.encoding = encoding
        self.points = Points(points)
        self.weights = weights
        self.constant = constant
        self.gamma = gamma

    def log_value(self, inputs: Array) -> Array:
        return self.points.map(self.encoding.transform(inputs), self._sum)

    def _sum(self, squared: Array) -> Array:
        squared *= -self.gamma
        return np.asarray(np.exp(squared, out=squared) @ self.weights + self.constant)

    def check(self, width: int) -> None:
        self.encoding.check(width)
        count = len(self.points.saved)
        check_array("the points of a kernel", self.points.saved, (count, self.encoding.width))
        check_array("the weights of a kernel", self.weights, (count,))
        check_numbers("the constant of a kernel", [self.constant])
        check_numbers("the gamma of a kernel", [self.gamma], 0.0)

    def parts(self) -> Parts:
        facts = {"constant": self.constant, "gamma": self.gamma, **self.encoding.facts}
        return Parts(self.form, facts, {"points": self.points.saved, "weights": self.weights, **self.encoding.arrays})

    @classmethod
    def from_parts(cls, parts: Parts) -> Kernel:
        arrays, facts = parts.arrays, parts.facts
        encoding = Encoding.restore(facts, arrays)
        return cls(encoding, arrays["points"], arrays["weights"], facts["constant"], facts["gamma"])
