"""Which layer a row of a table is, and how a report writes it."""

from __future__ import annotations

from collections.abc import Mapping

from medn.core.table import Table
from medn.core.values import Condition, Scalar
from medn.layer_generators.kind import LayerKind
from medn.runs.tables import KindTable


def row_of(table: Table, place: int) -> dict[str, Scalar]:
    """The inputs of one row, categories by their names."""
    categories = table.schema.categories
    values = zip(table.schema.names, table.inputs[place].tolist(), strict=True)
    return {name: categories[name][int(value)] if name in categories else value for name, value in values}


def layer_of(kind: LayerKind, constants: Mapping[str, Scalar], row: Mapping[str, Scalar]) -> dict[str, Scalar] | None:
    """The parameters of a row's layer, and its condition; None where a parameter is no input and has no default."""
    defaults = {parameter.name: parameter.default for parameter in kind.parameters if parameter.default is not None}
    known = {**Condition().values, **defaults, **constants, **row}
    types = _types(kind)
    return {name: types[name](known[name]) for name in types} if types.keys() <= known.keys() else None


def told_layer(source: KindTable, table: Table, place: int) -> str:
    """What is known of the layer of a row, in one line that breaks after commas alone."""
    known = {**source.constants, **row_of(table, place)}
    types = _types(source.layer_kind)
    told = {name: type_(known[name]) for name, type_ in types.items() if name in known}
    return format_layer(source.layer_kind, told).replace(" ", "\u00a0").replace(",\u00a0", ", ")


def format_layer(kind: LayerKind, layer: Mapping[str, Scalar]) -> str:
    """A layer and its condition without defaults, in the shorthands of its kind.

    >>> from medn.layer_generators.kind import layer_kinds
    >>> pool = {"channels": 8, "in_h": 7, "in_w": 7, "kernel_h": 3, "kernel_w": 2, "batch_size": 1, "threads": 1}
    >>> format_layer(layer_kinds["max_pool2d"], pool)
    'channels 8, in_size 7, kernel_h 3, kernel_w 2, batch_size 1'
    """
    usual = {name: value for name, value in Condition().values.items() if name != "batch_size"}
    usual |= {parameter.name: parameter.default for parameter in kind.parameters if parameter.default is not None}
    told = {name: layer[name] for name in (*_types(kind), *layer) if name in layer and usual.get(name) != layer[name]}
    for short, names in kind.shorthands.items():
        if len({told.get(name) for name in names}) == 1 and names[0] in told:
            told = {short if name == names[0] else name: value for name, value in told.items() if name not in names[1:]}
    return ", ".join(f"{name} {_short(value)}" for name, value in told.items())


def _short(value: Scalar) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _types(kind: LayerKind) -> dict[str, type]:
    types: dict[str, type] = {parameter.name: parameter.type for parameter in kind.parameters}
    return types | {name: type(value) for name, value in Condition().values.items()}
