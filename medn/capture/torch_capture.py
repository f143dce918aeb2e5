"""Capturing a torch module, by the cheapest way that works: on shapes alone, through torch.export, by a real run."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils._pytree import tree_map_only

from medn.capture.answering import AnsweringMode, ListeningMode, ReadingMode, tensors_in
from medn.capture.graph import Graph
from medn.capture.recording import Recorder, view_of
from medn.capture.values import CapturedModel
from medn.core.errors import UsageError
from medn.devices.onnx_export import plain_attention

Inputs = tuple[tuple[Any, ...], dict[str, Any]]
"""Positional and keyword arguments of a model."""


def capture_module(model: torch.nn.Module, example_inputs: Any, batch_size: int | None) -> CapturedModel:
    inputs, batch_size = with_batch_size(arguments(example_inputs), batch_size)
    reasons: dict[str, str] = {}
    with _as_in_use(model):
        for how, route in ROUTES.items():
            try:
                return route(model, inputs, Graph(batch_size), how)
            except Exception as error:  # whatever a model's own code raises
                reasons[how] = _first_line(error)
    said = "; ".join(f"{how}: {reason}" for how, reason in reasons.items())
    raise UsageError(f"{type(model).__name__} cannot be captured with these inputs. {said}")


def _on_meta(model: torch.nn.Module, inputs: Inputs, graph: Graph, how: str) -> CapturedModel:
    """On the user's own instance, its parameters replaced by ones without data for the length of one call."""
    recorder = Recorder(model, graph)
    mode = AnsweringMode(recorder.hear)
    held = {name: mode.to_meta(tensor) for name, tensor in _held(model)}
    arguments, keywords = tree_map_only(torch.Tensor, mode.to_meta, inputs)
    _prepare(graph, held.values(), (arguments, keywords))
    with mode, ReadingMode(mode), recorder.listening():
        output = torch.func.functional_call(model, held, arguments, keywords)
    return _finish(graph, model, output, how, mode.guesses)


def _exported(model: torch.nn.Module, inputs: Inputs, graph: Graph, how: str) -> CapturedModel:
    """torch.export settles what the model's code decides; what is left runs on shapes alone."""
    arguments, keywords = inputs
    with warnings.catch_warnings(action="ignore"):
        program = torch.export.export(model, arguments, keywords, strict=False)
        unfolded = torch.export.unflatten(program)
    return _on_meta(unfolded, inputs, graph, how)


def _really(model: torch.nn.Module, inputs: Inputs, graph: Graph, how: str) -> CapturedModel:
    if any(tensor.is_meta for tensor in (*(tensor for _, tensor in _held(model)), *tensors_in(inputs))):
        raise UsageError("not possible, the weights or the inputs have no data")
    recorder = Recorder(model, graph)
    _prepare(graph, [tensor for _, tensor in _held(model)], inputs)
    with ListeningMode(recorder.hear), recorder.listening():
        output = model(*inputs[0], **inputs[1])
    return _finish(graph, model, output, how, guesses=0)


ROUTES: Mapping[str, Callable[[torch.nn.Module, Inputs, Graph, str], CapturedModel]] = {
    "shapes alone": _on_meta,
    "torch.export": _exported,
    "one real run": _really,
}


def _prepare(graph: Graph, held: Any, inputs: Inputs) -> None:
    for tensor in held:
        graph.add_parameter(view_of(tensor))
    for position, tensor in enumerate(tensors_in(inputs)):
        graph.add_input(f"input_{position}", view_of(tensor))


def _finish(graph: Graph, model: torch.nn.Module, output: Any, how: str, guesses: int) -> CapturedModel:
    outputs = [(f"output_{position}", view_of(tensor)) for position, tensor in enumerate(tensors_in(output))]
    parameter_bytes = sum(tensor.numel() * tensor.element_size() for _, tensor in _held(model))
    return graph.finish(outputs, parameter_bytes, how, guesses)


def _held(model: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Parameters and buffers, each once."""
    yield from model.named_parameters()
    yield from model.named_buffers()


def arguments(example_inputs: Any) -> Inputs:
    """A tensor, a sequence of arguments, or a mapping of keyword arguments."""
    if isinstance(example_inputs, Mapping):
        return (), dict(example_inputs)
    if isinstance(example_inputs, Sequence):
        return tuple(example_inputs), {}
    return (example_inputs,), {}


def with_batch_size(inputs: Inputs, batch_size: int | None) -> tuple[Inputs, int]:
    """Inputs of the wanted batch size, and that size: the first axis of the first tensor is the batch.

    Every tensor that begins with the same size is made longer or shorter by repeating or leaving out entries.
    """
    given = next((len(tensor) for tensor in tensors_in(inputs) if tensor.dim()), None)
    if given is None or batch_size is None or batch_size == given:
        return inputs, batch_size or given or 1
    wanted = batch_size

    def resized(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.dim() == 0 or len(tensor) != given:
            return tensor
        entries = torch.arange(wanted, device=tensor.device) % max(given, 1)
        return tensor.index_select(0, entries)

    return tree_map_only(torch.Tensor, resized, inputs), wanted


@contextmanager
def _as_in_use(model: torch.nn.Module) -> Iterator[None]:
    """The model as it is when it is asked for predictions; afterwards as it was."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        with torch.no_grad(), plain_attention():
            yield
    finally:
        for module in training:
            module.training = True


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), "") or type(error).__name__
