"""A network as it is deployed: matrix products in numpy, from the inputs to the logarithm of the latency.

It holds the path to the latency alone; what a network learned beside it stays with the training.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from medn.core.table import Array
from medn.regressors.encoding import Encoding
from medn.regressors.form import Form, Parts, register_form

Values = NDArray[np.float32]
Step = tuple[str, Mapping[str, Values]]

CHUNK = 512
"""Rows at a time, so that the values between two steps stay in the cache."""


def waves(values: Values, frequencies: Values) -> Values:
    """The columns, and sines and cosines of the numeric ones, which come first."""
    numeric, count = frequencies.shape
    rows, width = values.shape
    angles = (values[:, :numeric, None] * frequencies).reshape(rows, numeric * count)
    result = np.empty((rows, width + 2 * numeric * count), dtype=np.float32)
    result[:, :width] = values
    np.sin(angles, out=result[:, width : width + numeric * count])
    np.cos(angles, out=result[:, width + numeric * count :])
    return result


def dense(values: Values, weight: Values, bias: Values) -> Values:
    result: Values = values.dot(weight)  # quicker than @ for a single row
    result += bias
    return result


def silu(values: Values) -> Values:
    """Each value times its sigmoid."""
    result = np.negative(values)
    np.exp(result, out=result)
    result += 1
    return np.divide(values, result, out=result)


def residual(values: Values, up_weight: Values, up_bias: Values, down_weight: Values, down_bias: Values) -> Values:
    result = dense(silu(dense(silu(values), up_weight, up_bias)), down_weight, down_bias)
    result += values
    return result


STEPS: Mapping[str, Callable[..., Values]] = {"waves": waves, "dense": dense, "silu": silu, "residual": residual}


@register_form
class NetworkForm(Form):
    """An encoding, steps, and the bounds that the result is kept in."""

    form: ClassVar[str] = "network"

    def __init__(self, encoding: Encoding, steps: Sequence[Step], bounds: tuple[float, float]) -> None:
        self.encoding = encoding
        self.steps = tuple(steps)
        self.bounds = bounds

    def log_latency(self, inputs: Array) -> Array:
        # Far below zero the exponential in `silu` is infinite, and its result the zero that it should be.
        with np.errstate(over="ignore"):
            if len(inputs) <= CHUNK:
                return self._chunk(inputs)
            return np.concatenate(
                [self._chunk(inputs[start : start + CHUNK]) for start in range(0, len(inputs), CHUNK)]
            )

    def _chunk(self, inputs: Array) -> Array:
        values = self.encoding.transform(inputs).astype(np.float32)
        for name, arrays in self.steps:
            values = STEPS[name](values, *arrays.values())
        low, high = self.bounds
        return np.minimum(np.maximum(values[:, 0].astype(np.float64), low), high)

    def parts(self) -> Parts:
        arrays = {
            f"{place}.{name}": array for place, (_, arrays) in enumerate(self.steps) for name, array in arrays.items()
        }
        facts = {"steps": [[name, list(arrays)] for name, arrays in self.steps], "bounds": list(self.bounds)}
        return Parts(self.form, facts | self.encoding.facts, arrays | self.encoding.arrays)

    @classmethod
    def from_parts(cls, parts: Parts) -> NetworkForm:
        facts: Mapping[str, Any] = parts.facts
        steps = [
            (name, {array: parts.arrays[f"{place}.{array}"] for array in arrays})
            for place, (name, arrays) in enumerate(facts["steps"])
        ]
        low, high = facts["bounds"]
        return cls(Encoding.restore(parts.facts, parts.arrays), steps, (low, high))
