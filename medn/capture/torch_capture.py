"""Capturing a torch module, by the cheapest way that works: on shapes alone, through torch.export, by a real run.

Each way works on a copy of its own and undoes whatever the model's code changes elsewhere.
"""

from __future__ import annotations

import contextvars
import gc
import logging
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from weakref import ReferenceType

import torch
from torch._subclasses import FakeTensorMode
from torch.nn.parameter import is_lazy

from medn.capture.captured_model import CapturedModel, Guess
from medn.capture.data_dependence import CallLimitMode, EndlessRun, Guesses
from medn.capture.example_inputs import Example, Inputs, make_example
from medn.capture.graph_builder import GraphBuilder
from medn.capture.meta_run import MetaMode, MetaReadMode, TrackedValues
from medn.capture.model_copy import Copier, CopyTensor
from medn.capture.operators import tensors_in
from medn.capture.real_run import DirectReadMode, ListeningMode
from medn.capture.recording import Recorder, RunLimits, view_of
from medn.capture.side_effects import undo_side_effects
from medn.capture.tensor_copies import TensorCopies
from medn.core.errors import UsageError
from medn.core.text import first_line
from medn.devices.onnx_export import plain_attention

REAL_RUN = "one real run"
AFFORDABLE_FLOPS, AFFORDABLE_BYTES = 1e12, 8e9
"""Limits of a real run that replaces guesses: some seconds, and all tensors together."""

LARGEST_COPIED_BYTES = 64 << 20
"""Larger tensors are copied for a real run on write only, as weights are."""

TURNS = threading.RLock()
"""Threads capture one after the other: what is put back afterwards belongs to the whole process."""


@dataclass(frozen=True, eq=False)
class CaptureTask:
    """What is to be captured, and when to give up."""

    model: torch.nn.Module
    example: Example
    limits: RunLimits
    meta_tensors: list[ReferenceType[torch.Tensor]] = field(default_factory=list)
    """The tensors without data that were made; all of them should be released in the end."""


def capture_module(
    model: torch.nn.Module, example_inputs: Any, batch_size: int | None, max_operators: int
) -> CapturedModel:
    task = CaptureTask(model, make_example(example_inputs, batch_size), RunLimits(max_operators))
    try:
        with TURNS:
            captured = contextvars.copy_context().run(_captured, task)  # what is set meanwhile is not set afterwards
    except UsageError:
        _warn_of_leaks(task.meta_tensors)
        raise
    _warn_of_leaks(task.meta_tensors)
    return captured


def _captured(task: CaptureTask) -> CapturedModel:
    reasons: dict[str, str] = {}
    routes = dict(ROUTES)
    while routes:
        how = next(iter(routes))
        try:
            captured = routes.pop(how)(task, how)
        except EndlessRun as error:
            reasons[how] = str(error)
            # With other guesses it may end; where nothing was guessed a real call is as long.
            routes = {} if error.without_guesses else {route: routes[route] for route in routes if route == REAL_RUN}
        except Exception as error:  # whatever a model's own code raises
            reasons[how] = first_line(error)
        else:
            return (_without_guesses(task, captured) or captured) if captured.guesses else captured
    by_reason = {reason: [route for route in reasons if reasons[route] == reason] for reason in reasons.values()}
    summary = "; ".join(f"{', '.join(names)}: {reason}" for reason, names in by_reason.items())
    raise UsageError(f"{type(task.model).__name__} cannot be captured with these inputs. {summary}")


def _without_guesses(task: CaptureTask, guessed: CapturedModel) -> CapturedModel | None:
    """The same by a real run, where that is affordable."""
    made_bytes = sum(layer.output_bytes for layer in guessed.layers)
    if guessed.flops > AFFORDABLE_FLOPS or made_bytes > AFFORDABLE_BYTES:
        return None
    limits = RunLimits(task.limits.operators, AFFORDABLE_FLOPS)
    try:
        return _on_real_data(replace(task, limits=limits), REAL_RUN)
    except (EndlessRun, Exception):  # the guesses stay, and are reported
        return None


def _on_meta(task: CaptureTask, how: str) -> CapturedModel:
    """On a copy whose tensors have no data."""
    values = TrackedValues()
    with _copied(task, values.copy_without_data, task.example.shapes) as (model, inputs):
        if _is_lazy(model):
            mode = MetaMode(values, _ignore, Guesses(str), task.meta_tensors)
            _initialize(task, model, (values.copy_without_data, task.example.shapes), (mode, MetaReadMode(mode)))
        return _run_on_meta(task, values, model, inputs, how)


def _initialize(
    task: CaptureTask, model: torch.nn.Module, copying: tuple[CopyTensor, Inputs], modes: tuple[Any, ...]
) -> None:
    """A first call, with inputs of its own and without recording."""
    copy_tensor, inputs = copying
    with Copier(copy_tensor) as copier, ExitStack() as stack:
        arguments, keywords = copier.copy(inputs, "an input")
        for mode in (*modes, CallLimitMode(task.limits.operators)):
            stack.enter_context(mode)
        model(*arguments, **keywords)


def _ignore(*call: Any) -> None:
    return None


def _run_on_meta(
    task: CaptureTask, values: TrackedValues, model: torch.nn.Module, inputs: Inputs, how: str
) -> CapturedModel:
    recording = Recording(task, model, inputs)
    guesses = Guesses(lambda: recording.recorder.name)
    mode = MetaMode(values, recording.recorder.on_operator, guesses, task.meta_tensors)
    try:
        with mode, MetaReadMode(mode), recording.recorder.listening():
            output = model(*inputs[0], **inputs[1])
    except EndlessRun as error:
        error.without_guesses = not guesses
        raise
    return recording.finish(output, how, guesses.all)


def _exported(task: CaptureTask, how: str) -> CapturedModel:
    """torch.export resolves control flow; the exported program runs on shapes alone."""
    fake = FakeTensorMode()
    inputs = task.example.shapes_on(fake)
    with (
        _copied(task, fake.from_tensor, inputs) as (model, copied),
        _no_export_log(),
        CallLimitMode(task.limits.operators),
    ):
        program = torch.export.export(model, *copied, strict=False)
        unfolded = torch.export.unflatten(program)
    return _on_meta(replace(task, model=unfolded), how)


def _on_real_data(task: CaptureTask, how: str) -> CapturedModel:
    """On a copy that shares the weights' memory with the model as long as nothing is written into it."""
    own: list[torch.Tensor] = []
    clones = TensorCopies(with_data=True)

    def copy_tensor(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.is_meta:
            raise UsageError("not possible, the weights or the inputs have no data")
        if type(tensor) is torch.nn.Parameter:
            return torch.nn.Parameter(tensor.data, tensor.requires_grad)
        plain = type(tensor) is torch.Tensor and tensor.is_leaf and tensor.layout is torch.strided
        if plain and tensor.nbytes > LARGEST_COPIED_BYTES:
            return tensor.data.requires_grad_(tensor.requires_grad)
        own.append(clones.of(tensor))
        return own[-1]

    with _copied(task, copy_tensor, task.example.values) as (model, inputs):
        if _is_lazy(model):
            _initialize(task, model, (copy_tensor, inputs), (ListeningMode(_ignore, own),))
        recording = Recording(task, model, inputs)
        mode = ListeningMode(recording.recorder.on_operator, own)
        with mode, DirectReadMode(mode), recording.recorder.listening():
            output = model(*inputs[0], **inputs[1])
    return recording.finish(output, how)


ROUTES: Mapping[str, Callable[[CaptureTask, str], CapturedModel]] = {
    "shapes alone": _on_meta,
    "torch.export": _exported,
    REAL_RUN: _on_real_data,
}


class Recording:
    """One call of a model as it becomes a graph."""

    def __init__(self, task: CaptureTask, model: torch.nn.Module, inputs: Inputs) -> None:
        self.graph = GraphBuilder(task.example.batch_size)
        self.recorder = Recorder(model, self.graph, task.limits)
        tensors = [tensor for tensor in _parameters_and_buffers(model) if not is_lazy(tensor)]
        self._parameter_bytes = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
        for tensor in tensors:
            self.graph.add_parameter(view_of(tensor))
        for position, tensor in enumerate(tensors_in(inputs)):
            self.graph.add_input(f"input_{position}", view_of(tensor))

    def finish(self, output: Any, how: str, guessed: tuple[Guess, ...] = ()) -> CapturedModel:
        outputs = [(f"output_{position}", view_of(tensor)) for position, tensor in enumerate(tensors_in(output))]
        return self.graph.finish(outputs, self._parameter_bytes, how, guessed)


def _parameters_and_buffers(model: torch.nn.Module) -> Iterator[torch.Tensor]:
    """Parameters and buffers, each once."""
    yield from model.parameters()
    yield from model.buffers()


def _is_lazy(model: torch.nn.Module) -> bool:
    """Whether a first call makes parameters, which is no work of later calls."""
    return any(is_lazy(tensor) for tensor in _parameters_and_buffers(model))


@contextmanager
def _copied(task: CaptureTask, copy_tensor: CopyTensor, inputs: Inputs) -> Iterator[tuple[torch.nn.Module, Inputs]]:
    """Copies of the inputs and of the model, as it is when it is in use; all else is afterwards as it was."""
    with Copier(copy_tensor) as copier:
        model, copied_inputs = copier.copy(task.model), copier.copy(inputs, "an input")
        with undo_side_effects(copier.code), torch.no_grad(), plain_attention():
            model.eval()
            yield model, copied_inputs


@contextmanager
def _no_export_log() -> Iterator[None]:
    """torch logs a traceback where an export fails, which the error repeats."""
    log = logging.getLogger("torch._subclasses.fake_tensor")
    log.addFilter(_nothing)
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        log.removeFilter(_nothing)


def _nothing(record: logging.LogRecord) -> bool:
    return False


def _warn_of_leaks(meta_tensors: list[ReferenceType[torch.Tensor]]) -> None:
    """Tensors that outlive the copy are held by state that was not found to be reachable."""
    if any(reference() is not None for reference in meta_tensors):
        gc.collect()
    leaked = [tensor for reference in meta_tensors if (tensor := reference()) is not None]
    if leaked:
        holders = sorted({type(holder).__name__ for holder in gc.get_referrers(*leaked) if holder is not leaked})
        warnings.warn(
            f"{len(leaked)} tensors without data are still held after the capture (by {', '.join(holders)}): "
            "its code keeps them outside of the model, and a later call may find them",
            stacklevel=4,
        )
