"""A layer kind that a table declares: every column an input, nothing to build and no shapes to count work from.

Such a kind is data. It is kept with the run that imported the table and with the bundles made of it, never in the
registry, so that two runs may mean different things by one name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn

from medn.core.conditions import CONDITIONS
from medn.core.domains import Domain
from medn.core.errors import ConfigError, UsageError
from medn.core.quantities import measured_columns
from medn.core.values import Scalar
from medn.layer_generators.kind import Column, Costs, LayerKind, Parameter, TensorSpec, Values
from medn.layer_generators.work_expressions import Amount

if TYPE_CHECKING:
    import torch

Json = dict[str, Any]

NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
LONGEST_COLUMN = 100
LARGEST = 1e30
"""Inputs are kept as float32, which ends not far beyond."""

TYPES: Mapping[str, type] = {"integer": int, "number": float, "flag": bool, "text": str}
TYPE_NAMES = {type_: name for name, type_ in TYPES.items()}


def reserved_names() -> set[str]:
    """Names that mean something of their own beside the parameters of a layer."""
    return {"device", "kind", *CONDITIONS, *measured_columns()}


@dataclass(frozen=True)
class DeclaredKind(LayerKind):
    name: str
    parameters: tuple[Parameter, ...]
    layer_columns: tuple[str, ...] = ()
    """Parameters and conditions whose values tell one layer from another; all parameters where there are none."""
    work: str | None = None
    """How much there is to compute, in whatever unit: a parameter, or a sum of products of them."""
    traffic: str | None = None
    """How many bytes are moved, written alike."""
    description: str = "declared by an imported table"
    sweep: Mapping[str, Domain] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        mistakes = list(self._mistakes())
        if mistakes:
            raise ConfigError(f"layer kind {self.name!r}"[:LONGEST_COLUMN], mistakes)

    def _mistakes(self) -> Iterator[str]:
        if not NAME.fullmatch(self.name):
            yield f"a name must be of small letters, digits and _, and start with a letter (got {self.name!r:.80})"
        names = [parameter.name for parameter in self.parameters]
        reserved = reserved_names()
        for name in names:
            if name in reserved:
                yield f"{name}: this name has a meaning of its own; give the column another one, or leave it out"
            elif not name.isprintable() or name.strip() != name or not 0 < len(name) <= LONGEST_COLUMN:
                yield f"{name!r:.80}: a column's name must be of 1 to {LONGEST_COLUMN} printable letters"
            elif "=" in name or name.startswith("__"):
                yield f"{name!r:.80}: a column's name must not hold = or start with __"
        if not names or len(set(names)) < len(names):
            yield "it needs parameters, each with a name of its own"
        for name in set(self.layer_columns) - {*names, *CONDITIONS}:
            yield f"{name!r:.80}: a layer is told by its parameters and conditions, and this is none"
        numbers = [parameter.name for parameter in self.parameters if parameter.type in (int, float)]
        for option, stated, written in (("work", "flops", self.work), ("bytes", "moved_bytes", self.traffic)):
            if written is None:
                continue
            try:
                Amount.parse(written, (*numbers, "batch_size"))
            except UsageError as error:
                yield f"{option}: {error}"
            if stated in names and written != stated:
                yield f"{stated}: the {option} is {written:.80}, so give this column another name or leave it out"

    @property
    def identity(self) -> tuple[str, ...]:
        return self.layer_columns or super().identity

    def stated_work(self, values: Values, batch_size: Column) -> dict[str, Column]:
        def value(name: str) -> Column:
            return batch_size if name == "batch_size" else getattr(values, name)

        found = {name: amount.of(value) for name, amount in self._amounts.items()}
        if len(found) == 2:
            # The work of nothing moved is as dense as that of one byte.
            found["intensity"] = found["flops"] / (found["moved_bytes"] + 1)
        return found

    @cached_property
    def _amounts(self) -> dict[str, Amount]:
        known = [*(parameter.name for parameter in self.parameters), "batch_size"]
        written = {"flops": self.work, "moved_bytes": self.traffic}
        return {name: Amount.parse(each, known) for name, each in written.items() if each is not None}

    def as_json(self) -> Json:
        return {
            "name": self.name,
            "parameters": [
                {"name": each.name, "type": TYPE_NAMES[each.type], "default": each.default} for each in self.parameters
            ],
            "layer": list(self.layer_columns),
            "work": self.work,
            "bytes": self.traffic,
        }

    @classmethod
    def from_json(cls, written: Mapping[str, Any]) -> DeclaredKind:
        """What `as_json` wrote; every value is checked, as it may come from a stranger's file."""
        parameters = []
        for each in written["parameters"]:
            parameter = column(_text(each["name"]), TYPES[each["type"]], each["default"])
            if parameter.default is not None and parameter.mistake(parameter.default):
                raise ValueError(f"the default of {parameter.name} {parameter.mistake(parameter.default)}")
            parameters.append(parameter)
        work, traffic = (None if written[name] is None else _text(written[name]) for name in ("work", "bytes"))
        return cls(_text(written["name"]), tuple(parameters), tuple(map(_text, written["layer"])), work, traffic)

    # What only a layer that can be built has.

    def build(self, values: Values) -> torch.nn.Module:
        self._refuse()

    def inputs(self, values: Values, batch_size: int) -> tuple[TensorSpec, ...]:
        self._refuse()

    def output_shape(self, values: Values, batch_size: int) -> tuple[int, ...]:
        self._refuse()

    def costs(self, values: Values, batch_size: Column, element_bytes: Column) -> Costs:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise UsageError(f"{self.name} was declared by an imported table: it has no module that could be built or run")


def column(name: str, type_: type, default: Scalar | None = None) -> Parameter:
    """A column of a table as a parameter: any value of its type is allowed that inputs can hold."""
    largest = LARGEST if type_ in (int, float) else None
    smallest = None if largest is None else -largest
    return Parameter(name, "a column of the imported table", type_, smallest, largest, default=default)


def merged(first: DeclaredKind, second: DeclaredKind) -> DeclaredKind:
    """The kind of two tables that declare the same; whole numbers here and fractions there are fractions."""
    theirs = {parameter.name: parameter for parameter in second.parameters}
    parameters = []
    differing = sorted({each.name for each in first.parameters} ^ set(theirs))
    for each in first.parameters:
        other = theirs.get(each.name, each)
        types = {each.type, other.type}
        if len(types) > 1 and types != {int, float}:
            differing.append(each.name)
        default = each.default if each.default == other.default else None
        parameters.append(column(each.name, float if float in types else each.type, default))
    if set(first.identity) != set(second.identity):
        differing.append("what makes a layer")
    if (first.work, first.traffic) != (second.work, second.traffic):
        differing.append("what the work and the bytes are")
    if differing:
        raise UsageError(f"{first.name} is declared in two ways that differ in {', '.join(differing)}")
    return DeclaredKind(first.name, tuple(parameters), first.layer_columns, first.work, first.traffic)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"a name must be a string (got {value!r:.80})")
    return value
