"""A sum of kernels around measured points, as support vector regression and Gaussian processes leave it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from medn.core.checking import check_array, check_numbers
from medn.core.table import Array
from medn.core.text import shown
from medn.regressors.distances import Points, near_points
from medn.regressors.encoding import SMALLEST, Encoding
from medn.regressors.form import Form, Parts, forms

GAUSSIAN, MATERN = "gaussian", "matern52"
SHAPES = (GAUSSIAN, MATERN)


def matern(squared: Array) -> tuple[Array, Array]:
    """The Matern 5/2 kernel of squared distances, and its derivative by them.

    >>> [part.tolist() for part in matern(np.zeros(1))]
    [[1.0], [-0.8333333333333334]]
    """
    distance = np.sqrt(5.0 * squared)
    decay = np.exp(-distance)
    return (1.0 + distance * (1.0 + distance / 3.0)) * decay, (-5.0 / 6.0) * (1.0 + distance) * decay


@forms.register
class Kernel(Form):
    """Far from all points it is `constant`."""

    name = "kernel"
    description = "a sum of bells around measured points"

    def __init__(
        self,
        encoding: Encoding,
        points: NDArray[np.float32],
        weights: Array,
        constant: float,
        gamma: float,
        scale: Array | None = None,
        shape: str = GAUSSIAN,
    ) -> None:
        self.encoding = encoding
        self.points = Points(points)
        self.weights = weights
        self.constant = constant
        self.gamma = gamma
        self.scale = scale
        """What each encoded column is multiplied by; the points are saved multiplied. None for 1 everywhere."""
        self.shape = shape

    def log_value(self, inputs: Array) -> Array:
        encoded = self.encoding.transform(inputs)
        if self.scale is not None:
            encoded = encoded * self.scale
        found: Array = near_points("kernel", encoded, self.points, self._sum, (self.weights, self.gamma, self.shape))
        return found + self.constant

    def _sum(self, squared: Array) -> Array:
        squared *= self.gamma
        kernel = np.exp(-squared) if self.shape == GAUSSIAN else matern(squared)[0]
        return np.asarray(kernel @ self.weights)

    def check(self, width: int) -> None:
        self.encoding.check(width)
        count = len(self.points.saved)
        check_array("the points of a kernel", self.points.saved, (count, self.encoding.width))
        check_array("the weights of a kernel", self.weights, (count,))
        check_numbers("the constant of a kernel", [self.constant])
        check_numbers("the gamma of a kernel", [self.gamma], 0.0)
        if self.scale is not None:
            check_array("the scale of a kernel", self.scale, (self.encoding.width,), "f", 0.0, 1 / SMALLEST)
        if self.shape not in SHAPES:
            raise ValueError(f"the shape of a kernel must be one of {', '.join(SHAPES)} (got {shown(self.shape)})")

    def parts(self) -> Parts:
        facts = {"constant": self.constant, "gamma": self.gamma, "shape": self.shape, **self.encoding.facts}
        arrays = {**self.encoding.arrays, "points": self.points.saved, "weights": self.weights}
        if self.scale is not None:
            arrays["scale"] = self.scale
        return Parts(self.name, facts, arrays)

    @classmethod
    def from_parts(cls, parts: Parts, inner: tuple[Form, ...]) -> Kernel:
        arrays, facts = parts.arrays, parts.facts
        encoding = Encoding.restore(facts, arrays)
        scale, shape = arrays.get("scale"), facts.get("shape", GAUSSIAN)
        return cls(encoding, arrays["points"], arrays["weights"], facts["constant"], facts["gamma"], scale, shape)
