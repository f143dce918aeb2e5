"""A node of an ONNX file in neutral words, from which layer kinds make operations that they know."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from medn.layer_generators.operation import Operation, Recognised, Shape


@dataclass(frozen=True)
class OnnxNode:
    """A node with what is known of its inputs; an input that is left out has no shape."""

    operator: str
    """With its domain in front where that is not ONNX's own."""
    shapes: tuple[Shape | None, ...]
    values: tuple[Any, ...]
    """Of inputs that are small constants: numpy arrays; otherwise None."""
    constant: tuple[bool, ...]
    attributes: Mapping[str, Any]
    output: Shape
    model_batch: int

    def shape(self, position: int) -> Shape | None:
        return self.shapes[position] if position < len(self.shapes) else None

    def value(self, position: int) -> Any:
        return self.values[position] if position < len(self.values) else None

    def operation(self, name: str, tensors: Mapping[str, Any], **attributes: Any) -> Operation:
        given = {key: shape for key, shape in tensors.items() if shape is not None}
        return Operation(name, given, attributes, self.output, self.model_batch)


OnnxTranslator = Callable[[OnnxNode], Operation | Recognised | None]
"""A node as an operation that `recognise` knows, or as the parameters of the kind itself; None where it is neither."""


def one_tensor(name: str, *options: str) -> OnnxTranslator:
    """For an operator on one tensor, with those of its attributes that tell kinds apart."""

    def translate(node: OnnxNode) -> Operation:
        given = {option: node.attributes.get(option, "none") for option in options}
        return node.operation(name, {"self": node.shape(0)}, **given)

    return translate


def normalised_rows(name: str) -> OnnxTranslator:
    """For an operator that normalises its input from one axis on."""

    def translate(node: OnnxNode) -> Operation:
        source = node.shape(0) or ()
        return node.operation(name, {"input": source}, normalized_shape=source[node.attributes.get("axis", -1) :])

    return translate


def window_attributes(node: OnnxNode, source: Shape, kernel: Shape) -> dict[str, tuple[int, ...]]:
    """Stride, dilation and padding along each axis. A padding that differs between the two sides is made even."""
    count = len(kernel)
    attributes = node.attributes
    strides = tuple(attributes.get("strides", (1,) * count))
    dilations = tuple(attributes.get("dilations", (1,) * count))
    pads = attributes.get("pads", (0,) * 2 * count)
    automatic = attributes.get("auto_pad", "NOTSET")
    paddings = []
    for axis in range(count):
        span = dilations[axis] * (kernel[axis] - 1) + 1
        size, out = source[2 + axis], node.output[2 + axis]
        total = pads[axis] + pads[count + axis]
        if automatic.startswith("SAME"):
            total = max((out - 1) * strides[axis] + span - size, 0)
        halves = (-(-total // 2), total // 2)
        fitting = [half for half in halves if (size + 2 * half - span) // strides[axis] + 1 == out]
        paddings.append((*fitting, halves[0])[0])
    return {"stride": strides, "dilation": dilations, "padding": tuple(paddings)}


MATRIX_PRODUCTS = {"MatMul": 1, "MatMulInteger": 1, "QLinearMatMul": 3}
"""Operators that multiply two tensors of matrices, and which input is the right one."""


def multiplied(node: OnnxNode) -> tuple[Shape, Shape] | None:
    """The shapes of both sides of one of `MATRIX_PRODUCTS`; a vector is a matrix of one row or of one column."""
    left, right = node.shape(0), node.shape(MATRIX_PRODUCTS[node.operator])
    if left is None or right is None:
        return None
    return left if len(left) > 1 else (1, *left), right if len(right) > 1 else (*right, 1)
