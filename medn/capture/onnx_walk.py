"""Going through the operators of an ONNX graph in their order, and through the graphs that they hold."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import onnx

from medn.capture.captured_model import CapturedLayer
from medn.capture.graph import Graph
from medn.capture.onnx_file import MOST_OPERATORS, called
from medn.capture.onnx_flops import node_flops
from medn.capture.onnx_shapes import Shapes, operator, place
from medn.capture.operator_call import Call, Tensor
from medn.core.errors import UsageError
from medn.core.text import first_line, one_line
from medn.layer_generators.onnx_node import OnnxNode
from medn.layer_generators.recognition import recognise_node

VIEWS = ("Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Dropout")
"""The same bytes by another name. A Transpose is none of them: runtimes of ONNX copy it."""
PICKING = ("Gather", "GatherElements", "GatherND", "Slice")
MOST_REPEATS = 2**63
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
        declared = {each.name: each.type for each in (*graph.value_info, *graph.output)}
        if around is None:
            return cls(ChainMap(), declared)
        return cls(around.names.new_child(), declared, around.path)


class Part(NamedTuple):
    """What going through a graph gave."""

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
    """Goes through the nodes in order."""

    def __init__(self, model: onnx.ModelProto, batch_size: int) -> None:
        self.shapes = Shapes(model)
        self._functions = {(each.domain, each.name, each.overload): each for each in model.functions}
        self.graph = Graph(batch_size)
        self.notes: list[str] = []
        self.parameter_bytes = 0
        self._taken: set[str] = set()
        self._steps = 0
        self._constant: set[str] = set()
        """Weights and what follows from weights alone: runtimes compute that once, when they load the model."""
        self._assumed: set[str] = set()
        """Tensors with values that only the first time through a body has: good for sizes, and for nothing else."""

    def go(self, graph: onnx.GraphProto, scope: Scope) -> None:
        for weight in graph.initializer:
            self._add_weight(self.define(weight.name, scope), weight)
        for sparse in graph.sparse_initializer:
            name = self.define(sparse.values.name, scope)
            self.shapes.set_type(name, sparse.values.data_type, sparse.dims)
            self._hold(name)
        self._go_through(graph.node, scope)

    def _go_through(self, nodes: Iterable[onnx.NodeProto], scope: Scope) -> None:
        for node in nodes:
            self._steps += 1
            if self._steps > MOST_OPERATORS:
                raise UsageError(f"more than {MOST_OPERATORS:,} operators are not read")
            try:
                self._step(node, scope)
            except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
                # Attributes of the right type whose values do not fit one another or the inputs.
                raise UsageError(f"{place(node)} is malformed: {first_line(error)}") from None

    def part(self, graph: onnx.GraphProto, scope: Scope) -> Part:
        """Go through a graph, and take off again what it added: whether and how often it counts is known later."""
        layers, notes = len(self.graph.layers), len(self.notes)
        try:
            self.go(graph, scope)
            return Part(tuple(self.graph.layers[layers:]), tuple(self.notes[notes:]))
        finally:
            del self.graph.layers[layers:]
            del self.notes[notes:]

    def put(self, part: Part, repeats: int = 1) -> None:
        """Put back what `part` took off, in the same place, as often as it runs."""
        if repeats * max((layer.repeats for layer in part.layers), default=1) > MOST_REPEATS:
            raise UsageError(f"a loop in loops runs more than {MOST_REPEATS:,} times")
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
        """What a tensor holds, where that is known for good."""
        return None if name in self._assumed else self.shapes.values.get(name)

    def assume(self, name: str, value: Any) -> None:
        self.shapes.set_value(name, value)
        self._assumed.add(name)

    def tensors(self, names: Iterable[str]) -> tuple[Tensor, ...]:
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
        self._hold(name)
        self.parameter_bytes += self.shapes.tensor(name).storage_bytes

    def _step(self, node: onnx.NodeProto, scope: Scope) -> None:
        from medn.capture.onnx_subgraphs import has_body, step_into  # which goes on with this walk

        if called(node) in self._functions:
            self._open(node, self._functions[called(node)], scope)
            return
        named = onnx.NodeProto(op_type=node.op_type, name=f"{scope.path}{node.name}")
        named.domain = "" if node.domain == "ai.onnx" else node.domain
        named.input.extend(self.find(name, scope) if name else "" for name in node.input)
        named.output.extend(self.define(name, scope) if name else "" for name in node.output)
        named.attribute.extend(node.attribute)
        if has_body(named):
            step_into(self, named, scope)
        else:
            self._visit(named)

    def _open(self, node: onnx.NodeProto, function: onnx.FunctionProto, scope: Scope) -> None:
        """Go through the nodes of a function of the file. It sees its inputs and nothing else around it."""
        if len(node.input) > len(function.input) or len(node.output) > len(function.output):
            raise UsageError(f"{place(node)} is malformed: the function has fewer inputs or outputs")
        given = (self.find(name, scope) if name else "" for name in (*node.input, *[""] * len(function.input)))
        declared = {each.name: each.type for each in function.value_info}
        outputs = dict(zip(node.output, function.output, strict=False))
        declared |= {own: scope.declared[name] for name, own in outputs.items() if name in scope.declared}
        path = f"{scope.path}{node.name}/" if node.name else scope.path
        inner = Scope(ChainMap(dict(zip(function.input, given, strict=False))), declared, path)
        attributes = {each.name: each for each in (*function.attribute_proto, *node.attribute)}
        self._go_through((bound(each, attributes) for each in function.node), inner)
        for name, own in outputs.items():
            scope.names[name] = self.find(own, inner)

    def _visit(self, node: onnx.NodeProto) -> None:
        self.shapes.follow(node)
        given = [name for name in node.input if name]
        made = [name for name in node.output if name]
        if not self._assumed.isdisjoint(given):
            self._assumed.update(made)
        if self._follows_from_constants(node, given, made):
            for name in made:
                self._hold(name)
        elif node.op_type in VIEWS and not node.domain:
            self.pass_on(given[0], made[0])
        elif made:
            self.graph.add(self._call(node, given, made))

    def _follows_from_constants(self, node: onnx.NodeProto, given: list[str], made: list[str]) -> bool:
        if node.op_type == "Constant" or all(self.value(name) is not None for name in made):
            return True
        return bool(given) and all(name in self._constant for name in given)

    def _call(self, node: onnx.NodeProto, given: list[str], made: list[str]) -> Call:
        described = self._describe(node, made)
        return Call(
            name=one_line(node.name, longest=300),
            operator=operator(node),
            reads=self.tensors(given),
            writes=self.tensors(made),
            recognised=recognise_node(described),
            flops=node_flops(described),
            picks=node.op_type in PICKING,
        )

    def _describe(self, node: onnx.NodeProto, made: list[str]) -> OnnxNode:
        return OnnxNode(
            operator=f"{node.domain}.{node.op_type}" if node.domain else node.op_type,
            shapes=tuple(self.shapes.tensor(name).shape if name else None for name in node.input),
            values=tuple(map(self.value, node.input)),
            constant=tuple(name in self._constant for name in node.input),
            attributes={each.name: _plain(onnx.helper.get_attribute_value(each)) for each in node.attribute},
            output=self.shapes.tensor(made[0]).shape,
            model_batch=self.graph.batch_size,
        )

    def _hold(self, name: str) -> None:
        self._constant.add(name)
        self.graph.add_parameter(self.shapes.tensor(name))


def bound(node: onnx.NodeProto, attributes: Mapping[str, onnx.AttributeProto]) -> onnx.NodeProto:
    """A node of a function with the attributes that the function was called with."""
    made = onnx.NodeProto()
    made.CopyFrom(node)
    del made.attribute[:]
    for attribute in node.attribute:
        if not attribute.ref_attr_name:
            own = made.attribute.add()
            own.CopyFrom(attribute)
            for graph in (*([own.g] if own.HasField("g") else []), *own.graphs):
                nodes = [bound(each, attributes) for each in graph.node]
                del graph.node[:]
                graph.node.extend(nodes)
        elif attribute.ref_attr_name in attributes:
            made.attribute.add().CopyFrom(attributes[attribute.ref_attr_name])
            made.attribute[-1].name = attribute.name
    return made


def _plain(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value
