"""The mean of the nearest measured points, nearer ones counting more."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from medn.core.checking import LARGEST_LOG, check_array, check_numbers, check_whole
from medn.core.table import Array
from medn.regressors.distances import Points, near_points
from medn.regressors.encoding import Encoding
from medn.regressors.form import Form, Parts, forms

TOUCHING = 1e-6
"""A distance below which a point is as good as met: it outweighs all others."""

HIGHEST_POWER = 32.0
"""Of a distance; with more than this the weight of a point that is touched is no number."""


@forms.register
class Nearest(Form):
    name = "nearest"
    description = "the mean of the nearest measured points"

    def __init__(
        self,
        encoding: Encoding,
        relevance: Array,
        points: NDArray[np.float32],
        values: NDArray[np.float32],
        neighbours: int,
        power: float,
    ) -> None:
        self.encoding = encoding
        self.relevance = relevance
        """How much each encoded column counts in the distance; the points are scaled by it already."""
        self.points = Points(points)
        self.values = values
        self.neighbours = neighbours
        self.power = power
        """How fast a point counts less with its distance; 0 for a plain mean."""

    def log_value(self, inputs: Array) -> Array:
        encoded = self.encoding.transform(inputs) * self.relevance
        facts = (self.values, self.neighbours, self.power)
        found: Array = near_points("nearest", encoded, self.points, self._mean, facts)
        return found

    def _mean(self, squared: Array) -> Array:
        if self.neighbours < squared.shape[1]:
            nearest = np.argpartition(squared, self.neighbours - 1, axis=1)[:, : self.neighbours]
            squared = np.take_along_axis(squared, nearest, axis=1)
            values = self.values[nearest]
        else:
            values = np.broadcast_to(self.values, squared.shape)
        weights = (np.sqrt(squared) + TOUCHING) ** -self.power
        return np.asarray((weights * values).sum(axis=1) / weights.sum(axis=1))

    def check(self, width: int) -> None:
        self.encoding.check(width)
        count = len(self.points.saved)
        if not count:
            raise ValueError("the nearest of no points is none")
        check_array("the points", self.points.saved, (count, self.encoding.width))
        check_array("the values of points", self.values, (count,), low=-LARGEST_LOG, high=LARGEST_LOG)
        check_array("the relevance of columns", self.relevance, (self.encoding.width,))
        check_whole("the number of neighbours", self.neighbours, 1, 1_000_000)
        check_numbers("the power of distances", [self.power], 0.0, HIGHEST_POWER)

    def parts(self) -> Parts:
        facts = {"neighbours": self.neighbours, "power": self.power, **self.encoding.facts}
        own: dict[str, NDArray[Any]] = {"relevance": self.relevance, "points": self.points.saved, "values": self.values}
        return Parts(self.name, facts, {**own, **self.encoding.arrays})

    @classmethod
    def from_parts(cls, parts: Parts, inner: tuple[Form, ...]) -> Nearest:
        arrays, facts = parts.arrays, parts.facts
        encoding = Encoding.restore(facts, arrays)
        relevance, points, values = (arrays[name] for name in ("relevance", "points", "values"))
        return cls(encoding, relevance, points, values, facts["neighbours"], facts["power"])
