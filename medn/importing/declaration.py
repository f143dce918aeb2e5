"""A table as a layer kind of its own: what its columns are is found from their names and from what they hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from medn.core.conditions import CONDITIONS, with_dtypes
from medn.core.errors import ConfigError, NothingMeasured, UsageError, unknown
from medn.core.parameters import Parameter
from medn.importing.import_table import chosen_rows
from medn.importing.mapping import ImportMapping, ValueSource, Wanted, imported_quantities, mapping_model, whole
from medn.importing.table_file import TableFile
from medn.layer_generators.declared_kind import DeclaredKind, column
from medn.layer_generators.kind import layer_kinds
from medn.runs.tables import MOST_GAPS

UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
MOST_TEXTS = 0.5
"""A text that is another one in more of the rows than this share hardly tells what a layer is."""

NEARLY_THE_LATENCY = 0.98
"""The rank correlation from which on a column may be the latency once more."""


@dataclass(frozen=True)
class Declaration:
    """What a person says of a table; everything else is found in it. Columns go by their new names."""

    kind: str
    latency: str
    unit: str = ""
    device: str = ""
    layer: Sequence[str] = ()
    work: str = ""
    traffic: str = ""
    drop: Sequence[str] = ()
    rename: Mapping[str, str] = field(default_factory=dict)
    where: Mapping[str, Sequence[str]] = field(default_factory=dict)
    dtypes: Mapping[str, float] = field(default_factory=dict)
    """Further data types, with the bytes of one element."""


@dataclass(frozen=True)
class Declared:
    mapping: ImportMapping
    kind: DeclaredKind
    notes: tuple[str, ...]
    """What was found, in words."""


def declare(table: TableFile, said: Declaration) -> Declared:
    """The mapping and the kind of a table; all that is wrong with what was said at once."""
    if said.kind in layer_kinds:
        raise UsageError(
            f"{said.kind} is a layer kind of medn: say what the columns mean with --map, or choose another --kind"
        )
    names = {said.rename.get(name, name): name for name in table.names}
    mistakes = list(_mistakes(table, said, names))
    if mistakes:
        raise ConfigError(str(table.path), mistakes)
    where: dict[str, Wanted] = {names[name]: list(values) for name, values in said.where.items()}
    sources = {name: ValueSource(column=original) for name, original in names.items()}
    mapping = mapping_model()(
        kind=said.kind,
        device=sources.get("device") or ValueSource(value=said.device or table.path.name.partition(".")[0]),
        latency_s=ValueSource(column=names[said.latency], scale=UNITS[_unit(said)]),
        **{name: sources[name] for name in imported_quantities() if name in sources},
        columns={name: source for name, source in sources.items() if name in _inputs(names, said)},
        extra={},
        layer=[],
        where=where,
        sheets={},
        test={},
        dtypes=dict(said.dtypes),
    )
    rows = chosen_rows(table, mapping)
    if not rows:
        raise NothingMeasured(f"no row of {table.path} could be used: {'; '.join(table.broken)}")
    cells = {name: [source.read(row) for row in rows] for name, source in mapping.columns.items()}
    _check_conditions(table, cells, with_dtypes(said.dtypes))
    gaps = [name for name, values in cells.items() if _gaps(values) > MOST_GAPS]
    parameters = [
        _parameter(name, values) for name, values in cells.items() if name not in gaps and name not in CONDITIONS
    ]
    kind = DeclaredKind(said.kind, tuple(parameters), tuple(said.layer), said.work or None, said.traffic or None)
    kept = {name: source for name, source in mapping.columns.items() if name not in gaps}
    latency = [row[names[said.latency]] for row in rows]
    notes = [*_found(kind, gaps), *_warnings(kind, cells, latency)]
    return Declared(mapping.model_copy(update={"columns": kept}), kind, tuple(notes))


def _mistakes(table: TableFile, said: Declaration, names: Mapping[str, str]) -> Iterator[str]:
    for option, columns in (
        ("--rename", said.rename),
        ("--latency", [said.latency]),
        ("--drop", said.drop),
        ("--where", said.where),
        ("--layer", said.layer),
    ):
        known = table.names if option == "--rename" else names
        for name in columns:
            if name not in known:
                yield f"{option}: {unknown('column', name, known)}"
            elif option == "--layer" and name not in _inputs(names, said):
                yield f"{option}: {name} is no input here"
    if len(names) < len(table.names):
        yield "--rename: two columns would have one name"
    if _unit(said) not in UNITS:
        got = f" (got {said.unit!r})" if said.unit else ""
        yield f"--unit: say the unit of {said.latency} as one of {', '.join(UNITS)}{got}"
    if said.device and "device" in names:
        yield "--device: the table has a column device; choose among its devices with --where device=NAME"


def _unit(said: Declaration) -> str:
    """As said, or as the name of the column ends."""
    return said.unit or said.latency.rpartition("_")[2]


def _inputs(names: Mapping[str, str], said: Declaration) -> list[str]:
    """Every column but the measured ones, the device, those left out and those that `where` holds at one value."""
    single = [name for name, values in said.where.items() if len(values) == 1]
    apart = {said.latency, "device", *imported_quantities(), *said.drop, *single}
    return [name for name in names if name not in apart]


def _check_conditions(
    table: TableFile, cells: Mapping[str, Sequence[Any]], conditions: Mapping[str, Parameter]
) -> None:
    """A column that is named like a condition must hold what the condition allows; a few bad cells cost their rows."""
    mistakes = []
    for name, declared in ((name, declared) for name, declared in conditions.items() if name in cells):
        wrong = [said for value in cells[name] if (said := declared.mistake(declared.fitted(value)))]
        if len(wrong) > MOST_GAPS * len(cells[name]):
            size = "say --dtype NAME=BYTES, or " if declared.further else ""
            remedy = f"{size}make it an input with --rename {name}=NEW_NAME"
            mistakes.append(f"{name} is a condition and {wrong[0]}; {remedy}")
    if mistakes:
        raise ConfigError(str(table.path), mistakes)


def _gaps(values: Sequence[Any]) -> float:
    return sum(value is None for value in values) / len(values)


def _parameter(name: str, values: Sequence[Any]) -> Parameter:
    """Whole numbers, numbers, flags or strings; a column that never changes need not be said in a query."""
    filled = [value for value in values if value is not None]
    numbers = [whole(value) for value in filled if not isinstance(value, str)]
    type_: type = str
    if numbers:
        types = {type(value) for value in numbers}
        type_ = types.pop() if len(types) == 1 else float
    kept = numbers or filled
    return column(name, type_, kept[0] if all(value == kept[0] for value in kept) else None)


def _found(kind: DeclaredKind, gaps: Sequence[str]) -> Iterator[str]:
    words = {int: "whole number", float: "number", bool: "flag", str: "text"}
    yield f"{kind.name} has the inputs {', '.join(f'{each.name} ({words[each.type]})' for each in kind.parameters)}"
    if kind.layer_columns:
        yield f"rows with the same {', '.join(kind.layer_columns)} are one layer"
    if kind.work is None:
        yield "nothing says how much there is to compute; where it is known, --work and --bytes make better predictions"
    if gaps:
        yield f"no inputs, because too many cells are empty: {', '.join(gaps)}"


def _warnings(kind: DeclaredKind, cells: Mapping[str, Sequence[Any]], latency: Sequence[Any]) -> Iterator[str]:
    """Columns that look as if they were no inputs: names of rows, and further measurements."""
    for each in kind.parameters:
        values = cells[each.name]
        if each.type is str and len(set(values)) > MOST_TEXTS * len(values):
            yield f"{each.name} differs in most rows: if it is only a name, leave it out with --drop {each.name}"
        if each.type in (int, float) and _rises_with(values, latency):
            yield (
                f"{each.name} rises and falls with the latency: if it was measured too, leave it out "
                f"with --drop {each.name}"
            )


def _rises_with(values: Sequence[Any], latency: Sequence[Any]) -> bool:
    pairs = [(x, y) for x, y in zip(values, latency, strict=True) if _is_number(x) and _is_number(y)]
    if len(pairs) < 3 or len({x for x, _ in pairs}) < len(pairs) * MOST_TEXTS:
        return False
    first, second = (np.argsort(np.argsort(side)) for side in zip(*pairs, strict=True))
    return bool(np.corrcoef(first, second)[0, 1] > NEARLY_THE_LATENCY)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
