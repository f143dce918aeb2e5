"""The mean of the nearest measured points, nearer ones counting more."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from medn.core.table import Array
from medn.regressors.distances import Points
from medn.regressors.encoding import Encoding
from medn.regressors.form import Form, Parts, register_form

TOUCHING = 1e-6
"""A distance below which a point is as good as met: it outweighs all others."""


@register_form
class Nearest(Form):
    form = "nearest"

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

    def log_latency(self, inputs: Array) -> Array:
        return self.points.map(self.encoding.transform(inputs) * self.relevance, self._mean)

    def _mean(self, squared: Array) -> Array:
        if self.neighbours < squared.shape[1]:
            nearest = np.argpartition(squared, self.neighbours - 1, axis=1)[:, : self.neighbours]
            squared = np.take_along_axis(squared, nearest, axis=1)
            values = self.values[nearest]
        else:
            values = np.broadcast_to(self.values, squared.shape)
        weights = (np.sqrt(squared) + TOUCHING) ** -self.power
        return np.asarray((weights * values).sum(axis=1) / weights.sum(axis=1))

    def parts(self) -> Parts:
        facts = {"neighbours": self.neighbours, "power": self.power, **self.encoding.facts}
        own: dict[str, NDArray[Any]] = {"relevance": self.relevance, "points": self.points.saved, "values": self.values}
        return Parts(self.form, facts, {**own, **self.encoding.arrays})

    @classmethod
    def from_parts(cls, parts: Parts) -> Nearest:
        arrays, facts = parts.arrays, parts.facts
        encoding = Encoding.restore(facts, arrays)
        relevance, points, values = (arrays[name] for name in ("relevance", "points", "values"))
        return cls(encoding, relevance, points, values, facts["neighbours"], facts["power"])
