"""What a layer kind is: typed parameters, rules, the torch module, analytic costs, and how to know it in a model.

Formulas use only arithmetic that works alike on plain numbers and on numpy columns, so one layer and a million
layers go through the same lines. torch is imported only inside `build`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from medn.core.domains import Domain
from medn.core.errors import ConfigError, UsageError, did_you_mean
from medn.core.parameters import Parameter as Parameter
from medn.core.parameters import by_name as by_name
from medn.core.parameters import choice as choice
from medn.core.parameters import flag as flag
from medn.core.parameters import integer as integer
from medn.core.parameters import number as number
from medn.core.registry import Registry
from medn.core.values import Layer, Scalar, freeze
from medn.layer_generators.onnx_node import OnnxTranslator
from medn.layer_generators.operation import Operation, Recognised
from medn.program.symbols import Symbol

if TYPE_CHECKING:
    import torch

Column = Any
"""A plain number or a numpy array of them: formulas accept both."""

Expression = Any
"""A tensor of TVM's `te`: what is computed, without how."""

Values = SimpleNamespace
"""The parameters of one layer (or columns of many) by attribute."""


_NEVER = object()
"""What no parameter can be."""


def look_up(table: Mapping[str, float], names: Column) -> Column:
    """The number that belongs to a name, or to each name of a column.

    >>> look_up({"relu": 1, "tanh": 6}, ["tanh", "relu"]).tolist()
    [6, 1]
    """
    if isinstance(names, str):
        return table[names]
    if isinstance(names, Symbol):
        return names.looked_up(table)
    return np.array([table[name] for name in np.asarray(names).tolist()])


@dataclass(frozen=True)
class TensorSpec:
    """One input tensor: its shape with the batch, and for index inputs the number of valid indices."""

    shape: tuple[int, ...]
    indices_below: int | None = None


@dataclass(frozen=True)
class Product:
    """The matrix product that a layer amounts to, once for each of `pairs`; numbers or columns."""

    pairs: Column
    rows: Column
    inner: Column
    columns: Column


@dataclass(frozen=True)
class Costs:
    """What a layer must do, counted from its shapes; numbers or columns."""

    flops: Column
    input_bytes: Column
    output_bytes: Column
    parameter_bytes: Column = 0
    """What the module holds: parameters and floating-point buffers."""
    parameter_bytes_read: Column | None = None
    """What one call reads of them, where that is not all, as in an embedding table."""
    more: Mapping[str, Column] = field(default_factory=dict)
    """Further analytic features of this kind, such as the sizes of the matrix product behind a convolution."""
    product: Product | None = None
    """The matrix product behind the layer, or the largest of several alike; None where it is none."""


class LayerKind(ABC):
    """Every fact of one kind of layer. A kind is one subclass in one file, with `@layer_kinds.register` above it."""

    name: str
    description: str
    parameters: tuple[Parameter, ...]
    shorthands: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """One name that sets several parameters at once: `kernel_size` for `kernel_h` and `kernel_w`."""
    conveniences: ClassVar[Mapping[str, Parameter]] = {}
    """Further names that `open` turns into parameters, such as `depthwise` or `same_padding`."""
    sweep: Mapping[str, Domain]
    """What a sweep draws where its config says nothing: parameters, shorthands or conveniences."""
    revision: ClassVar[int] = 1
    """One more each time that the costs of layers change which could be measured before: what was learned from the
    former costs goes on with them, by `as_of`."""
    tiled: ClassVar[tuple[str, ...]] = ()
    """Parameters whose remainder to vector and tile sizes matters: latency climbs them in steps."""
    onnx_operators: ClassVar[Mapping[str, OnnxTranslator]] = {}
    """The operators of ONNX that may be this kind, each with what makes an operation for `recognise` of a node."""

    def rules(self, values: Values) -> Iterator[str]:
        """A sentence for each reason why these parameters cannot go together. Yields nothing for a possible layer."""
        return iter(())

    def open(self, given: dict[str, Scalar]) -> tuple[dict[str, Scalar], list[str]]:
        """The same layer with its conveniences turned into parameters, and what contradicts them.

        Every value of `given` is of the right type; parameters may be missing.
        """
        return given, []

    @abstractmethod
    def build(self, values: Values) -> torch.nn.Module:
        """The torch module, made on whatever device torch is set to make things on."""

    @abstractmethod
    def inputs(self, values: Values, batch_size: int) -> tuple[TensorSpec, ...]:
        """The tensors the module is called with."""

    @abstractmethod
    def output_shape(self, values: Values, batch_size: int) -> tuple[int, ...]:
        """Shape of the (first) output, the batch included."""

    @abstractmethod
    def costs(self, values: Values, batch_size: Column, element_bytes: Column) -> Costs:
        """FLOPs and bytes, for numbers or columns."""

    def expression(self, values: Values, inputs: Sequence[Expression], weights: Sequence[Expression]) -> Expression:
        """What the layer computes as a tensor expression of TVM, whose loops can be scheduled; None where it has none.

        `weights` are what the module holds in its order: parameters, then floating-point buffers.
        """
        return None

    def stated_work(self, values: Values, batch_size: Column) -> dict[str, Column] | None:
        """The work as a table states it, where it cannot be counted from shapes; None where `costs` counts it."""
        return None

    @property
    def identity(self) -> tuple[str, ...]:
        """The columns whose values tell one layer from another: a split keeps a layer on one side."""
        return tuple(parameter.name for parameter in self.parameters)

    def recognise(self, operation: Operation) -> Recognised | None:
        """This kind's parameters if the operation is of this kind; None if it is not."""
        return None

    def recognise_module(self, module: torch.nn.Module, input_shapes: tuple[tuple[int, ...], ...]) -> Recognised | None:
        """For kinds that torch takes apart into many operations: known by their module instead."""
        return None

    def layer(self, /, **given: Scalar) -> Layer:
        """A checked layer of this kind; all mistakes come at once.

        >>> layer_kinds["linear"].layer(in_features=8, out_features=16).kind
        'linear'
        """
        values, mistakes = self.resolve(given)
        if not mistakes:
            mistakes = list(self.rules(SimpleNamespace(**values)))
        if mistakes:
            raise ConfigError(f"layer {self.name}", mistakes)
        return self.made(values)

    def made(self, values: Mapping[str, Scalar]) -> Layer:
        """The layer of checked values."""
        said = {name: value for name, value in values.items() if self._unsaid.get(name, _NEVER) != value}
        return Layer(self.name, freeze(said))

    def complete(self, values: Mapping[str, Scalar]) -> dict[str, Scalar]:
        """The values of a layer with those that it leaves unsaid."""
        return {**self._unsaid, **values}

    def values_of(self, layer: Layer) -> Values:
        """Every parameter of a layer of this kind, for the formulas."""
        return SimpleNamespace(**self.complete(layer.values))

    def as_of(self, revision: int) -> LayerKind:
        """The kind with the parameters and costs it had at a revision."""
        if revision != self.revision:
            known = f"this medn knows those up to {self.revision}"
            raise UsageError(f"{self.name}: there is no revision {revision} of it; {known}")
        return self

    @cached_property
    def _unsaid(self) -> dict[str, Scalar]:
        return {each.name: each.default for each in self.parameters if each.late and each.default is not None}

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Every name a layer of this kind may be described with."""
        return (*(parameter.name for parameter in self.parameters), *self.shorthands, *self.conveniences)

    def meaning(self, name: str) -> tuple[Parameter, ...]:
        """The parameters that one of `names` sets: itself, those of a shorthand, or a convenience."""
        return self._meanings[name]

    @cached_property
    def _meanings(self) -> dict[str, tuple[Parameter, ...]]:
        known = by_name(*self.parameters) | dict(self.conveniences)
        return {name: tuple(known[target] for target in self.shorthands.get(name, (name,))) for name in self.names}

    def resolve(self, given: Mapping[str, Scalar]) -> tuple[dict[str, Scalar], list[str]]:
        """Names opened to parameters, defaults filled in, every value checked by itself; the mistakes beside."""
        mistakes = [
            f"{name}: unknown parameter.{did_you_mean(name, self.names)} Known: {', '.join(self.names)}"
            for name in given
            if name not in self.names
        ]
        opened: dict[str, Scalar] = {}
        for name in (name for name in self.names if name in given):
            meant = self.meaning(name)
            wrong = next(filter(None, (parameter.mistake(given[name]) for parameter in meant)), None)
            mistakes += [f"{name}: {wrong}"] if wrong else []
            twice = [parameter.name for parameter in meant if parameter.name in opened]
            mistakes += [f"{name}: already says {target}; give one of the two" for target in twice]
            opened |= {parameter.name: given[name] for parameter in meant}
        if not mistakes:
            opened, mistakes = self.open(opened)
        for parameter in self.parameters:
            if parameter.default is not None:
                opened.setdefault(parameter.name, parameter.default)
            elif parameter.name not in opened:
                mistakes.append(f"{parameter.name}: missing")
        return opened, mistakes


layer_kinds: Registry[LayerKind] = Registry("layer kind", package="medn.layer_generators.kinds")
