"""A network as it is deployed: matrix products, from the inputs to the logarithm of the latency.

It holds the path to the latency alone; what a network learned beside it stays with the training.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medn.core.checking import LARGEST_LOG, check_array, check_numbers
from medn.core.table import Array, Table
from medn.core.text import shown
from medn.program.formulas import dense, in_blocks, silu
from medn.regressors.encoding import Encoding
from medn.regressors.form import Form, Parts, forms

Values = NDArray[Any]
"""In single precision; in double precision for gradients."""
Step = tuple[str, Mapping[str, Values]]

BEYOND = float(np.log(1000.0))
"""Predictions stay within a factor of 1000 of the latencies learned from, whatever the inputs are."""

CHUNK = 512
"""Rows at a time, so that the values between two steps stay in the cache."""


# Each sort of step twice: what it computes, for arrays and symbols, and its gradient by what comes in, from the
# gradient by what comes out.


def waves(values: Values, frequencies: Values) -> Values:
    """The columns, and sines and cosines of the numeric ones, which come first."""
    angles = _angles(values, frequencies)
    return np.concatenate((values, np.sin(angles), np.cos(angles)), axis=1)


def _angles(values: Values, frequencies: Values) -> Values:
    numeric, count = frequencies.shape
    angles: Values = values.take(np.repeat(np.arange(numeric), count), axis=1) * frequencies.ravel()
    return angles


def waves_gradient(gradient: Values, values: Values, frequencies: Values) -> Values:
    numeric, count = frequencies.shape
    angles = _angles(values, frequencies)
    plain, by_sine, by_cosine = np.split(gradient, [values.shape[1], values.shape[1] + angles.shape[1]], axis=1)
    by_angles = by_sine * np.cos(angles) - by_cosine * np.sin(angles)
    result = plain.copy()
    result[:, :numeric] += (by_angles.reshape(len(values), numeric, count) * frequencies).sum(axis=2)
    return result


def dense_gradient(gradient: Values, values: Values, weight: Values, bias: Values) -> Values:
    return np.asarray(gradient @ weight.T)


def silu_gradient(gradient: Values, values: Values) -> Values:
    sigmoid = 1 / (1 + np.exp(-values))
    return np.asarray(gradient * sigmoid * (1 + values * (1 - sigmoid)))


def residual(values: Values, up_weight: Values, up_bias: Values, down_weight: Values, down_bias: Values) -> Values:
    inner = dense(silu(dense(silu(values), up_weight, up_bias)), down_weight, down_bias)
    result: Values = inner + values
    return result


def residual_gradient(gradient: Values, values: Values, *arrays: Values) -> Values:
    up_weight, up_bias, down_weight, down_bias = arrays
    outer = silu(values)
    inner = dense(outer, up_weight, up_bias)
    by_inner = silu_gradient(dense_gradient(gradient, inner, down_weight, down_bias), inner)
    return gradient + silu_gradient(dense_gradient(by_inner, outer, up_weight, up_bias), values)


STEPS: Mapping[str, Callable[..., Values]] = {"waves": waves, "dense": dense, "silu": silu, "residual": residual}
GRADIENTS: Mapping[str, Callable[..., Values]] = {
    "waves": waves_gradient,
    "dense": dense_gradient,
    "silu": silu_gradient,
    "residual": residual_gradient,
}

ARRAYS: Mapping[str, tuple[str, ...]] = {
    "waves": ("frequencies",),
    "dense": ("weight", "bias"),
    "silu": (),
    "residual": ("up_weight", "up_bias", "down_weight", "down_bias"),
}
MOST_COLUMNS = 16_384


# How many columns each step makes of so many, once its arrays are known to fit them.


def waves_width(columns: int, frequencies: Values) -> int:
    numeric, count = frequencies.shape if frequencies.ndim == 2 else (columns + 1, 0)
    check_array("the frequencies of waves", frequencies, (min(numeric, columns), count))
    return columns + 2 * int(numeric) * int(count)


def dense_width(columns: int, weight: Values, bias: Values) -> int:
    check_array("the bias of a dense step", bias, (bias.size,))
    check_array("the weight of a dense step", weight, (columns, bias.size))
    return bias.size


def silu_width(columns: int) -> int:
    return columns


def residual_width(columns: int, up_weight: Values, up_bias: Values, down_weight: Values, down_bias: Values) -> int:
    back = dense_width(dense_width(columns, up_weight, up_bias), down_weight, down_bias)
    if back != columns or up_bias.size > MOST_COLUMNS:
        raise ValueError("a residual step must lead back to as many columns as it began with")
    return columns


WIDTHS: Mapping[str, Callable[..., int]] = {
    "waves": waves_width,
    "dense": dense_width,
    "silu": silu_width,
    "residual": residual_width,
}


@forms.register
class NetworkForm(Form):
    """An encoding, steps, and the bounds that the result is kept in."""

    name = "network"
    description = "a small neural network"

    def __init__(self, encoding: Encoding, steps: Sequence[Step], bounds: tuple[float, float]) -> None:
        self.encoding = encoding
        self.steps = tuple(steps)
        self.bounds = bounds

    def log_value(self, inputs: Array) -> Array:
        # Far below zero the exponential in `silu` is infinite, and its result the zero that it should be.
        with np.errstate(over="ignore"):
            return in_blocks(inputs, self._value, CHUNK)

    def _value(self, inputs: Array) -> Array:
        """Matrices are multiplied in single precision, as they were learned. What stands before them is exact, and so
        is the last step: a logarithm has its last digit in single precision at a millionth of the latency."""
        values: Values = self.encoding.transform(inputs)
        for place, (name, arrays) in enumerate(self.steps):
            is_last = place == len(self.steps) - 1 and name == "dense"
            values = values.astype(np.float64 if name == "waves" or is_last else np.float32)
            values = STEPS[name](values, *arrays.values())
        return np.clip(values.astype(np.float64)[:, 0], *self.bounds)

    def gradient(self, inputs: Array) -> Array:
        """Zero where the result keeps to its bounds."""
        with np.errstate(over="ignore"):
            values = self.encoding.transform(inputs)
            before = []
            for name, arrays in self.steps:
                before.append(values)
                values = STEPS[name](values, *arrays.values())
            low, high = self.bounds
            gradient = np.where((values >= low) & (values <= high), 1.0, 0.0)
            for values, (name, arrays) in zip(reversed(before), reversed(self.steps), strict=True):
                gradient = GRADIENTS[name](gradient, values, *arrays.values())
        return self.encoding.pull_back(inputs, gradient)

    def check(self, width: int) -> None:
        """Every array fits what the steps before it make; the last step makes one column."""
        self.encoding.check(width)
        low, high = self.bounds
        check_numbers("the bounds of a network", [low], -LARGEST_LOG, LARGEST_LOG)
        check_numbers("the bounds of a network", [high], low, LARGEST_LOG)
        columns = self.encoding.width
        for place, (name, arrays) in enumerate(self.steps):
            if name not in WIDTHS or tuple(arrays) != ARRAYS[name]:
                raise ValueError(f"a network has no step {shown(name)} with the arrays {shown(list(arrays))}")
            if name == "waves" and place > 0:
                raise ValueError("waves are made of the inputs of a network, so they come first")
            columns = WIDTHS[name](columns, *arrays.values())
            if columns > MOST_COLUMNS:
                raise ValueError(f"a step of a network must make at most {MOST_COLUMNS} columns (got {columns})")
        if columns != 1:
            raise ValueError(f"a network must make one column (got {columns})")

    def parts(self) -> Parts:
        arrays = {
            f"{place}.{name}": array for place, (_, arrays) in enumerate(self.steps) for name, array in arrays.items()
        }
        facts = {"steps": [[name, list(arrays)] for name, arrays in self.steps], "bounds": list(self.bounds)}
        return Parts(self.name, facts | self.encoding.facts, arrays | self.encoding.arrays)

    @classmethod
    def from_parts(cls, parts: Parts, inner: tuple[Form, ...]) -> NetworkForm:
        facts: Mapping[str, Any] = parts.facts
        steps = [
            (name, {array: parts.arrays[f"{place}.{array}"] for array in arrays})
            for place, (name, arrays) in enumerate(facts["steps"])
        ]
        low, high = facts["bounds"]
        return cls(Encoding.restore(parts.facts, parts.arrays), steps, (low, high))


def bounds(table: Table) -> tuple[float, float]:
    """What a network that learned from a table keeps its results in."""
    return float(np.log(table.target.min())) - BEYOND, float(np.log(table.target.max())) + BEYOND
