"""Capturing an ONNX file. Weights stay on the disk where the file keeps them apart; only their shapes matter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx

from medn.capture.captured_model import CapturedModel
from medn.capture.onnx_file import read_onnx
from medn.capture.onnx_walk import Scope, Walk
from medn.core.errors import UsageError, unknown
from medn.core.text import one_line
from medn.layer_generators.operation import Shape


def capture_onnx(path: Path, example_inputs: Any, batch_size: int | None) -> CapturedModel:
    model = read_onnx(path)
    try:
        sizes, batch_size = _input_sizes(model.graph, example_inputs, batch_size)
        walk, scope = Walk(model, batch_size), Scope.of(model.graph)
        for name, element_type, shape in sizes:
            walk.shapes.set_type(walk.define(name, scope), element_type, shape)
            walk.graph.add_input(name, walk.shapes.tensor(name))
        walk.visit_graph(model.graph, scope)
        outputs = [(output.name, walk.shapes.tensor(walk.find(output.name, scope))) for output in model.graph.output]
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from None
    return walk.graph.finish(outputs, walk.parameter_bytes, how="ONNX file", notes=walk.notes)


def _input_sizes(
    graph: onnx.GraphProto, example_inputs: Any, batch_size: int | None
) -> tuple[list[tuple[str, int, Shape]], int]:
    """Name, element type and shape of each input, and the batch size: the first axis of the first input."""
    weights = {weight.name for weight in graph.initializer}
    weights |= {weight.values.name for weight in graph.sparse_initializer}
    inputs = [value for value in graph.input if value.name not in weights]
    given_shapes = _given_shapes(example_inputs, [value.name for value in inputs])
    mistakes: list[str] = []
    shapes = {
        value.name: given_shapes[value.name]
        if value.name in given_shapes
        else _declared_shape(value, batch_size, mistakes)
        for value in inputs
    }
    if mistakes:
        raise UsageError(f"its inputs leave sizes open that example_inputs must give: {'; '.join(mistakes)}")
    before = next((shape[0] for shape in shapes.values() if shape), 1)
    if before < 1:
        raise UsageError(f"the batch size, which is the first axis of its inputs, must be at least 1 (got {before})")
    wanted = batch_size or before
    resized = {name: (wanted, *shape[1:]) if shape and shape[0] == before else shape for name, shape in shapes.items()}
    return [(value.name, value.type.tensor_type.elem_type, resized[value.name]) for value in inputs], wanted


def _given_shapes(example_inputs: Any, names: list[str]) -> dict[str, Shape]:
    """Shapes by the names of the inputs, from shapes or tensors by name, or from tensors in the file's order."""
    if example_inputs is None:
        return {}
    if not isinstance(example_inputs, Mapping):
        tensors = example_inputs if isinstance(example_inputs, Sequence) else [example_inputs]
        if len(tensors) > len(names) or not all(hasattr(tensor, "shape") for tensor in tensors):
            count = f"at most {len(names)} tensors"
            raise UsageError(f"example_inputs: must map input names to shapes or tensors, or be {count}")
        example_inputs = dict(zip(names, tensors, strict=False))
    for name in example_inputs:
        if name not in names:
            raise UsageError(unknown("input", name, names))
    return {name: _sizes(name, getattr(tensor, "shape", tensor)) for name, tensor in example_inputs.items()}


def _sizes(name: str, sizes: Any) -> Shape:
    try:
        shape = tuple(map(int, sizes))
    except (TypeError, ValueError, OverflowError):
        shape = (-1,)
    if min(shape, default=0) < 0:
        raise UsageError(f"example_inputs: {name}: must be a tensor or sizes from 0 on (got {sizes!r})")
    return shape


def _declared_shape(value: onnx.ValueInfoProto, batch_size: int | None, mistakes: list[str]) -> Shape:
    """The shape the file declares; an open first axis is the batch."""
    if not value.type.HasField("tensor_type"):
        mistakes.append(f"{one_line(value.name)}: only tensors can be inputs")
    shape = []
    for axis, size in enumerate(value.type.tensor_type.shape.dim):
        if size.HasField("dim_value") and size.dim_value > 0:
            shape.append(size.dim_value)
        elif axis == 0 and not size.dim_value:
            shape.append(batch_size or 1)
        else:
            shape.append(0)
            named = f"got {size.dim_value}" if size.HasField("dim_value") else one_line(size.dim_param) or "no name"
            mistakes.append(f"{one_line(value.name)}: axis {axis} ({named}) has no size")
    return tuple(shape)
