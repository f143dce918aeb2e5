"""Operators that hold graphs: which of the graphs of an ONNX `If`, `Loop` or `Scan` run, and how often.

A body is gone through once, and what it holds is counted as often as it runs. What only a real run would tell is
decided here and said in a note.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import onnx

from medn.capture.onnx_shapes import Untold, operator, place
from medn.capture.onnx_walk import Part, Scope, Walk
from medn.capture.operator_call import Call, Tensor
from medn.core.errors import UsageError
from medn.core.text import one_line
from medn.layer_generators.operation import Shape

ENDLESS = 2**31 - 1
"""Exporters write at least this as the trip count of a loop that only its condition ends."""


def has_body(node: onnx.NodeProto) -> bool:
    return any(attribute.HasField("g") or attribute.graphs for attribute in node.attribute)


def step_into(walk: Walk, node: onnx.NodeProto, scope: Scope) -> None:
    """Count what runs inside of a node. Where sizes in it cannot be told, the node is an unknown operator."""
    steps = {"If": _if, "Loop": _loop, "Scan": _scan}
    notes = len(walk.notes)
    try:
        if node.domain or node.op_type not in steps:
            raise Untold("only those of If, Loop and Scan are")
        steps[node.op_type](walk, node, scope)
    except Untold as error:
        del walk.notes[notes:]
        walk.shapes.follow_declared(node)
        made = walk.tensors(filter(None, node.output))
        walk.graph.add(_call(node, walk.tensors(filter(None, node.input)), made))
        walk.notes.append(f"{place(node)}: its body is not counted, only the bytes it is given and gives: {error}")


class Given(NamedTuple):
    """What a graph is given for one of its inputs."""

    element_type: int
    shape: Shape
    source: str | None = None
    """The tensor that it comes from."""
    value: Any = None
    same: bool = False
    """Whether it is the source itself each time."""
    assumed: bool = False
    """Whether only the first time has this value."""

    def guessed(self, value: Any) -> Given:
        return self if self.value is not None else self._replace(value=value, assumed=True)


class Passed(NamedTuple):
    """One time through a body."""

    part: Part
    outputs: tuple[str, ...]


def _go_through(walk: Walk, body: onnx.GraphProto, scope: Scope, inputs: Sequence[Given]) -> Passed:
    inner = Scope.of(body, scope)
    for info, given in zip(body.input, inputs, strict=True):
        name = walk.define(info.name, inner)
        walk.shapes.set_type(name, given.element_type, given.shape)
        if given.value is not None:
            (walk.assume if given.assumed else walk.shapes.set_value)(name, given.value)
        if given.source is not None and given.same:
            walk.pass_on(given.source, name)
        elif given.source is not None:
            walk.graph.pass_on(*walk.tensors([given.source, name]))
    part = walk.part(body, inner)
    return Passed(part, tuple(walk.find(each.name, inner) for each in body.output))


def _if(walk: Walk, node: onnx.NodeProto, scope: Scope) -> None:
    branches = {name: _graph(node, name) for name in ("then_branch", "else_branch")}
    condition = _flag(walk, node.input[0])
    if condition is not None:
        taken = "then_branch" if condition else "else_branch"
        found = {taken: _go_through(walk, branches[taken], scope, ())}
    else:
        found = _countable(walk, branches, scope)
        taken = max(found, key=lambda name: found[name].part.work)
    for name, passed in found.items():
        if len(passed.outputs) != len(node.output):
            raise UsageError(f"{place(node)} is malformed: its {name} gives {len(passed.outputs)} outputs")
    walk.put(found[taken].part)
    for inner, outer in zip(found[taken].outputs, node.output, strict=True):
        if outer:
            _rename(walk, inner, outer, keep_value=condition is not None)
    if condition is None:
        why = "sizes in the other cannot be told"
        if len(found) == 2:
            more, less = sorted((each.part.work[0] for each in found.values()), reverse=True)
            why = f"which does more ({more:,} FLOPs against {less:,})"
        walk.notes.append(f"{place(node)}: only a real run knows its condition; the {taken} is counted, {why}")


def _countable(walk: Walk, branches: Mapping[str, onnx.GraphProto], scope: Scope) -> dict[str, Passed]:
    """What going through each branch gives; without a branch in which sizes cannot be told, unless that is all."""
    found: dict[str, Passed] = {}
    for name, branch in branches.items():
        try:
            found[name] = _go_through(walk, branch, scope, ())
        except Untold as error:
            untold = error
    if not found:
        raise untold
    return found


def _rename(walk: Walk, source: str, target: str, keep_value: bool = False) -> None:
    walk.shapes.set_type(target, walk.shapes.element_type(source), walk.shapes.tensor(source).shape)
    if keep_value:
        walk.pass_on(source, target)
        if walk.value(source) is not None:
            walk.shapes.set_value(target, walk.value(source))
    else:
        walk.graph.pass_on(*walk.tensors([source, target]))


@dataclass(frozen=True)
class Repeated:
    """A body that runs again and again: some inputs, states that each time hands to the next, and slices."""

    body: onnx.GraphProto
    leading: tuple[Given, ...]
    states: tuple[Given, ...]
    slices: tuple[Given, ...]
    outputs_before: int
    """Outputs of the body in front of the states."""
    axes: tuple[int, ...]
    """Along which what each time gives is stacked."""

    def at(self, shapes: Sequence[Shape]) -> Repeated:
        states = tuple(state._replace(shape=shape) for state, shape in zip(self.states, shapes, strict=True))
        return replace(self, states=states)

    def first(self, walk: Walk) -> Repeated:
        """With the values that only the first time has."""
        leading = tuple(each.guessed(np.int64(0)) for each in self.leading)
        states = tuple(each.guessed(walk.shapes.values.get(str(each.source))) for each in self.states)
        return replace(self, leading=leading, states=states)

    def go_through(self, walk: Walk, scope: Scope) -> Passed:
        return _go_through(walk, self.body, scope, (*self.leading, *self.states, *self.slices))

    def state_outputs(self, passed: Passed) -> tuple[str, ...]:
        return passed.outputs[self.outputs_before : self.outputs_before + len(self.states)]

    def stacked_outputs(self, passed: Passed) -> tuple[str, ...]:
        return passed.outputs[self.outputs_before + len(self.states) :]


def _loop(walk: Walk, node: onnx.NodeProto, scope: Scope) -> None:
    body = _graph(node, "body")
    limit_name, condition_name, *initial = (*node.input, "", "")[: max(len(node.input), 2)]
    stacked = len(body.output) - 1 - len(initial)
    _check_counts(node, body, 1, 2 + len(initial), len(initial))
    loop = Repeated(
        body,
        # Whenever it runs, the condition to go on held.
        (Given(onnx.TensorProto.INT64, ()), Given(onnx.TensorProto.BOOL, (), value=np.bool_(True))),
        _states(walk, body, initial, inputs_before=2, outputs_before=1),
        (),
        outputs_before=1,
        axes=(0,) * stacked,
    )
    limit = walk.value(limit_name)
    most = ENDLESS if limit is None else max(int(limit.reshape(-1)[0]), 0)
    starts = _flag(walk, condition_name) if condition_name else True
    passed, note = _one_time(walk, loop, scope)
    goes_on = _flag(walk, passed.outputs[0])
    if starts is False or not most:
        trips = 0
    elif starts and goes_on is False:
        trips = 1
    elif starts and goes_on and (limit is not None):
        trips = most
    elif most < ENDLESS:
        trips = most
        walk.notes.append(f"{place(node)}: counted {most} times, the most it runs; it may end sooner")
    else:
        trips = 1
        walk.notes.append(f"{place(node)}: only a real run knows how often it runs; counted once")
    _repeat(walk, node, scope, loop, passed, trips, note)


def _scan(walk: Walk, node: onnx.NodeProto, scope: Scope) -> None:
    body, attributes = _graph(node, "body"), {each.name: each for each in node.attribute}
    count = attributes["num_scan_inputs"].i
    if not 0 < count <= len(node.input) or not all(node.input):
        raise Untold("it is of a version before 9")
    initial, sliced = node.input[:-count], node.input[-count:]
    stacked = len(body.output) - len(initial)
    _check_counts(node, body, 0, len(node.input), len(initial))
    axes = list(attributes["scan_input_axes"].ints) if "scan_input_axes" in attributes else [0] * count
    output_axes = list(attributes["scan_output_axes"].ints) if "scan_output_axes" in attributes else [0] * stacked
    slices, lengths = [], set()
    for name, axis in zip(sliced, axes, strict=True):
        shape = list(walk.shapes.tensor(name).shape)
        lengths.add(shape.pop(axis))
        slices.append(Given(walk.shapes.element_type(name), tuple(shape), name))
    if len(lengths) > 1:
        raise UsageError(f"{place(node)} is malformed: its inputs have {sorted(lengths)} slices")
    states = _states(walk, body, initial, inputs_before=0, outputs_before=0)
    scan = Repeated(body, (), states, tuple(slices), outputs_before=0, axes=tuple(output_axes))
    passed, note = _one_time(walk, scan, scope)
    _repeat(walk, node, scope, scan, passed, lengths.pop(), note)


def _states(
    walk: Walk, body: onnx.GraphProto, initial: Sequence[str], inputs_before: int, outputs_before: int
) -> tuple[Given, ...]:
    """What the first time is given. A state that is handed on as it came has one value all along."""
    states = []
    for position, name in enumerate(initial):
        handed_on = body.output[outputs_before + position].name == body.input[inputs_before + position].name
        value = walk.value(name) if handed_on else None
        shape = walk.shapes.tensor(name).shape
        states.append(Given(walk.shapes.element_type(name), shape, name, value, same=handed_on))
    return tuple(states)


def _one_time(walk: Walk, repeated: Repeated, scope: Scope) -> tuple[Passed, str]:
    """Once through the body, and what is to be said of it."""
    try:
        return repeated.go_through(walk, scope), ""
    except Untold:
        note = "sizes change from time to time; counted {} as the first time"
        return repeated.first(walk).go_through(walk, scope), note


def _repeat(
    walk: Walk, node: onnx.NodeProto, scope: Scope, repeated: Repeated, passed: Passed, trips: int, note: str
) -> None:
    """Count a body so many times, and give the node's outputs what it leaves."""
    before = tuple(state.shape for state in repeated.states)
    final = before
    if trips:
        growth = _growth(walk, repeated, passed)
        final = _grown(before, growth, trips)
        if trips > 1 and final != before:
            # Where costs grow as sizes do, as those of a token that sees all before it, the middle is the mean.
            middle = repeated.at(_grown(before, growth, (trips - 1) / 2))
            passed = middle.go_through(walk, scope)
            if _growth(walk, middle, passed) != growth:
                raise Untold("its tensors do not grow evenly")
            note = "its tensors grow; counted {} at the size they have in the middle"
        walk.put(passed.part, trips)
        if note:
            walk.notes.append(f"{place(node)}: {note.format(f'{trips} times')}")
    sources = repeated.state_outputs(passed) if trips else tuple(str(state.source) for state in repeated.states)
    count = len(sources)
    for source, target, shape in zip(sources, node.output[:count], final, strict=True):
        if target:
            walk.shapes.set_type(target, walk.shapes.element_type(source), shape)
            walk.graph.pass_on(*walk.tensors([source, target]))
    _stack(walk, node, repeated, repeated.stacked_outputs(passed), node.output[count:], trips)


def _growth(walk: Walk, repeated: Repeated, passed: Passed) -> tuple[tuple[int, ...], ...]:
    """By how much each axis of each state is longer after one time."""
    growth = []
    for state, name in zip(repeated.states, repeated.state_outputs(passed), strict=True):
        after = walk.shapes.tensor(name).shape
        if len(after) != len(state.shape):
            raise Untold("its tensors change their number of axes")
        growth.append(tuple(new - old for new, old in zip(after, state.shape, strict=True)))
    return tuple(growth)


def _grown(shapes: Sequence[Shape], growth: Sequence[Sequence[int]], times: float) -> tuple[Shape, ...]:
    grown = tuple(
        tuple(size if not more else int(size + more * times) for size, more in zip(shape, each, strict=True))
        for shape, each in zip(shapes, growth, strict=True)
    )
    if any(size < 0 for shape in grown for size in shape):
        raise Untold("its tensors shrink to nothing")
    return grown


def _stack(
    walk: Walk, node: onnx.NodeProto, repeated: Repeated, parts: Sequence[str], targets: Sequence[str], trips: int
) -> None:
    """What each time gives, copied into one tensor: the only work of the node itself."""
    reads, writes = [], []
    for part, target, axis in zip(parts, targets, repeated.axes, strict=False):
        if target:
            shape = list(walk.shapes.tensor(part).shape)
            shape.insert(axis if axis >= 0 else len(shape) + 1 + axis, trips)
            walk.shapes.set_type(target, walk.shapes.element_type(part), shape)
            reads.append(part)
            writes.append(target)
    if writes and trips:
        walk.graph.add(_call(node, walk.tensors(reads), walk.tensors(writes)))


def _call(node: onnx.NodeProto, reads: tuple[Tensor, ...], writes: tuple[Tensor, ...]) -> Call:
    return Call(name=one_line(node.name, longest=300), operator=operator(node), reads=reads, writes=writes)


def _graph(node: onnx.NodeProto, name: str) -> onnx.GraphProto:
    for attribute in node.attribute:
        if attribute.name == name and attribute.HasField("g"):
            found: onnx.GraphProto = attribute.g
            return found
    raise UsageError(f"{place(node)} is malformed: it has no {name}")


def _check_counts(node: onnx.NodeProto, body: onnx.GraphProto, before: int, inputs: int, states: int) -> None:
    """Whether a body takes what the node is given, and gives what the node gives; `before` of its outputs it keeps."""
    gives = len(body.output) - before
    if len(body.input) != inputs or not states <= gives or len(node.output) != gives or not all(node.input[2:]):
        counts = f"{len(body.input)} inputs and {len(body.output)} outputs"
        own = f"{len(node.input)} inputs and {len(node.output)} outputs"
        raise UsageError(f"{place(node)} is malformed: it has {own}, its body {counts}")


def _flag(walk: Walk, name: str) -> bool | None:
    """Whether a condition holds, where that is known."""
    value = walk.value(name)
    return None if value is None or not value.size else bool(value.reshape(-1)[0])
