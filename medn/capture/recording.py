"""From what torch does to the calls of a graph: module paths, layers kept whole, views that cost nothing."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.overrides import TorchFunctionMode
from torch.utils.flop_counter import flop_registry

from medn.capture.data_dependence import Endless
from medn.capture.graph import Graph
from medn.capture.operator_call import Call, Tensor
from medn.capture.operators import tensors_in, written_by
from medn.layer_generators.kind import LayerKind
from medn.layer_generators.operation import Recognised, operation_of
from medn.layer_generators.recognition import recognise, recognise_module

aten = torch.ops.aten

WHOLE_FUNCTIONS: Mapping[Any, Any] = {
    torch.nn.functional.scaled_dot_product_attention: aten.scaled_dot_product_attention.default,
    torch.nn.functional.rms_norm: aten.rms_norm.default,
}
"""Functions that torch takes apart before a recorder sees them, and the operators they stand for."""

RECURRENT = {torch.lstm, torch.gru}

PICKING = {aten.index, aten.index_select, aten.gather, aten.embedding, aten.slice_copy, aten.select_copy}
OVERWRITING = {aten.copy_, aten.fill_, aten.zero_}
"""They change a tensor without reading it."""
RESERVING = {aten.empty, aten.empty_like, aten.empty_strided, aten.new_empty, aten.new_empty_strided, aten.lift_fresh}
"""They bring in memory that no layer has written."""

Known = tuple[LayerKind, Recognised]


@dataclass(frozen=True)
class Limits:
    """When a run is given up."""

    operators: int
    flops: float = math.inf


@dataclass(frozen=True, eq=False)
class _Step:
    """A module at work, and the kind that knows it as a whole."""

    name: str
    module: torch.nn.Module | None
    known: Known | None


def view_of(tensor: torch.Tensor) -> Tensor:
    storage = tensor.untyped_storage()
    return Tensor(
        storage=storage._cdata,
        place=(tensor.storage_offset(), tuple(tensor.shape), tensor.stride()),
        shape=tuple(tensor.shape),
        dtype=str(tensor.dtype).removeprefix("torch."),
        element_bytes=tensor.element_size(),
        storage_bytes=storage.nbytes(),
    )


class Recorder:
    """Hears every operator of a run and adds those that do work to a graph."""

    def __init__(self, model: torch.nn.Module, graph: Graph, limits: Limits) -> None:
        self.graph = graph
        self.operators, self.flops = 0, 0
        self._counted = 0
        """Layers whose FLOPs are counted."""
        self._limits = limits
        self._names = {id(module): name for name, module in model.named_modules()}
        self._path: list[_Step] = []
        self._thread = threading.get_ident()
        self._kept: dict[int, StorageWeakRef] = {}
        """Memories are known by their addresses. A weak reference costs no memory, and then none comes twice."""
        self.inside_whole = 0

    def hear(self, function: Any, arguments: tuple[Any, ...], keywords: dict[str, Any], output: Any) -> None:
        """One operator was called; see `medn.capture.operators.Listener`."""
        self._count()
        if self.inside_whole:
            return
        packet = function.overloadpacket
        given = tuple(map(view_of, tensors_in((arguments, keywords))))
        changed = tuple(map(view_of, written_by(function, arguments, keywords)))
        made = tuple(view for view in self._made(output) if view not in changed)
        fresh = [view for view in made if view.storage not in {each.storage for each in given}]
        if packet in RESERVING:
            for view in made:
                self.graph.add_constant(view)
            return
        # A view of what was given, in place or not, or a question without a tensor as its answer.
        if torch.Tag.inplace_view in function.tags or not (fresh or changed):
            return
        overwritten = changed if packet in OVERWRITING or "out" in keywords else ()
        operation = operation_of(function, arguments, keywords, output, self.graph.batch_size)
        self.graph.add(
            Call(
                name=self.name,
                operator=operation.name,
                reads=tuple(view for view in given if view not in overwritten),
                writes=(*changed, *made),
                recognised=recognise(operation),
                flops=_counted_flops(function, arguments, keywords, output),
                in_place=bool(changed),
                picks=packet in PICKING,
            )
        )

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Follows which module is at work, and keeps whole what a kind knows as a whole."""
        with ExitStack() as stack:
            for handle in (
                register_module_forward_pre_hook(self._enter),
                register_module_forward_hook(self._leave, with_kwargs=True, always_call=True),
            ):
                stack.callback(handle.remove)
            stack.enter_context(_WholeFunctions(self))
            yield

    def call_whole(self, known: Known, operator: str, function: Any, arguments: Any, keywords: Any) -> Any:
        """Call a function and record it as one layer, whatever it does inside."""
        self.inside_whole += 1
        try:
            output = function(*arguments, **keywords)
        finally:
            self.inside_whole -= 1
        self._add_whole(_Step(self.name, None, known), operator, tensors_in((arguments, keywords)), output)
        return output

    def _add_whole(self, step: _Step, operator: str, given: list[torch.Tensor], output: Any) -> None:
        if not self.inside_whole:
            reads, writes = tuple(map(view_of, given)), self._made(output)
            self.graph.add(Call(step.name, operator, reads, writes, step.known))

    def _made(self, output: Any) -> tuple[Tensor, ...]:
        tensors = tensors_in(output)
        for tensor in tensors:
            storage = tensor.untyped_storage()
            if storage._cdata not in self._kept:
                self._kept[storage._cdata] = StorageWeakRef(storage)  # type: ignore[no-untyped-call]
        return tuple(map(view_of, tensors))

    @property
    def name(self) -> str:
        """The path of the module at work."""
        return self._path[-1].name if self._path else ""

    def _enter(self, module: torch.nn.Module, arguments: Any) -> None:
        if threading.get_ident() != self._thread:  # somebody else's module at work at the same time
            return
        known = recognise_module(module, tuple(tuple(tensor.shape) for tensor in tensors_in(arguments)))
        self._path.append(_Step(self._names.get(id(module), self.name), module, known))
        self.inside_whole += known is not None

    def _leave(self, module: torch.nn.Module, arguments: Any, *rest: Any) -> None:
        """A module has returned, or failed and a module around it may go on: then torch tells no keywords."""
        if threading.get_ident() != self._thread or not any(step.module is module for step in self._path):
            return
        while (step := self._path[-1]).module is not module:
            self._step_out(step)
        self._step_out(step)
        if step.known is not None and len(rest) == 2:
            keywords, output = rest
            given = [*tensors_in((arguments, keywords)), *module.parameters()]
            self._add_whole(step, type(module).__name__, given, output)

    def _step_out(self, step: _Step) -> None:
        self._path.pop()
        self.inside_whole -= step.known is not None

    def _count(self) -> None:
        self.operators += 1
        done = sum(layer.flops for layer in self.graph.layers[self._counted :])
        self.flops, self._counted = self.flops + done, len(self.graph.layers)
        if self.operators > self._limits.operators:
            raise Endless(f"one call takes more than max_operators = {self._limits.operators}")
        if self.flops > self._limits.flops:
            raise Endless(f"one call takes more than {self._limits.flops:.2g} FLOPs")


class _WholeFunctions(TorchFunctionMode):
    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self._recorder = recorder

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function in RECURRENT and self._recorder.inside_whole and args[0].is_meta:
            return _last_states(*args)
        operator = WHOLE_FUNCTIONS.get(function, function)
        if operator in WHOLE_FUNCTIONS.values():
            operation = operation_of(operator, args, kwargs or {}, None)
            known = recognise(operation)
            if known is not None:
                return self._recorder.call_whole(known, operation.name, function, args, kwargs or {})
        return function(*args, **(kwargs or {}))


def _last_states(steps: torch.Tensor, states: Any, *rest: Any) -> tuple[torch.Tensor, ...]:
    """What a recurrent layer returns, without going through the sequence: all steps, then the last states."""
    states = (states,) if isinstance(states, torch.Tensor) else tuple(states)
    directions = 1 + rest[-2]
    output = steps.new_empty((*steps.shape[:-1], directions * states[0].shape[-1]))
    return (output, *map(torch.empty_like, states))


def _counted_flops(function: Any, arguments: Any, keywords: Any, output: Any) -> int | None:
    """The FLOPs of operators that are products in disguise, by torch's own formulas."""
    formula = flop_registry.get(function.overloadpacket)
    return None if formula is None else int(formula(*arguments, **keywords, out_val=output))
