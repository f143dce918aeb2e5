"""Capturing a torch module, by the cheapest way that works: on shapes alone, through torch.export, by a real run.

Each way works on a copy of its own and puts back whatever the model's code changes elsewhere.
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
from medn.capture.data_dependence import CountingMode, Endless, Guesses
from medn.capture.example_inputs import Example, Inputs, example_of
from medn.capture.graph import Graph
from medn.capture.meta_run import AnsweringMode, KnownValues, ReadingMode
from medn.capture.model_copy import Copier, Twin
from medn.capture.operators import tensors_in
from medn.capture.real_run import DirectMode, ListeningMode
from medn.capture.recording import Limits, Recorder, view_of
from medn.capture.side_effects import put_back
from medn.capture.tensor_copies import Twins
from medn.core.errors import UsageError
from medn.core.text import first_line
from medn.devices.onnx_export import plain_attention

REALLY = "one real run"
AFFORDABLE_FLOPS, AFFORDABLE_BYTES = 1e12, 8e9
"""A real run may take this to find out what was guessed on shapes alone: some seconds, and all tensors together."""

LARGEST_COPIED_BYTES = 64 << 20
"""Larger tensors are copied for a real run only when something is about to write into them, as weights are."""

TURNS = threading.RLock()
"""Threads capture one after the other: what is put back afterwards belongs to the whole process."""


@dataclass(frozen=True, eq=False)
class Task:
    """What is to be captured, and when to give up."""

    model: torch.nn.Module
    example: Example
    limits: Limits
    made: list[ReferenceType[torch.Tensor]] = field(default_factory=list)
    """The tensors without data that were made; all of them should be gone in the end."""


def capture_module(
    model: torch.nn.Module, example_inputs: Any, batch_size: int | None, max_operators: int
) -> CapturedModel:
    task = Task(model, example_of(example_inputs, batch_size), Limits(max_operators))
    try:
        with TURNS:
            found = contextvars.copy_context().run(_captured, task)  # what is set meanwhile is not set afterwards
    except UsageError:
        _warn_of_remains(task.made)
        raise
    _warn_of_remains(task.made)
    return found


def _captured(task: Task) -> CapturedModel:
    reasons: dict[str, str] = {}
    ways_left = dict(ROUTES)
    while ways_left:
        how = next(iter(ways_left))
        try:
            found = ways_left.pop(how)(task, how)
        except Endless as error:
            reasons[how] = str(error)
            # What is guessed differently may end; a call as long as a real one would not.
            ways_left = {} if error.true_to_life else {way: ways_left[way] for way in ways_left if way == REALLY}
        except Exception as error:  # whatever a model's own code raises
            reasons[how] = first_line(error)
        else:
            return (_without_guesses(task, found) or found) if found.guesses else found
    ways = {reason: [way for way in reasons if reasons[way] == reason] for reason in reasons.values()}
    said = "; ".join(f"{', '.join(names)}: {reason}" for reason, names in ways.items())
    raise UsageError(f"{type(task.model).__name__} cannot be captured with these inputs. {said}")


def _without_guesses(task: Task, guessed: CapturedModel) -> CapturedModel | None:
    """The same by a real run, where that can be afforded."""
    made_bytes = sum(layer.output_bytes for layer in guessed.layers)
    if guessed.flops > AFFORDABLE_FLOPS or made_bytes > AFFORDABLE_BYTES:
        return None
    limits = Limits(task.limits.operators, AFFORDABLE_FLOPS)
    try:
        return _really(replace(task, limits=limits), REALLY)
    except (Endless, Exception):  # what was guessed is the best that can be told, and is told as guessed
        return None


def _on_meta(task: Task, how: str) -> CapturedModel:
    """On a copy whose tensors have no data."""
    known = KnownValues()
    with _copied(task, known.twin, task.example.shapes) as (model, inputs):
        if _is_lazy(model):
            mode = AnsweringMode(known, _unheard, Guesses(str), task.made)
            _initialize(task, model, (known.twin, task.example.shapes), (mode, ReadingMode(mode)))
        return _run_on_meta(task, known, model, inputs, how)


def _initialize(task: Task, model: torch.nn.Module, given: tuple[Twin, Inputs], modes: tuple[Any, ...]) -> None:
    """A first call, with inputs of its own and to which nobody listens."""
    twin, inputs = given
    with Copier(twin) as copier, ExitStack() as stack:
        arguments, keywords = copier.copy(inputs, "an input")
        for mode in (*modes, CountingMode(task.limits.operators)):
            stack.enter_context(mode)
        model(*arguments, **keywords)


def _unheard(*call: Any) -> None:
    return None


def _run_on_meta(task: Task, known: KnownValues, model: torch.nn.Module, inputs: Inputs, how: str) -> CapturedModel:
    recording = Recording(task, model, inputs)
    guesses = Guesses(lambda: recording.recorder.name)
    mode = AnsweringMode(known, recording.recorder.hear, guesses, task.made)
    try:
        with mode, ReadingMode(mode), recording.recorder.listening():
            output = model(*inputs[0], **inputs[1])
    except Endless as error:
        error.true_to_life = not guesses
        raise
    return recording.finish(output, how, guesses.all)


def _exported(task: Task, how: str) -> CapturedModel:
    """torch.export settles what the model's code decides; what is left runs on shapes alone."""
    fake = FakeTensorMode()
    inputs = task.example.shapes_on(fake)
    with _copied(task, fake.from_tensor, inputs) as (model, given), _quiet(), CountingMode(task.limits.operators):
        program = torch.export.export(model, *given, strict=False)
        unfolded = torch.export.unflatten(program)
    return _on_meta(replace(task, model=unfolded), how)


def _really(task: Task, how: str) -> CapturedModel:
    """On a copy that has the weights' memory in common with the model for as long as nothing is written into it."""
    own: list[torch.Tensor] = []
    clones = Twins(with_data=True)

    def twin(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.is_meta:
            raise UsageError("not possible, the weights or the inputs have no data")
        if type(tensor) is torch.nn.Parameter:
            return torch.nn.Parameter(tensor.data, tensor.requires_grad)
        plain = type(tensor) is torch.Tensor and tensor.is_leaf and tensor.layout is torch.strided
        if plain and tensor.nbytes > LARGEST_COPIED_BYTES:
            return tensor.data.requires_grad_(tensor.requires_grad)
        own.append(clones.of(tensor))
        return own[-1]

    with _copied(task, twin, task.example.values) as (model, inputs):
        if _is_lazy(model):
            _initialize(task, model, (twin, inputs), (ListeningMode(_unheard, own),))
        recording = Recording(task, model, inputs)
        mode = ListeningMode(recording.recorder.hear, own)
        with mode, DirectMode(mode), recording.recorder.listening():
            output = model(*inputs[0], **inputs[1])
    return recording.finish(output, how)


ROUTES: Mapping[str, Callable[[Task, str], CapturedModel]] = {
    "shapes alone": _on_meta,
    "torch.export": _exported,
    REALLY: _really,
}


class Recording:
    """One call of a model as it becomes a graph."""

    def __init__(self, task: Task, model: torch.nn.Module, inputs: Inputs) -> None:
        self.graph = Graph(task.example.batch_size)
        self.recorder = Recorder(model, self.graph, task.limits)
        held = [tensor for tensor in _held(model) if not is_lazy(tensor)]
        self._parameter_bytes = sum(tensor.numel() * tensor.element_size() for tensor in held)
        for tensor in held:
            self.graph.add_parameter(view_of(tensor))
        for position, tensor in enumerate(tensors_in(inputs)):
            self.graph.add_input(f"input_{position}", view_of(tensor))

    def finish(self, output: Any, how: str, guessed: tuple[Guess, ...] = ()) -> CapturedModel:
        outputs = [(f"output_{position}", view_of(tensor)) for position, tensor in enumerate(tensors_in(output))]
        return self.graph.finish(outputs, self._parameter_bytes, how, guessed)


def _held(model: torch.nn.Module) -> Iterator[torch.Tensor]:
    """Parameters and buffers, each once."""
    yield from model.parameters()
    yield from model.buffers()


def _is_lazy(model: torch.nn.Module) -> bool:
    """Whether a first call makes parameters, which is no work of later calls."""
    return any(is_lazy(each) for each in _held(model))


@contextmanager
def _copied(task: Task, twin: Twin, inputs: Inputs) -> Iterator[tuple[torch.nn.Module, Inputs]]:
    """Copies of the inputs and of the model, as it is when it is in use; all else is afterwards as it was."""
    with Copier(twin) as copier:
        model, given = copier.copy(task.model), copier.copy(inputs, "an input")
        with put_back(copier.code), torch.no_grad(), plain_attention():
            model.eval()
            yield model, given


@contextmanager
def _quiet() -> Iterator[None]:
    """torch writes a traceback to its log where an export fails; the error says it too."""
    log = logging.getLogger("torch._subclasses.fake_tensor")
    log.addFilter(_nothing)
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        log.removeFilter(_nothing)


def _nothing(record: logging.LogRecord) -> bool:
    return False


def _warn_of_remains(made: list[ReferenceType[torch.Tensor]]) -> None:
    """Tensors that outlive the copy are kept by something that the model's code reaches in a way we do not see."""
    if any(each() is not None for each in made):
        gc.collect()
    left = [tensor for each in made if (tensor := each()) is not None]
    if left:
        holders = sorted({type(holder).__name__ for holder in gc.get_referrers(*left) if holder is not left})
        warnings.warn(
            f"{len(left)} tensors without data are still held after the model was captured (by {', '.join(holders)}): "
            "its code keeps them outside of the model, and a later call may find them",
            stacklevel=4,
        )
