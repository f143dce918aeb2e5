"""Visits the operators of an ONNX graph in order, and those of its subgraphs."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import onnx

from medn.capture.captured_model import CapturedLayer
from medn.capture.graph_builder import GraphBuilder
from medn.capture.onnx_file import MAX_OPERATORS, function_of
from medn.capture.onnx_flops import node_flops
from medn.capture.onnx_shapes import Shapes, describe_node, operator
from medn.capture.operator_call import Call, TensorView
from medn.core.errors import UsageError
from medn.core.text import first_line, one_line
from medn.layer_generators.onnx_node import OnnxNode
from medn.layer_generators.recognition import recognise_node

VIEWS = ("Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Dropout")
"""The same bytes by another name. A Transpose is none of them: runtimes of ONNX copy it."""
GATHERING = ("Gather", "GatherElements", "GatherND", "Slice")
MAX_REPEATS = 2**63
"""How often a layer may run, in all loops around it together."""


@dataclass(frozen=True)
class Scope:
    """The names that a graph can use, those of the graphs around it among them, and what it says of its own tensors.

    Graphs beside one another may use a name for different tensors, so that each tensor gets a name of its own.
    """

    names: ChainMap[str, str]
    declared: Mapping[str, onnx.TypeProto]
    path: str = ""
    """Of the functions that are open, in front of the names of their nodes."""

    @classmethod
    def of(cls, graph: onnx.GraphProto, around: Scope | None = None) -> Scope:
        declared = {value.name: value.type for value in (*graph.value_info, *graph.output)}
        if around is None:
            return cls(ChainMap(), declared)
        return cls(around.names.new_child(), declared, around.path)


class Subgraph(NamedTuple):
    """The layers and notes of a visited graph."""

    layers: tuple[CapturedLayer, ...]
    notes: tuple[str, ...]

    @property
    def work(self) -> tuple[int, int]:
        """FLOPs and moved bytes."""
        return (
            sum(layer.flops * layer.repeats for layer in self.layers),
            sum(layer.moved_bytes * layer.repeats for layer in self.layers),
        )


class Walk:
    """Visits the nodes in order."""

    def __init__(self, model: onnx.ModelProto, batch_size: int) -> None:
        self.shapes = Shapes(model)
        self._functions = {
            (function.domain, function.name, function.overload): function for function in model.functions
        }
        self.graph = GraphBuilder(batch_size)
        self.notes: list[str] = []
        self.parameter_bytes = 0
        self._taken: set[str] = set()
        self._steps = 0
        self._constant: set[str] = set()
        """Weights and what follows from weights alone: runtimes compute that once, when they load the model."""
        self._assumed: set[str] = set()
        """Tensors with values of the first iteration of a loop: used for sizes only."""

    def visit_graph(self, graph: onnx.GraphProto, scope: Scope) -> None:
        for weight in graph.initializer:
            self._add_weight(self.define(weight.name, scope), weight)
        for sparse in graph.sparse_initializer:
            name = self.define(sparse.values.name, scope)
            self.shapes.set_type(name, sparse.values.data_type, sparse.dims)
            self._add_constant(name)
        self._visit_nodes(graph.node, scope)

    def _visit_nodes(self, nodes: Iterable[onnx.NodeProto], scope: Scope) -> None:
        for node in nodes:
            self._steps += 1
            if self._steps > MAX_OPERATORS:
                raise UsageError(f"more than {MAX_OPERATORS:,} operators are not read")
            try:
                self._visit_node(node, scope)
            except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
                # Attributes of the right type whose values do not fit one another or the inputs.
                raise UsageError(f"{describe_node(node)} is malformed: {first_line(error)}") from None

    def subgraph(self, graph: onnx.GraphProto, scope: Scope) -> Subgraph:
        """Visit a graph, and remove again what it added: whether and how often it counts is known later."""
        layers, notes = len(self.graph.layers), len(self.notes)
        try:
            self.visit_graph(graph, scope)
            return Subgraph(tuple(self.graph.layers[layers:]), tuple(self.notes[notes:]))
        finally:
            del self.graph.layers[layers:]
            del self.notes[notes:]

    def add_subgraph(self, part: Subgraph, repeats: int = 1) -> None:
        """Add what `subgraph` removed, as often as it runs."""
        if repeats * max((layer.repeats for layer in part.layers), default=1) > MAX_REPEATS:
            raise UsageError(f"a loop in loops runs more than {MAX_REPEATS:,} times")
        self.graph.layers += [replace(layer, repeats=repeats * layer.repeats) for layer in part.layers]
        self.notes += part.notes

    def define(self, name: str, scope: Scope) -> str:
        """A name for a tensor that is new in a graph."""
        own = name if name not in self._taken else f"{name} ({len(self._taken)})"
        self._taken.add(own)
        scope.names[name] = own
        if name in scope.declared:
            self.shapes.declare(own, scope.declared[name])
        return own

    def find(self, name: str, scope: Scope) -> str:
        """The tensor that a name stands for in a graph."""
        if name not in scope.names:
            raise UsageError(f"tensor {name[:80]!r} is read, and nothing before makes it")
        return scope.names[name]

    def value(self, name: str) -> Any:
        """The value of a constant tensor; None where it is unknown or only assumed."""
        return None if name in self._assumed else self.shapes.values.get(name)

    def assume(self, name: str, value: Any) -> None:
        self.shapes.set_value(name, value)
        self._assumed.add(name)

    def tensors(self, names: Iterable[str]) -> tuple[TensorView, ...]:
        return tuple(map(self.shapes.tensor, names))

    def pass_on(self, source: str, target: str) -> None:
        """Another name for the same bytes."""
        before, after = self.shapes.tensor(source), self.shapes.tensor(target)
        if before.elements != after.elements:
            shapes = f"{before.shape} cannot become {after.shape}"
            raise UsageError(f"{shapes} in {target!r}; was the file exported for another batch size?")
        self.graph.pass_on(before, after)
        if source in self._constant:
            self._constant.add(target)

    def _add_weight(self, name: str, weight: onnx.TensorProto) -> None:
        self.shapes.set_weight(name, weight)
        self._add_constant(name)
        self.parameter_bytes += self.shapes.tensor(name).storage_bytes

    def _visit_node(self, node: onnx.NodeProto, scope: Scope) -> None:
        from medn.capture.onnx_subgraphs import count_body, has_body  # circular: it visits bodies with this walk

        if function_of(node) in self._functions:
            self._inline(node, self._functions[function_of(node)], scope)
            return
        named = onnx.NodeProto(op_type=node.op_type, name=f"{scope.path}{node.name}")
        named.domain = "" if node.domain == "ai.onnx" else node.domain
        named.input.extend(self.find(name, scope) if name else "" for name in node.input)
        named.output.extend(self.define(name, scope) if name else "" for name in node.output)
        named.attribute.extend(node.attribute)
        if has_body(named):
            count_body(self, named, scope)
        else:
            self._visit_plain(named)

    def _inline(self, node: onnx.NodeProto, function: onnx.FunctionProto, scope: Scope) -> None:
        """Visit the nodes of a function of the file, which sees its inputs only."""
        if len(node.input) > len(function.input) or len(node.output) > len(function.output):
            raise UsageError(f"{describe_node(node)} is malformed: the function has fewer inputs or outputs")
        inputs = (self.find(name, scope) if name else "" for name in (*node.input, *[""] * len(function.input)))
        declared = {each.name: each.type for each in function.value_info}
        outputs = dict(zip(node.output, function.output, strict=False))
        declared |= {own: scope.declared[name] for name, own in outputs.items() if name in scope.declared}
        path = f"{scope.path}{node.name}/" if node.name else scope.path
        inner = Scope(ChainMap(dict(zip(function.input, inputs, strict=False))), declared, path)
        attributes = {each.name: each for each in (*function.attribute_proto, *node.attribute)}
        self._visit_nodes((bound(each, attributes) for each in function.node), inner)
        for name, own in outputs.items():
            scope.names[name] = self.find(own, inner)

    def _visit_plain(self, node: onnx.NodeProto) -> None:
        self.shapes.infer(node)
        inputs = [name for name in node.input if name]
        outputs = [name for name in node.output if name]
        if not self._assumed.isdisjoint(inputs):
            self._assumed.update(outputs)
        if self._follows_from_constants(node, inputs, outputs):
            for name in outputs:
                self._add_constant(name)
        elif node.op_type in VIEWS and not node.domain:
            self.pass_on(inputs[0], outputs[0])
        elif outputs:
            self.graph.add(self._call(node, inputs, outputs))

    def _follows_from_constants(self, node: onnx.NodeProto, inputs: list[str], outputs: list[str]) -> bool:
        if node.op_type == "Constant" or all(self.value(name) is not None for name in outputs):
            return True
        return bool(inputs) and all(name in self._constant for name in inputs)

    def _call(self, node: onnx.NodeProto, inputs: list[str], outputs: list[str]) -> Call:
        described = self._describe(node, outputs)
        return Call(
            name=one_line(node.name, longest=300),
            operator=operator(node),
            reads=self.tensors(inputs),
            writes=self.tensors(outputs),
            recognised=recognise_node(described),
            flops=node_flops(described),
            gathers=node.op_type in GATHERING,
        )

    def _describe(self, node: onnx.NodeProto, outputs: list[str]) -> OnnxNode:
        return OnnxNode(
            operator=f"{node.domain}.{node.op_type}" if node.domain else node.op_type,
            shapes=tuple(self.shapes.tensor(name).shape if name else None for name in node.input),
            values=tuple(map(self.value, node.input)),
            constant=tuple(name in self._constant for name in node.input),
            attributes={
                attribute.name: _plain(onnx.helper.get_attribute_value(attribute)) for attribute in node.attribute
            },
            output=self.shapes.tensor(outputs[0]).shape,
            model_batch=self.graph.batch_size,
        )

    def _add_constant(self, name: str) -> None:
        self._constant.add(name)
        self.graph.add_parameter(self.shapes.tensor(name))


def bound(node: onnx.NodeProto, attributes: Mapping[str, onnx.AttributeProto]) -> onnx.NodeProto:
    """A node of a function with the attributes that the function was called with."""
    copied = onnx.NodeProto()
    copied.CopyFrom(node)
    del copied.attribute[:]
    for attribute in node.attribute:
        if not attribute.ref_attr_name:
            own = copied.attribute.add()
            own.CopyFrom(attribute)
            for graph in (*([own.g] if own.HasField("g") else []), *own.graphs):
                nodes = [bound(inner, attributes) for inner in graph.node]
                del graph.node[:]
                graph.node.extend(nodes)
        elif attribute.ref_attr_name in attributes:
            copied.attribute.add().CopyFrom(attributes[attribute.ref_attr_name])
            copied.attribute[-1].name = attribute.name
    return copied


def _plain(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value
