"""From torch operators to the calls of a graph: module paths, layers kept whole, views that cost nothing."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.nn.functional import scaled_dot_product_attention
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.overrides import TorchFunctionMode
from torch.utils.flop_counter import flop_registry

from medn.capture.data_dependence import EndlessRun
from medn.capture.graph_builder import GraphBuilder
from medn.capture.held_tensors import HeldTensors
from medn.capture.operator_call import Call, TensorView
from medn.capture.operators import mutated_by, tensors_in
from medn.layer_generators.kind import LayerKind
from medn.layer_generators.operation import Recognised, operation_of
from medn.layer_generators.recognition import recognise, recognise_module

aten = torch.ops.aten

WHOLE_FUNCTIONS: Mapping[Any, Any] = {
    scaled_dot_product_attention: aten.scaled_dot_product_attention.default,
    torch.nn.functional.rms_norm: aten.rms_norm.default,
}
"""Functions that torch takes apart before a recorder sees them, and the operators they stand for."""

RECURRENT = {torch.lstm, torch.gru}

GATHERING = {aten.index, aten.index_select, aten.gather, aten.embedding, aten.slice_copy, aten.select_copy}
OVERWRITING = {aten.copy_, aten.fill_, aten.zero_}
"""They change a tensor without reading it."""
ALLOCATING = {aten.empty, aten.empty_like, aten.empty_strided, aten.new_empty, aten.new_empty_strided, aten.lift_fresh}
"""They allocate memory that no layer has written."""

Match = tuple[LayerKind, Recognised]


@dataclass(frozen=True)
class RunLimits:
    """When a run is stopped."""

    operators: int
    flops: float = math.inf


@dataclass(frozen=True, eq=False)
class _Step:
    """A module that is being called, and the layer kind that it matches as a whole."""

    name: str
    module: torch.nn.Module | None
    match: Match | None


def view_of(tensor: torch.Tensor) -> TensorView:
    storage = tensor.untyped_storage()
    return TensorView(
        storage=storage._cdata,
        region=(tensor.storage_offset(), tuple(tensor.shape), tensor.stride()),
        shape=tuple(tensor.shape),
        dtype=str(tensor.dtype).removeprefix("torch."),
        element_bytes=tensor.element_size(),
        storage_bytes=storage.nbytes(),
    )


class Recorder:
    """Receives every operator of a run and adds those that do work to a graph."""

    def __init__(self, model: torch.nn.Module, graph: GraphBuilder, limits: RunLimits) -> None:
        self.graph = graph
        self.operators, self.flops = 0, 0
        self._counted = 0
        """Layers whose FLOPs are counted."""
        self._limits = limits
        self._names = {id(module): name for name, module in model.named_modules()}
        self._path: list[_Step] = []
        self._thread = threading.get_ident()
        self._storages: dict[int, StorageWeakRef] = {}
        """Storages by address. A weak reference keeps the address from being used again."""
        self._held = HeldTensors()
        self.inside_whole = 0

    def on_operator(self, function: Any, arguments: tuple[Any, ...], keywords: dict[str, Any], output: Any) -> None:
        """One operator was called; see `medn.capture.operators.Listener`."""
        self._count()
        if self.inside_whole:
            return
        packet = function.overloadpacket
        inputs = tuple(map(view_of, tensors_in((arguments, keywords))))
        mutated = tuple(map(view_of, mutated_by(function, arguments, keywords)))
        outputs = tuple(view for view in self._views(output) if view not in mutated)
        fresh = [view for view in outputs if view.storage not in {tensor.storage for tensor in inputs}]
        if packet in ALLOCATING:
            self._held.add(tensors_in(output), grows=True)
            for view in outputs:
                self.graph.add_constant(view)
            return
        # A view of an input, in place or not, or an operator that returns no tensor.
        if torch.Tag.inplace_view in function.tags or not (fresh or mutated):
            return
        overwritten = mutated if packet in OVERWRITING or "out" in keywords else ()
        operation = operation_of(function, arguments, keywords, output, self.graph.batch_size)
        self._add(
            Call(
                name=self.name,
                operator=operation.name,
                reads=tuple(view for view in inputs if view not in overwritten),
                writes=(*mutated, *outputs),
                recognised=recognise(operation),
                flops=_counted_flops(function, arguments, keywords, output),
                in_place=bool(mutated),
                gathers=packet in GATHERING,
            ),
            inputs,
            output,
        )

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Tracks which module is called, and keeps whole what a kind matches as a whole."""
        with ExitStack() as stack:
            for handle in (
                register_module_forward_pre_hook(self._enter),
                register_module_forward_hook(self._leave, with_kwargs=True, always_call=True),
            ):
                stack.callback(handle.remove)
            stack.enter_context(_WholeFunctions(self))
            yield

    def call_whole(self, match: Match, operator: str, function: Any, arguments: Any, keywords: Any) -> Any:
        """Call a function and record it as one layer, whatever it does inside."""
        self.inside_whole += 1
        try:
            output = function(*arguments, **keywords)
        finally:
            self.inside_whole -= 1
        self._add_whole(_Step(self.name, None, match), operator, tensors_in((arguments, keywords)), output)
        return output

    def _add_whole(self, step: _Step, operator: str, tensors: list[torch.Tensor], output: Any) -> None:
        if not self.inside_whole:
            reads, writes = tuple(map(view_of, tensors)), self._views(output)
            self._add(Call(step.name, operator, reads, writes, step.match), reads, output)

    def _add(self, call: Call, inputs: tuple[TensorView, ...], output: Any) -> None:
        """Add a layer, with what is held in memory now that it has run."""
        self.graph.add(call)
        known = {tensor.storage for tensor in inputs}
        made = [tensor for tensor in tensors_in(output) if tensor.untyped_storage()._cdata not in known]
        self._held.add(made, grows=self.graph.layers[-1].batch_size % self.graph.batch_size == 0)
        self.graph.hold(*self._held.bytes())

    def _views(self, output: Any) -> tuple[TensorView, ...]:
        tensors = tensors_in(output)
        for tensor in tensors:
            storage = tensor.untyped_storage()
            if storage._cdata not in self._storages:
                self._storages[storage._cdata] = StorageWeakRef(storage)  # type: ignore[no-untyped-call]
        return tuple(map(view_of, tensors))

    @property
    def name(self) -> str:
        """The path of the module that is being called."""
        return self._path[-1].name if self._path else ""

    def _enter(self, module: torch.nn.Module, arguments: Any) -> None:
        if threading.get_ident() != self._thread:  # a module called by another thread
            return
        match = recognise_module(module, tuple(tuple(tensor.shape) for tensor in tensors_in(arguments)))
        self._path.append(_Step(self._names.get(id(module), self.name), module, match))
        self.inside_whole += match is not None

    def _leave(self, module: torch.nn.Module, arguments: Any, *rest: Any) -> None:
        """A module has returned, or raised where a module around it may go on: then torch passes no keywords."""
        if threading.get_ident() != self._thread or not any(step.module is module for step in self._path):
            return
        while (step := self._path[-1]).module is not module:
            self._step_out(step)
        self._step_out(step)
        if step.match is not None and len(rest) == 2:
            keywords, output = rest
            tensors = [*tensors_in((arguments, keywords)), *module.parameters()]
            self._add_whole(step, type(module).__name__, tensors, output)

    def _step_out(self, step: _Step) -> None:
        self._path.pop()
        self.inside_whole -= step.match is not None

    def _count(self) -> None:
        self.operators += 1
        done = sum(layer.flops for layer in self.graph.layers[self._counted :])
        self.flops, self._counted = self.flops + done, len(self.graph.layers)
        if self.operators > self._limits.operators:
            raise EndlessRun(f"one call takes more than max_operators = {self._limits.operators}")
        if self.flops > self._limits.flops:
            raise EndlessRun(f"one call takes more than {self._limits.flops:.2g} FLOPs")


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
            match = recognise(operation)
            if match is not None:
                called = _laid_out if function is scaled_dot_product_attention else function
                return self._recorder.call_whole(match, operation.name, called, args, kwargs or {})
        return function(*args, **(kwargs or {}))


def _last_states(steps: torch.Tensor, states: Any, *rest: Any) -> tuple[torch.Tensor, ...]:
    """What a recurrent layer returns, without going through the sequence: all steps, then the last states."""
    states = (states,) if isinstance(states, torch.Tensor) else tuple(states)
    directions = 1 + rest[-2]
    output = steps.new_empty((*steps.shape[:-1], directions * states[0].shape[-1]))
    return (output, *map(torch.empty_like, states))


def _laid_out(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    *more: Any,
    **named: Any,
) -> torch.Tensor:
    """Attention, with its output in memory as torch leaves it. Without data torch takes attention apart; with data it
    has one kernel for all of it where it can, which lays the output out as the query is, so that joining the heads
    needs no copy."""
    output = scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, *more, **named)
    tensors = (query, key, value)
    is_one_kernel = query.ndim == 4 and dropout_p == 0 and all(tensor.stride(-1) == 1 for tensor in tensors)
    if not output.is_meta or not is_one_kernel or output.shape != query.shape:
        return output
    return torch.empty_like(query).copy_(output)


def _counted_flops(function: Any, arguments: Any, keywords: Any, output: Any) -> int | None:
    """The FLOPs of operators for which torch has a formula."""
    formula = flop_registry.get(function.overloadpacket)
    return None if formula is None else int(formula(*arguments, **keywords, out_val=output))
