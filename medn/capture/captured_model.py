"""A captured model: its layers in order, and how many bytes flow from which to which.

Values only: a captured model is saved, loaded and read without torch or onnx.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from medn.core.dtypes import SPELLINGS
from medn.core.errors import UsageError
from medn.core.units import format_bytes
from medn.core.values import Layer
from medn.layer_generators.kind import layer_kinds
from medn.layer_generators.operation import Shape

if TYPE_CHECKING:
    from pydantic import TypeAdapter


def short_dtype(name: str) -> str:
    """The name a data type has in medn; integers and rarer types keep the name numpy and torch give them."""
    return SPELLINGS.get(name, name)


def input_index(position: int) -> int:
    """The index of a model's input beside those of layers: negative, the first input is -1."""
    return -1 - position


@dataclass(frozen=True)
class Port:
    """A tensor that goes into the model or comes out of it, its shape with the batch."""

    name: str
    shape: Shape
    dtype: str
    size_bytes: int
    producers: tuple[int, ...] = ()
    """Of an output: the layers it comes from."""


@dataclass(frozen=True)
class Edge:
    """What one layer hands to another: the bytes that would cross if the two were on different devices."""

    source: int
    """The index of a layer, or of a model input (see `input_index`)."""
    target: int
    size_bytes: int


@dataclass(frozen=True)
class CapturedLayer:
    """One operator of the model that does work, as a layer of a kind where a kind knows it."""

    name: str
    """The path of the module that called it; of an ONNX file, the name of the node."""
    operator: str
    layer: Layer | None
    """None where no kind knows the operator; then FLOPs and bytes are estimates from its tensors."""
    batch_size: int
    dtype: str
    flops: int
    moved_bytes: int
    """Everything read and written, parameters included."""
    parameter_bytes: int
    """Parameters and buffers it refers to."""
    output_bytes: int
    inputs: tuple[int, ...] = ()
    """The layers (or model inputs, see `input_index`) whose outputs it reads."""
    input_bytes: tuple[int, ...] = ()
    """How many bytes it reads from each of them."""
    repeats: int = 1
    """How often it runs in one run of the model, as in a loop. All other numbers are those of one time."""
    held_bytes: int | None = None
    """What all tensors that the model's code made and has not let go of take together, once it has run; weights and
    inputs of the model are not among them. None where no code was run that could keep any, as of an ONNX file."""
    held_fixed_bytes: int = 0
    """That part of it which does not grow with the batch."""


@dataclass(frozen=True)
class UnknownOperator:
    """An operator that no layer kind knows, and its share of the whole model's work."""

    operator: str
    count: int
    flops_share: float
    bytes_share: float


@dataclass(frozen=True)
class Guess:
    """A data-dependent value that the model's code read while it ran on shapes alone, and what was assumed."""

    name: str
    """The path of the module that read it."""
    place: str
    """The file and the line."""
    answer: str
    count: int
    """How often it was read there."""

    def __str__(self) -> str:
        times = f" {self.count} times" if self.count > 1 else ""
        return f"{self.place}{f' in {self.name}' if self.name else ''}: taken as {self.answer}{times}"


@dataclass(frozen=True, repr=False)
class CapturedModel:
    """The layers of a model in the order they run.

    >>> import medn, torch
    >>> model = medn.capture(torch.nn.Sequential(torch.nn.Linear(64, 10), torch.nn.ReLU()), torch.zeros(8, 64))
    >>> model
    <CapturedModel of 2 layers at batch size 8: 1.03e+04 FLOPs, 2.6 kB of parameters>
    >>> [(each.layer.kind, each.flops) for each in model.layers]
    [('linear', 10240), ('activation', 80)]
    """

    layers: tuple[CapturedLayer, ...]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    parameter_bytes: int
    batch_size: int
    how: str
    """Which way of capturing succeeded."""
    guesses: int = 0
    """How many data-dependent values the model's code read and got a guess for."""
    guessed: tuple[Guess, ...] = ()
    """Where, and what was assumed."""
    notes: tuple[str, ...] = ()
    """What was assumed while capturing, in sentences."""

    def __repr__(self) -> str:
        layers = "1 layer" if len(self.layers) == 1 else f"{len(self.layers):,} layers"
        work = f"{self.flops:.3g} FLOPs, {format_bytes(self.parameter_bytes)} of parameters"
        return f"<CapturedModel of {layers} at batch size {self.batch_size}: {work}>"

    @cached_property
    def edges(self) -> tuple[Edge, ...]:
        """What flows from which layer to which; a source below 0 is an input of the model."""
        return tuple(
            Edge(source, target, size_bytes * self.crossings(source, target))
            for target, layer in enumerate(self.layers)
            for source, size_bytes in zip(layer.inputs, layer.input_bytes, strict=True)
        )

    def crossings(self, source: int, target: int) -> int:
        """How often one hands something to the other: into a loop and out of it once, inside of it each time."""
        return min(self.layers[source].repeats if source >= 0 else 1, self.layers[target].repeats)

    @property
    def flops(self) -> int:
        """The arithmetic of one run, a multiplication and an addition being two."""
        return sum(layer.flops * layer.repeats for layer in self.layers)

    @property
    def moved_bytes(self) -> int:
        """Everything that the layers read and write in one run, parameters included."""
        return sum(layer.moved_bytes * layer.repeats for layer in self.layers)

    @property
    def unknown_flops_share(self) -> float:
        """Of the FLOPs: those of operators that no layer kind knows."""
        return sum((operator.flops_share for operator in self.unknown_operators), 0.0)

    @property
    def unknown_bytes_share(self) -> float:
        """Of the moved bytes: those of operators that no layer kind knows."""
        return sum((operator.bytes_share for operator in self.unknown_operators), 0.0)

    @cached_property
    def unknown_operators(self) -> tuple[UnknownOperator, ...]:
        """The operators without a kind, those that move most first."""
        by_name: dict[str, list[CapturedLayer]] = {}
        for layer in self.layers:
            if layer.layer is None:
                by_name.setdefault(layer.operator, []).append(layer)
        # A model without any work has no shares to speak of.
        flops, moved = max(self.flops, 1), max(self.moved_bytes, 1)
        operators = [
            UnknownOperator(
                operator,
                len(calls),
                sum(call.flops * call.repeats for call in calls) / flops,
                sum(call.moved_bytes * call.repeats for call in calls) / moved,
            )
            for operator, calls in by_name.items()
        ]
        return tuple(sorted(operators, key=lambda operator: -operator.bytes_share))

    def to_json(self) -> bytes:
        """What `save` writes."""
        return _file_adapter().dump_json(_File(model=self))

    def save(self, path: str | Path) -> None:
        """Write it as JSON, for `load_captured`."""
        Path(path).write_bytes(self.to_json())


def check_captured(model: object) -> None:
    """For what takes captured models: others are easily given in their place."""
    if not isinstance(model, CapturedModel):
        wanted = "must be a captured model, as medn.capture(net, example_input) gives"
        raise UsageError(f"{wanted} (got {type(model).__name__})")


@dataclass(frozen=True)
class _File:
    model: CapturedModel
    version: Literal[1] = 1


def load_captured(path: str | Path) -> CapturedModel:
    """A captured model as `CapturedModel.save` wrote it, every layer of it checked again. It needs no torch.

    >>> import medn, torch
    >>> medn.capture(torch.nn.Linear(64, 10), torch.zeros(8, 64)).save("net.json")
    >>> load_captured("net.json")
    <CapturedModel of 1 layer at batch size 8: 1.02e+04 FLOPs, 2.6 kB of parameters>
    """
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from None
    return parse_captured(content, str(path))


def parse_captured(content: bytes | bytearray, source: str) -> CapturedModel:
    """The same from what the file holds; `source` is what errors call it."""
    from pydantic import ValidationError

    try:
        model = _file_adapter().validate_json(content).model
    except ValidationError as error:
        first = error.errors()[0]
        location = ".".join(map(str, first["loc"])) or "the file"
        raise UsageError(f"{source}: not a captured model of this version: {location}: {first['msg']}") from None
    for mistake in _mistakes(model):
        raise UsageError(f"{source}: not a captured model: {mistake}")
    return model


def _mistakes(model: CapturedModel) -> Iterator[str]:
    for index, captured in enumerate(model.layers):
        if any(not -len(model.inputs) <= source < index for source in captured.inputs):
            yield f"layers.{index}.inputs: must be earlier layers or model inputs (got {list(captured.inputs)})"
        for name in ("batch_size", "repeats"):
            if getattr(captured, name) < 1:
                yield f"layers.{index}.{name}: must be at least 1 (got {getattr(captured, name)})"
        for name in ("flops", "moved_bytes", "parameter_bytes", "output_bytes"):
            if getattr(captured, name) < 0:
                yield f"layers.{index}.{name}: must be from 0 on (got {getattr(captured, name)})"
        if len(captured.inputs) != len(captured.input_bytes):
            yield f"layers.{index}.input_bytes: must be as many as inputs"
        if captured.layer is not None:
            try:
                checked = layer_kinds[captured.layer.kind].layer(**captured.layer.values)
            except UsageError as error:
                yield f"layers.{index}.layer: {error}"
            else:
                if checked != captured.layer:
                    yield f"layers.{index}.layer: must say every parameter of {checked}"


def _file_adapter() -> TypeAdapter[_File]:
    from pydantic import TypeAdapter

    return TypeAdapter(_File)
