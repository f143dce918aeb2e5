"""Capturing an ONNX file. Weights stay on the disk where the file keeps them apart; only their shapes matter."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx
from google.protobuf.message import DecodeError
from onnx.inliner import inline_local_functions

from medn.capture.calls import Call, Tensor
from medn.capture.graph import Graph
from medn.capture.onnx_operators import Node, node_flops, recognise_node
from medn.capture.onnx_shapes import Shapes
from medn.capture.values import CapturedModel
from medn.core.errors import ConfigError, UsageError, unknown
from medn.layer_generators.operation import Shape

VIEWS = ("Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Dropout")
"""The same bytes by another name. A Transpose is none of them: runtimes of ONNX copy it."""
PICKING = ("Gather", "GatherElements", "GatherND", "Slice")


def capture_onnx(path: Path, example_inputs: Any, batch_size: int | None) -> CapturedModel:
    model = _read(path)
    try:
        sizes, batch_size = _input_sizes(model.graph, example_inputs, batch_size)
        walk = _Walk(model, batch_size)
        for name, element_type, shape in sizes:
            walk.shapes.set_type(name, element_type, shape)
            walk.graph.add_input(name, walk.shapes.tensor(name))
        walk.go(model.graph)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from None
    outputs = [(each.name, walk.shapes.tensor(each.name)) for each in model.graph.output]
    return walk.graph.finish(outputs, walk.parameter_bytes, how="ONNX file")


def _read(path: Path) -> onnx.ModelProto:
    try:
        model = onnx.load(path, load_external_data=False)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from None
    except (DecodeError, ValueError) as error:
        raise UsageError(f"{path}: not an ONNX file: {str(error).strip().splitlines()[0]}") from None
    if not model.graph.node:
        raise UsageError(f"{path}: not an ONNX file, or one without any operator")
    return inline_local_functions(model) if model.functions else model


def _input_sizes(
    graph: onnx.GraphProto, example_inputs: Any, batch_size: int | None
) -> tuple[list[tuple[str, int, Shape]], int]:
    """Name, element type and shape of each input, and the batch size: the first axis of the first input."""
    weights: set[str] = {weight.name for weight in graph.initializer}
    inputs = [each for each in graph.input if each.name not in weights]
    given = _given_shapes(example_inputs, [each.name for each in inputs])
    mistakes: list[str] = []
    shapes = {each.name: given.get(each.name) or _declared_shape(each, batch_size, mistakes) for each in inputs}
    if mistakes:
        raise ConfigError("its inputs leave sizes open that example_inputs must give", mistakes)
    before = next((shape[0] for shape in shapes.values() if shape), 1)
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
    return {name: tuple(map(int, getattr(each, "shape", each))) for name, each in example_inputs.items()}


def _declared_shape(each: onnx.ValueInfoProto, batch_size: int | None, mistakes: list[str]) -> Shape:
    """The shape the file declares; an open first axis is the batch."""
    shape = []
    for axis, size in enumerate(each.type.tensor_type.shape.dim):
        if size.HasField("dim_value") and size.dim_value > 0:
            shape.append(size.dim_value)
        elif axis == 0:
            shape.append(batch_size or 1)
        else:
            shape.append(0)
            mistakes.append(f"{each.name}: axis {axis} ({size.dim_param or 'no name'}) has no size")
    return tuple(shape)


class _Walk:
    """Goes through the nodes in order."""

    def __init__(self, model: onnx.ModelProto, batch_size: int) -> None:
        self.shapes = Shapes(model)
        self.graph = Graph(batch_size)
        self.parameter_bytes = 0
        self._constant: set[str] = set()
        """Weights and what follows from weights alone: runtimes compute that once, when they load the model."""

    def go(self, graph: onnx.GraphProto) -> None:
        for weight in graph.initializer:
            self.shapes.set_weight(weight)
            self._hold(weight.name)
            self.parameter_bytes += self.shapes.tensor(weight.name).storage_bytes
        for node in graph.node:
            branch = self._taken_branch(node)
            if branch is None:
                self._visit(node)
                continue
            self.go(branch)
            for inner, outer in zip(branch.output, node.output, strict=True):
                self.shapes.rename(inner.name, outer)
                self._pass_on(inner.name, [outer])

    def _taken_branch(self, node: onnx.NodeProto) -> onnx.GraphProto | None:
        """What an `If` does, where its condition follows from shapes and constants."""
        if node.op_type != "If" or node.input[0] not in self.shapes.values:
            return None
        taken = "then_branch" if bool(self.shapes.values[node.input[0]].all()) else "else_branch"
        branch: onnx.GraphProto = next(each.g for each in node.attribute if each.name == taken)
        return branch

    def _visit(self, node: onnx.NodeProto) -> None:
        self.shapes.follow(node)
        given = [name for name in node.input if name]
        made = [name for name in node.output if name]
        if self._is_constant(node, given, made):
            for name in made:
                self._hold(name)
        elif node.op_type in VIEWS:
            self._pass_on(given[0], made[:1])
        else:
            self.graph.add(self._call(node, given, made))

    def _is_constant(self, node: onnx.NodeProto, given: list[str], made: list[str]) -> bool:
        if node.op_type == "Constant" or all(name in self.shapes.values for name in made):
            return True
        return bool(given) and all(name in self._constant for name in given)

    def _call(self, node: onnx.NodeProto, given: list[str], made: list[str]) -> Call:
        described = self._describe(node, made)
        return Call(
            name=node.name,
            operator=f"{node.domain}.{node.op_type}" if node.domain else node.op_type,
            reads=self._tensors(given),
            writes=self._tensors(made),
            recognised=None if node.domain else recognise_node(described),
            flops=node_flops(described),
            picks=node.op_type in PICKING,
        )

    def _describe(self, node: onnx.NodeProto, made: list[str]) -> Node:
        return Node(
            operator=node.op_type,
            shapes=tuple(self.shapes.tensor(name).shape if name else None for name in node.input),
            values=tuple(self.shapes.values.get(name) for name in node.input),
            constant=tuple(name in self._constant for name in node.input),
            attributes={each.name: _plain(onnx.helper.get_attribute_value(each)) for each in node.attribute},
            output=self.shapes.tensor(made[0]).shape,
            model_batch=self.graph.batch_size,
        )

    def _tensors(self, names: Iterable[str]) -> tuple[Tensor, ...]:
        return tuple(map(self.shapes.tensor, names))

    def _hold(self, name: str) -> None:
        self._constant.add(name)
        self.graph.add_parameter(self.shapes.tensor(name))

    def _pass_on(self, source: str, targets: list[str]) -> None:
        before = self.shapes.tensor(source)
        for target in targets:
            after = self.shapes.tensor(target)
            if before.elements != after.elements:
                shapes = f"{before.shape} cannot become {after.shape}"
                raise UsageError(f"{shapes} in {target!r}; was the file exported for another batch size?")
            self.graph.pass_on(before, after)
            if source in self._constant:
                self._constant.add(target)


def _plain(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value
