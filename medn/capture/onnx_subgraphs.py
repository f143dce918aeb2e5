"""Operators with subgraphs: which of the graphs of an ONNX `If`, `Loop` or `Scan` run, and how often.

A body is visited once, and its layers are counted as often as it runs. What depends on data is decided here and said
in a note.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import onnx

from medn.capture.onnx_shapes import UnknownSize, describe_node, operator
from medn.capture.onnx_walk import Scope, Subgraph, Walk
from medn.capture.operator_call import Call, TensorView
from medn.core.errors import UsageError
from medn.core.text import one_line
from medn.layer_generators.operation import Shape

UNLIMITED = 2**31 - 1
"""Exporters write at least this as the trip count of a loop that only its condition ends."""


def has_body(node: onnx.NodeProto) -> bool:
    return any(attribute.HasField("g") or attribute.graphs for attribute in node.attribute)


def count_body(walk: Walk, node: onnx.NodeProto, scope: Scope) -> None:
    """Count what runs inside a node. Where sizes in it are unknown, the node is an unknown operator."""
    steps = {"If": _if, "Loop": _loop, "Scan": _scan}
    notes = len(walk.notes)
    try:
        if node.domain or node.op_type not in steps:
            raise UnknownSize("only those of If, Loop and Scan are")
        steps[node.op_type](walk, node, scope)
    except UnknownSize as error:
        del walk.notes[notes:]
        walk.shapes.take_declared(node)
        outputs = walk.tensors(filter(None, node.output))
        walk.graph.add(_call(node, walk.tensors(filter(None, node.input)), outputs))
        walk.notes.append(f"{describe_node(node)}: its body is not counted, only its inputs and outputs: {error}")


class BodyInput(NamedTuple):
    """One input of a body."""

    element_type: int
    shape: Shape
    source: str | None = None
    """The tensor that it comes from."""
    value: Any = None
    same: bool = False
    """Whether it is the source itself in every iteration."""
    assumed: bool = False
    """Whether only the first iteration has this value."""

    def guessed(self, value: Any) -> BodyInput:
        return self if self.value is not None else self._replace(value=value, assumed=True)


class BodyPass(NamedTuple):
    """One pass through a body."""

    part: Subgraph
    outputs: tuple[str, ...]


def _walk_body(walk: Walk, body: onnx.GraphProto, scope: Scope, inputs: Sequence[BodyInput]) -> BodyPass:
    inner = Scope.of(body, scope)
    for info, body_input in zip(body.input, inputs, strict=True):
        name = walk.define(info.name, inner)
        walk.shapes.set_type(name, body_input.element_type, body_input.shape)
        if body_input.value is not None:
            (walk.assume if body_input.assumed else walk.shapes.set_value)(name, body_input.value)
        if body_input.source is not None and body_input.same:
            walk.pass_on(body_input.source, name)
        elif body_input.source is not None:
            walk.graph.pass_on(*walk.tensors([body_input.source, name]))
    part = walk.subgraph(body, inner)
    return BodyPass(part, tuple(walk.find(each.name, inner) for each in body.output))


def _if(walk: Walk, node: onnx.NodeProto, scope: Scope) -> None:
    branches = {name: _graph(node, name) for name in ("then_branch", "else_branch")}
    condition = _flag(walk, node.input[0])
    if condition is not None:
        taken = "then_branch" if condition else "else_branch"
        passes = {taken: _walk_body(walk, branches[taken], scope, ())}
    else:
        passes = _countable(walk, branches, scope)
        taken = max(passes, key=lambda name: passes[name].part.work)
    for name, body_pass in passes.items():
        if len(body_pass.outputs) != len(node.output):
            raise UsageError(f"{describe_node(node)} is malformed: its {name} gives {len(body_pass.outputs)} outputs")
    walk.add_subgraph(passes[taken].part)
    for inner, outer in zip(passes[taken].outputs, node.output, strict=True):
        if outer:
            _rename(walk, inner, outer, keep_value=condition is not None)
    if condition is None:
        why = "sizes in the other are unknown"
        if len(passes) == 2:
            more, less = sorted((each.part.work[0] for each in passes.values()), reverse=True)
            why = f"which does more ({more:,} FLOPs against {less:,})"
        walk.notes.append(f"{describe_node(node)}: its condition depends on data; the {taken} is counted, {why}")


def _countable(walk: Walk, branches: Mapping[str, onnx.GraphProto], scope: Scope) -> dict[str, BodyPass]:
    """The branches in which all sizes are known, at least one."""
    passes: dict[str, BodyPass] = {}
    for name, branch in branches.items():
        try:
            passes[name] = _walk_body(walk, branch, scope, ())
        except UnknownSize as error:
            failure = error
    if not passes:
        raise failure
    return passes


def _rename(walk: Walk, source: str, target: str, keep_value: bool = False) -> None:
    walk.shapes.set_type(target, walk.shapes.element_type(source), walk.shapes.tensor(source).shape)
    if keep_value:
        walk.pass_on(source, target)
        if walk.value(source) is not None:
            walk.shapes.set_value(target, walk.value(source))
    else:
        walk.graph.pass_on(*walk.tensors([source, target]))


@dataclass(frozen=True)
class LoopBody:
    """The body of a loop: fixed inputs, loop-carried states, and slices."""

    body: onnx.GraphProto
    leading: tuple[BodyInput, ...]
    states: tuple[BodyInput, ...]
    slices: tuple[BodyInput, ...]
    outputs_before: int
    """Outputs of the body in front of the states."""
    axes: tuple[int, ...]
    """Along which the outputs of all iterations are stacked."""

    def at(self, shapes: Sequence[Shape]) -> LoopBody:
        states = tuple(state._replace(shape=shape) for state, shape in zip(self.states, shapes, strict=True))
        return replace(self, states=states)

    def first(self, walk: Walk) -> LoopBody:
        """With the values of the first iteration."""
        leading = tuple(value.guessed(np.int64(0)) for value in self.leading)
        states = tuple(value.guessed(walk.shapes.values.get(str(value.source))) for value in self.states)
        return replace(self, leading=leading, states=states)

    def go_through(self, walk: Walk, scope: Scope) -> BodyPass:
        return _walk_body(walk, self.body, scope, (*self.leading, *self.states, *self.slices))

    def state_outputs(self, body_pass: BodyPass) -> tuple[str, ...]:
        return body_pass.outputs[self.outputs_before : self.outputs_before + len(self.states)]

    def stacked_outputs(self, body_pass: BodyPass) -> tuple[str, ...]:
        return body_pass.outputs[self.outputs_before + len(self.states) :]


def _loop(walk: Walk, node: onnx.NodeProto, scope: Scope) -> None:
    body = _graph(node, "body")
    limit_name, condition_name, *initial = (*node.input, "", "")[: max(len(node.input), 2)]
    stacked = len(body.output) - 1 - len(initial)
    _check_counts(node, body, 1, 2 + len(initial), len(initial))
    loop = LoopBody(
        body,
        # Whenever it runs, the condition to go on held.
        (BodyInput(onnx.TensorProto.INT64, ()), BodyInput(onnx.TensorProto.BOOL, (), value=np.bool_(True))),
        _states(walk, body, initial, inputs_before=2, outputs_before=1),
        (),
        outputs_before=1,
        axes=(0,) * stacked,
    )
    limit = walk.value(limit_name)
    most = UNLIMITED if limit is None else max(int(limit.reshape(-1)[0]), 0)
    starts = _flag(walk, condition_name) if condition_name else True
    body_pass, note = _one_pass(walk, loop, scope)
    goes_on = _flag(walk, body_pass.outputs[0])
    if starts is False or not most:
        trips = 0
    elif starts and goes_on is False:
        trips = 1
    elif starts and goes_on and (limit is not None):
        trips = most
    elif most < UNLIMITED:
        trips = most
        walk.notes.append(f"{describe_node(node)}: counted {most} times, the most it runs; it may end sooner")
    else:
        trips = 1
        walk.notes.append(f"{describe_node(node)}: how often it runs depends on data; counted once")
    _repeat(walk, node, scope, loop, body_pass, trips, note)


def _scan(walk: Walk, node: onnx.NodeProto, scope: Scope) -> None:
    body, attributes = _graph(node, "body"), {attribute.name: attribute for attribute in node.attribute}
    count = attributes["num_scan_inputs"].i
    if not 0 < count <= len(node.input) or not all(node.input):
        raise UnknownSize("it is of a version before 9")
    initial, sliced = node.input[:-count], node.input[-count:]
    stacked = len(body.output) - len(initial)
    _check_counts(node, body, 0, len(node.input), len(initial))
    axes = list(attributes["scan_input_axes"].ints) if "scan_input_axes" in attributes else [0] * count
    output_axes = list(attributes["scan_output_axes"].ints) if "scan_output_axes" in attributes else [0] * stacked
    slices, lengths = [], set()
    for name, axis in zip(sliced, axes, strict=True):
        shape = list(walk.shapes.tensor(name).shape)
        lengths.add(shape.pop(axis))
        slices.append(BodyInput(walk.shapes.element_type(name), tuple(shape), name))
    if len(lengths) > 1:
        raise UsageError(f"{describe_node(node)} is malformed: its inputs have {sorted(lengths)} slices")
    states = _states(walk, body, initial, inputs_before=0, outputs_before=0)
    scan = LoopBody(body, (), states, tuple(slices), outputs_before=0, axes=tuple(output_axes))
    body_pass, note = _one_pass(walk, scan, scope)
    _repeat(walk, node, scope, scan, body_pass, lengths.pop(), note)


def _states(
    walk: Walk, body: onnx.GraphProto, initial: Sequence[str], inputs_before: int, outputs_before: int
) -> tuple[BodyInput, ...]:
    """The initial states. One that is passed on unchanged has the same value in every iteration."""
    states = []
    for position, name in enumerate(initial):
        handed_on = body.output[outputs_before + position].name == body.input[inputs_before + position].name
        value = walk.value(name) if handed_on else None
        shape = walk.shapes.tensor(name).shape
        states.append(BodyInput(walk.shapes.element_type(name), shape, name, value, same=handed_on))
    return tuple(states)


def _one_pass(walk: Walk, loop: LoopBody, scope: Scope) -> tuple[BodyPass, str]:
    """One pass through the body, and a note about it."""
    try:
        return loop.go_through(walk, scope), ""
    except UnknownSize:
        note = "sizes change between iterations; counted {} as in the first"
        return loop.first(walk).go_through(walk, scope), note


def _repeat(
    walk: Walk, node: onnx.NodeProto, scope: Scope, loop: LoopBody, body_pass: BodyPass, trips: int, note: str
) -> None:
    """Count a body so many times, and set the shapes of the node's outputs."""
    before = tuple(state.shape for state in loop.states)
    final = before
    if trips:
        growth = _growth(walk, loop, body_pass)
        final = _grown(before, growth, trips)
        if trips > 1 and final != before:
            # Where costs grow as sizes do, as those of a token that sees all before it, the middle is the mean.
            middle = loop.at(_grown(before, growth, (trips - 1) / 2))
            body_pass = middle.go_through(walk, scope)
            if _growth(walk, middle, body_pass) != growth:
                raise UnknownSize("its tensors do not grow evenly")
            note = "its tensors grow; counted {} at the size they have in the middle"
        walk.add_subgraph(body_pass.part, trips)
        if note:
            walk.notes.append(f"{describe_node(node)}: {note.format(f'{trips} times')}")
    sources = loop.state_outputs(body_pass) if trips else tuple(str(state.source) for state in loop.states)
    count = len(sources)
    for source, target, shape in zip(sources, node.output[:count], final, strict=True):
        if target:
            walk.shapes.set_type(target, walk.shapes.element_type(source), shape)
            walk.graph.pass_on(*walk.tensors([source, target]))
    _stack(walk, node, loop, loop.stacked_outputs(body_pass), node.output[count:], trips)


def _growth(walk: Walk, loop: LoopBody, body_pass: BodyPass) -> tuple[tuple[int, ...], ...]:
    """By how much each axis of each state grows in one iteration."""
    growth = []
    for state, name in zip(loop.states, loop.state_outputs(body_pass), strict=True):
        after = walk.shapes.tensor(name).shape
        if len(after) != len(state.shape):
            raise UnknownSize("its tensors change their number of axes")
        growth.append(tuple(new - old for new, old in zip(after, state.shape, strict=True)))
    return tuple(growth)


def _grown(shapes: Sequence[Shape], growth: Sequence[Sequence[int]], times: float) -> tuple[Shape, ...]:
    grown = tuple(
        tuple(size if not more else int(size + more * times) for size, more in zip(shape, increments, strict=True))
        for shape, increments in zip(shapes, growth, strict=True)
    )
    if any(size < 0 for shape in grown for size in shape):
        raise UnknownSize("its tensors shrink to nothing")
    return grown


def _stack(
    walk: Walk, node: onnx.NodeProto, loop: LoopBody, parts: Sequence[str], targets: Sequence[str], trips: int
) -> None:
    """The outputs of all iterations, copied into one tensor: the only work of the node itself."""
    reads, writes = [], []
    for part, target, axis in zip(parts, targets, loop.axes, strict=False):
        if target:
            shape = list(walk.shapes.tensor(part).shape)
            shape.insert(axis if axis >= 0 else len(shape) + 1 + axis, trips)
            walk.shapes.set_type(target, walk.shapes.element_type(part), shape)
            reads.append(part)
            writes.append(target)
    if writes and trips:
        walk.graph.add(_call(node, walk.tensors(reads), walk.tensors(writes)))


def _call(node: onnx.NodeProto, reads: tuple[TensorView, ...], writes: tuple[TensorView, ...]) -> Call:
    return Call(name=one_line(node.name, longest=300), operator=operator(node), reads=reads, writes=writes)


def _graph(node: onnx.NodeProto, name: str) -> onnx.GraphProto:
    for attribute in node.attribute:
        if attribute.name == name and attribute.HasField("g"):
            graph: onnx.GraphProto = attribute.g
            return graph
    raise UsageError(f"{describe_node(node)} is malformed: it has no {name}")


def _check_counts(node: onnx.NodeProto, body: onnx.GraphProto, before: int, inputs: int, states: int) -> None:
    """Check a body's inputs and outputs against the node's; the first `before` outputs stay inside."""
    gives = len(body.output) - before
    if len(body.input) != inputs or not states <= gives or len(node.output) != gives or not all(node.input[2:]):
        counts = f"{len(body.input)} inputs and {len(body.output)} outputs"
        own = f"{len(node.input)} inputs and {len(node.output)} outputs"
        raise UsageError(f"{describe_node(node)} is malformed: it has {own}, its body {counts}")


def _flag(walk: Walk, name: str) -> bool | None:
    """Whether a condition holds, where that is known."""
    value = walk.value(name)
    return None if value is None or not value.size else bool(value.reshape(-1)[0])
