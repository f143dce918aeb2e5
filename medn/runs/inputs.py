"""Which columns regressors learn from, made the same way from measured rows and from a query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medn.core.data_sheet import NO_SHEET, SHEET_NUMBERS, Sheet, Sheets
from medn.core.dtypes import ELEMENT_BYTES, NO_DTYPES
from medn.core.errors import UsageError
from medn.core.table import name_of_today
from medn.layer_generators.features import TILES, analytic_columns
from medn.layer_generators.hardware import hardware_remainders
from medn.layer_generators.kind import LayerKind
from medn.layer_generators.sweep import INPUT_GROUPS

Columns = Mapping[str, NDArray[Any]]

NO_SHEETS: Sheets = {}


@dataclass(frozen=True)
class InputChoice:
    """The user's choice of inputs: groups of columns, less some by name. It is kept with everything trained on it."""

    groups: tuple[str, ...] = INPUT_GROUPS
    drop: tuple[str, ...] = ()

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> InputChoice:
        """The choice that the note of a run's config holds; the default where it says nothing."""
        return cls(tuple(config.get("inputs", INPUT_GROUPS)), tuple(config.get("drop", ())))

    def as_json(self) -> dict[str, list[str]]:
        return {"inputs": list(self.groups), "drop": list(self.drop)}


def input_columns(
    kind: LayerKind,
    columns: Columns,
    choice: InputChoice,
    probes: Sequence[str] = (),
    sheets: Sheets = NO_SHEETS,
    dtypes: Mapping[str, float] = NO_DTYPES,
) -> dict[str, Any]:
    """The chosen inputs of many layers of one kind: what is asked for, what follows from it, what was probed.

    What follows from a data sheet is there where every device of the rows has one.

    >>> import numpy as np
    >>> asked = {"in_features": 8, "out_features": 16, "rows": 1, "bias": True, "batch_size": 4, "dtype": "fp32"}
    >>> from medn.layer_generators.kind import layer_kinds
    >>> columns = {name: np.array([value]) for name, value in asked.items()}
    >>> found = input_columns(layer_kinds["linear"], columns, InputChoice())
    >>> int(found["flops"][0]), int(found["batch_size"][0])
    (1024, 4)
    """
    chosen: dict[str, Any] = {}
    if "raw" in choice.groups:
        chosen |= {name: column for name, column in columns.items() if name not in probes}
    sheet = row_sheet(sheets, columns.get("device")) if "hardware" in choice.groups else NO_SHEET
    if "analytic" in choice.groups or sheet:
        element_bytes = {**ELEMENT_BYTES, **dtypes}
        derived = _analytic(kind, columns, sheet, element_bytes)
        analytic = derived if not sheet else analytic_columns(kind, columns, NO_SHEET, element_bytes)
        chosen |= analytic if "analytic" in choice.groups else {}
        chosen |= {name: column for name, column in derived.items() if name not in analytic}
    if "probes" in choice.groups:
        chosen |= {name: columns[name] for name in probes if name in columns}
    dropped = {name_of_today(name) for name in choice.drop}
    return {name: column for name, column in chosen.items() if name not in dropped}


def row_sheet(sheets: Sheets, devices: NDArray[Any] | None) -> Sheet:
    """The numbers that the sheets of all devices of some rows have, as columns.

    >>> row_sheet({"a": {"cache_mb": 4, "multiprocessors": 8}, "b": {"cache_mb": 2}}, np.array(["b", "a", "a"]))
    {'cache_mb': array([2., 4., 4.])}
    """
    if devices is None or not sheets:
        return NO_SHEET
    known, places = np.unique(devices, return_inverse=True)
    own = shared_sheets(sheets, known.tolist())
    names = next(iter(own.values()), NO_SHEET)
    return {name: np.array([float(own[device][name]) for device in known.tolist()])[places] for name in names}


def shared_sheets(sheets: Sheets, devices: Sequence[str]) -> Sheets:
    """The sheets of these devices with the numbers that all of them have; none where they share nothing."""
    own = {device: sheets.get(device, NO_SHEET) for device in devices}
    shared = [name for name in SHEET_NUMBERS if all(name in sheet for sheet in own.values())]
    return {device: {name: sheet[name] for name in shared} for device, sheet in own.items()} if shared else {}


def _analytic(kind: LayerKind, columns: Columns, sheet: Sheet, element_bytes: Mapping[str, float]) -> dict[str, Any]:
    needed = [*(parameter.name for parameter in kind.parameters), "batch_size", "dtype"]
    missing = [name for name in needed if name not in columns]
    if missing:
        raise UsageError(
            f"the analytic inputs of {kind.name} need the columns {', '.join(needed)} ({', '.join(missing)} missing)"
        )
    unknown = sorted(set(np.unique(columns["dtype"]).tolist()) - set(element_bytes))
    if unknown:
        raise UsageError(f"the analytic inputs of {kind.name} need the bytes of one element of {', '.join(unknown)}")
    return analytic_columns(kind, columns, sheet, element_bytes)


def remainders(kind: LayerKind) -> list[str]:
    """The features that say how sizes fit tiles: every size has them, so a range says nothing about them."""
    own = [f"{name}_{about}" for name in kind.tiled for about in (*(f"mod_{tile}" for tile in TILES), "waste")]
    return [*own, *hardware_remainders()]
