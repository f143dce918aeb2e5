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
        walk.go(model.graph, scope)
        outputs = [(each.name, walk.shapes.tensor(walk.find(each.name, scope))) for each in model.graph.output]
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from None
    return walk.graph.finish(outputs, walk.parameter_bytes, how="ONNX file", notes=walk.notes)


def _input_sizes(
    graph: onnx.GraphProto, example_inputs: Any, batch_size: int | None
) -> tuple[list[tuple[str, int, Shape]], int]:
    """Name, element type and shape of each input, and the batch size: the first axis of the first input."""
    weights = {weight.name for weight in graph.initializer}
    weights |= {weight.values.name for weight in graph.sparse_initializer}
    inputs = [each for each in graph.input if each.name not in weights]
    given = _given_shapes(example_inputs, [each.name for each in inputs])
    mistakes: list[str] = []
    shapes = {
        each.name: given[each.name] if each.name in given else _declared_shape(each, batch_size, mistakes)
        for each in inputs
    }
    if mistakes:
        raise UsageError(f"its inputs leave sizes open that example_inputs must give: {'; '.join(mistakes)}")
    before = next((shape[0] for shape in shapes.values() if shape), 1)
    if before < 1:
        raise UsageError(f"the batch size, which is the first axis of its inputs, must be at least 1 (got {before})")
    wanted = batch_size or before
    resized = {name: (wanted, *shape[1:]) if shape and shape[0] == before else shape for name, shape in shapes.items()}
    return [(each.name, each.type.tensor_type.elem_type, resized[each.name]) for each in inputs], wanted


def _given_shapes(example_inputs: Any, names: list[str]) -> dict[str, Shape]:
    """Shapes by the names of the inputs, from shapes or tensors by name, or from tensors in the file's order."""
    if example_inputs is None:
        return {}
    if not isinstance(example_inputs, Mapping):
        tensors = example_inputs if isinstance(example_inputs, Sequence) else [example_inputs]
        if len(tensors) > len(names) or not all(hasattr(each, "shape") for each in tensors):
            count = f"at most {len(names)} tensors"
            raise UsageError(f"example_inputs: must map input names to shapes or tensors, or be {count}")
        example_inputs = dict(zip(names, tensors, strict=False))
    for name in example_inputs:
        if name not in names:
            raise UsageError(unknown("input", name, names))
    return {name: _sizes(name, getattr(each, "shape", each)) for name, each in example_inputs.items()}


def _sizes(name: str, given: Any) -> Shape:
    try:
        shape = tuple(map(int, given))
    except (TypeError, ValueError, OverflowError):
        shape = (-1,)
    if min(shape, default=0) < 0:
        raise UsageError(f"example_inputs: {name}: must be a tensor or sizes from 0 on (got {given!r})")
    return shape


def _declared_shape(each: onnx.ValueInfoProto, batch_size: int | None, mistakes: list[str]) -> Shape:
    """The shape the file declares; an open first axis is the batch."""
    if not each.type.HasField("tensor_type"):
        mistakes.append(f"{one_line(each.name)}: only tensors can be inputs")
    shape = []
    for axis, size in enumerate(each.type.tensor_type.shape.dim):
        if size.HasField("dim_value") and size.dim_value > 0:
            shape.append(size.dim_value)
        elif axis == 0 and not size.dim_value:
            shape.append(batch_size or 1)
        else:
            shape.append(0)
            named = f"got {size.dim_value}" if size.HasField("dim_value") else one_line(size.dim_param) or "no name"
            mistakes.append(f"{one_line(each.name)}: axis {axis} ({named}) has no size")
    return tuple(shape)
