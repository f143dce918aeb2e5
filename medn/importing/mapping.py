"""What the columns of somebody else's table mean. In a mapping a string names a column, anything else is a constant:

    kind: conv2d
    where: {op: conv2d, pass: forward}
    device: {column: device}
    latency_s: {column: latency_ms, scale: 0.001}
    columns: {in_channels: in_c, out_channels: out_c, in_size: in_hw, kernel_size: kernel, batch_size: batch, groups: 1}

Only `device` takes a string for itself, because most tables are of one device and do not say which.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, create_model, model_validator

from medn.core.conditions import CONDITIONS, with_dtypes
from medn.core.config import Section, parse_yaml, read_text, validate
from medn.core.dtypes import stated_dtypes
from medn.core.errors import ConfigError, UsageError, unknown
from medn.core.quantities import FURTHER, all_quantities
from medn.core.values import Condition, Layer, Point, Scalar
from medn.layer_generators.conditions_config import NAME_TAKEN
from medn.layer_generators.data_sheet_config import DataSheet
from medn.layer_generators.declared_kind import reserved_names
from medn.layer_generators.kind import LayerKind, layer_kinds

Cells = Mapping[str, Any]
"""One row of a table: its cells by column; a missing one is None or NaN."""


class ValueSource(Section):
    """Where one value of a row comes from: a column, or the same value for every row."""

    column: str | None = None
    value: Scalar | None = None
    scale: float = 1.0

    @model_validator(mode="after")
    def _one_of_the_two(self) -> Self:
        if (self.column is None) == (self.value is None):
            raise ValueError("needs either a column or a value, as in {column: latency_ms, scale: 0.001}")
        return self

    def read(self, row: Cells) -> Any:
        found = self.value if self.column is None else row[self.column]
        if isinstance(found, float) and math.isnan(found):
            return None
        if self.scale == 1.0 or isinstance(found, bool) or not isinstance(found, (int, float)):
            return found
        return found * self.scale


def _column_or_constant(written: object) -> object:
    if isinstance(written, str):
        return {"column": written}
    return {"value": written} if isinstance(written, (int, float)) else written


def _constant(written: object) -> object:
    return {"value": written} if isinstance(written, str) else written


class Bounds(Section):
    """Numbers between two ends."""

    above: float | None = None
    up_to: float | None = None

    def __str__(self) -> str:
        ends = (("above", self.above), ("up to", self.up_to))
        return " and ".join(f"{word} {end:g}" for word, end in ends if end is not None) or "any number"


Wanted = Scalar | list[Scalar] | Bounds
"""A value, one of several, or numbers within bounds."""


def wanted_texts(wanted: Wanted) -> list[str]:
    return [str(value) for value in wanted] if isinstance(wanted, list) else [str(wanted)]


def is_wanted(cell: Any, wanted: Wanted) -> bool:
    """Whether a cell is what a mapping asks for.

    >>> is_wanted(32, Bounds(up_to=32)), is_wanted("a", ["a", "b"]), is_wanted(3, "3"), is_wanted(None, Bounds(above=1))
    (True, True, True, False)
    """
    if isinstance(wanted, Bounds):
        if not isinstance(cell, (int, float)) or math.isnan(cell):
            return False
        return (wanted.above is None or cell > wanted.above) and (wanted.up_to is None or cell <= wanted.up_to)
    # A value is meant as the table has it, which may be a number or the same written as a string.
    return cell in (wanted if isinstance(wanted, list) else [wanted]) or str(cell) in wanted_texts(wanted)


ColumnSource = Annotated[ValueSource, BeforeValidator(_column_or_constant)]


class ImportMapping(Section):
    """How the columns of a table become layers, conditions and measurements."""

    kind: str
    device: Annotated[ValueSource, BeforeValidator(_constant)] = Field(description="a device's name, or {column: ...}")
    latency_s: ColumnSource
    columns: dict[str, ColumnSource] = Field(description="parameters of the layer, and conditions")
    extra: dict[str, ColumnSource] = Field({}, description="columns of your own, kept with the conditions")
    layer: list[str] = Field([], description="columns of your own, or conditions, that tell one layer from another too")
    where: dict[str, Wanted] = Field({}, description="only rows with these values, one of several, or within bounds")
    sheets: dict[str, DataSheet] = Field({}, description="the data sheets of devices, by their names")
    test: dict[str, Wanted] = Field({}, description="rows with these values are for test only")
    dtypes: Annotated[dict[str, float], BeforeValidator(stated_dtypes)] = Field(
        {}, description="further data types, with the bytes of one element"
    )

    def is_for_test(self, row: Cells) -> bool:
        return bool(self.test) and all(is_wanted(row[name], wanted) for name, wanted in self.test.items())

    @property
    def measured(self) -> dict[str, ValueSource | None]:
        """Where quantities beside the latency come from, each under its name."""
        return {name: getattr(self, name, None) for name in imported_quantities()}

    @property
    def read_columns(self) -> list[str]:
        """The columns of the table that are needed."""
        sources = [*self.columns.values(), *self.extra.values(), self.device, self.latency_s]
        sources += [source for source in self.measured.values() if source is not None]
        return sorted({source.column for source in sources if source.column is not None} | {*self.where, *self.test})


def imported_quantities() -> list[str]:
    """The quantities that a table can bring: those that no samples tell."""
    return [name for name, quantity in all_quantities().items() if not quantity.derive]


def mapping_model() -> type[ImportMapping]:
    """What a mapping may say, with a key for every quantity that is declared by now."""
    keys: dict[str, Any] = {
        name: (ColumnSource | None, Field(None, description=FURTHER[name].about)) for name in imported_quantities()
    }
    return create_model("ImportMapping", __base__=ImportMapping, **keys)


def load_mapping(path: Path) -> ImportMapping:
    """Read a mapping from YAML, with all its mistakes at once."""
    mapping = validate(mapping_model(), parse_yaml(read_text(path), str(path)), str(path))
    if mapping.kind not in layer_kinds:
        raise ConfigError(str(path), [f"kind: {unknown('layer kind', mapping.kind, layer_kinds)}"])
    mapping = mapping.model_copy(update={"kind": layer_kinds.spelled(mapping.kind)})
    known = [*layer_kinds[mapping.kind].names, *CONDITIONS]
    mistakes = [f"columns.{name}: {unknown('column', name, known)}" for name in mapping.columns if name not in known]
    mistakes += [f"extra.{name}: belongs under columns" for name in mapping.extra if name in known]
    reserved = reserved_names() - set(known)
    mistakes += [f"extra.{name}: {NAME_TAKEN}" for name in mapping.extra if name in reserved]
    beside = [*mapping.extra, *CONDITIONS]
    mistakes += [
        f"layer: {unknown('column under extra', name, beside)}" for name in mapping.layer if name not in beside
    ]
    if mistakes:
        raise ConfigError(str(path), mistakes)
    return mapping


class PointReader:
    """Turns rows into points. A layer that stands in many rows is checked once."""

    def __init__(self, mapping: ImportMapping, kind: LayerKind) -> None:
        self.mapping = mapping
        self.kind = kind
        self._layer_sources = {name: from_ for name, from_ in mapping.columns.items() if name not in CONDITIONS}
        self._condition_sources = {name: from_ for name, from_ in mapping.columns.items() if name in CONDITIONS}
        self._conditions = with_dtypes(mapping.dtypes)
        self._flags = {name for name in self._layer_sources if self.kind.meaning(name)[0].type is bool}
        self._layers: dict[tuple[Any, ...], Layer | ConfigError] = {}

    def point(self, row: Cells) -> Point:
        """The point of a row; a `UsageError` that says why where it is none."""
        device = self.mapping.device.read(row)
        if device is None:
            raise UsageError("device: missing")
        return Point(self._layer(row), self._condition(row), str(device))

    def _layer(self, row: Cells) -> Layer:
        cells = tuple(source.read(row) for source in self._layer_sources.values())
        if cells not in self._layers:
            self._layers[cells] = self._checked_layer(dict(zip(self._layer_sources, cells, strict=True)))
        layer = self._layers[cells]
        if isinstance(layer, ConfigError):
            raise layer
        return layer

    def _checked_layer(self, cells: dict[str, Any]) -> Layer | ConfigError:
        values = {name: bool(cell) if name in self._flags and cell in (0, 1) else cell for name, cell in cells.items()}
        try:
            return self.kind.layer(**{name: whole(value) for name, value in values.items() if value is not None})
        except ConfigError as error:
            return error

    def _condition(self, row: Cells) -> Condition:
        values: dict[str, Scalar] = {}
        for name, source in self._condition_sources.items():
            declared, cell = self._conditions[name], source.read(row)
            mistake = declared.mistake(declared.fitted(cell))
            if mistake:
                raise UsageError(f"{name}: {mistake}")
            values[name] = cell
        cells = {name: source.read(row) for name, source in self.mapping.extra.items()}
        extra = {name: _scalar(name, cell) for name, cell in cells.items() if cell is not None}
        return Condition(**values, **extra)


def whole(value: Any) -> Any:
    """Tables with gaps write whole numbers as 3.0: take them for what they mean."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _scalar(name: str, cell: Any) -> Scalar:
    """Dates and the like are kept as they are written."""
    if isinstance(cell, float) and not math.isfinite(cell):
        raise UsageError(f"{name}: must be a finite number (got {cell})")
    return cell if isinstance(cell, (bool, int, float, str)) else str(cell)


def positive(name: str, value: Any) -> float:
    """A measured number, or a `UsageError` where it is none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < math.inf:
        raise UsageError(f"{name}: must be a number above 0 (got {'nothing' if value is None else repr(value)})")
    return float(value)
