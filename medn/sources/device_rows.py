"""What was measured on known devices, side by side in the columns that all of them have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from medn.core.data_sheet import SHEET_NUMBERS
from medn.core.ranges import DEVICE
from medn.core.table import Schema
from medn.layer_generators.hardware import Derived, on_another_device
from medn.regressors.shared_encoder import DeviceRows
from medn.runs.tables import KindTable
from medn.runs.training_table import SUFFIX, load_table

MOST_ROWS = 100_000
"""Of all devices together: more take longer than they are worth to a new device."""

FOLDERS = ("tables", "tables-pooled")
"""Where runs keep what was learned from: of each device by itself, and of all together."""

ONE, OTHER = dict.fromkeys(SHEET_NUMBERS, 1.0), dict.fromkeys(SHEET_NUMBERS, 2.0)
"""The data sheets of two devices that differ in everything."""


def tables_of(run: Path, kind: str) -> dict[str, KindTable]:
    """By device, what a run has learned a kind from, without the rows that it is judged by; nothing where it has
    learned nothing."""
    found: dict[str, KindTable] = {}
    for folder in FOLDERS:
        for path in sorted((run / folder).glob(f"*/{quote(kind, safe='')}{SUFFIX}")):
            table = load_table(path)
            if table is None:
                continue
            learned = replace(table.source, table=table.source.table.take(table.rows.learned))
            for device in learned.devices:
                found.setdefault(device, _of_device(learned, device))
    return found


def _of_device(table: KindTable, device: str) -> KindTable:
    """The rows of one device."""
    codes = table.table.schema.categories.get(DEVICE)
    if codes is None:
        return table
    own = table.table.column(DEVICE) == codes.index(device)
    return replace(table, table=table.table.take(own), devices=(device,))


def side_by_side(tables: Mapping[str, KindTable], seed: int = 0) -> DeviceRows | None:
    """The rows of several devices by the columns that say the same of a layer on all of them; None without any."""
    names = [
        name for name in _names(tables) if _is_of_layers(name) and all(_has(each, name) for each in tables.values())
    ]
    counts = {device: min(len(each.table), MOST_ROWS // len(tables)) for device, each in tables.items()}
    if not names or not sum(counts.values()):
        return None
    random = np.random.default_rng(seed)
    some = {
        device: replace(each, table=each.table.take(random.permutation(len(each.table))[: counts[device]]))
        for device, each in tables.items()
    }
    columns, categories = [], {}
    for name in names:
        column = np.concatenate([_column(each, name) for each in some.values()])
        if column.dtype.kind == "U":
            known, column = np.unique(column, return_inverse=True)
            categories[name] = tuple(known.tolist())
        columns.append(column.astype(np.float32))
    return DeviceRows(
        Schema(tuple(names), categories),
        np.column_stack(columns),
        np.concatenate([np.log(each.table.target) for each in some.values()]),
        np.repeat(np.arange(len(some), dtype=np.int16), list(counts.values())),
        tuple(some),
    )


def _names(tables: Mapping[str, KindTable]) -> list[str]:
    """All inputs of any device; where one has a number and another a name, neither can be compared."""
    return list(dict.fromkeys(name for each in tables.values() for name in each.table.schema.names))


def _is_of_layers(name: str) -> bool:
    """Whether an input says the same of a layer whichever device it runs on."""
    if name == DEVICE or name in SHEET_NUMBERS:
        return False
    return on_another_device(name, ONE, OTHER) == Derived("scaled", name, 1.0)


def _has(table: KindTable, name: str) -> bool:
    return name in table.table.schema.names or name in table.constants


def _column(table: KindTable, name: str) -> NDArray[Any]:
    """Numbers, or the names of categories; one that never varied is the same in all rows."""
    own = table.table
    if name not in own.schema.names:
        value = table.constants[name]
        return np.full(len(own), value if isinstance(value, str) else float(value))
    if name not in own.schema.categories:
        return own.column(name)
    return np.asarray(np.array(own.schema.categories[name])[own.column(name).astype(int)])
