"""How the predictor of another device sees the rows of a table: every input that it needs, found or worked out."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from medn.bundle.bundle import Entry
from medn.core.checking import LARGEST
from medn.core.data_sheet import NO_SHEET, SHEET_NUMBERS, Sheet
from medn.core.errors import UsageError
from medn.core.ranges import DEVICE, WORK_COLUMNS
from medn.core.table import Array, Schema
from medn.core.values import Scalar
from medn.deployed.candidate import deployed_of
from medn.layer_generators.hardware import Derived, on_another_device
from medn.regressors.views import CODE, FILLED, LARGER, SCALED, SHARE, View
from medn.runs.tables import KindTable

OPERATIONS = {"scaled": SCALED, "larger": LARGER, "share": SHARE, "filled": FILLED}


@dataclass(frozen=True, eq=False)
class LearnedWhere:
    """What has learned, and how far: all that tells how it sees rows of another device."""

    device: str
    schema: Schema
    low: Array
    high: Array
    """Of each input; of a category the usual code stands in both."""
    free: Collection[str] = ()
    """Inputs without ends, such as remainders."""
    usual: Mapping[str, Scalar] = field(default_factory=dict)
    """What stands for inputs that the other device's rows do not have."""
    sheet: Sheet = field(default_factory=dict)

    @classmethod
    def of(cls, entry: Entry, device: str) -> LearnedWhere:
        """By the predictor of a device."""
        latency = entry.latency
        known = deployed_of(latency).range
        low, high = known.low, known.high
        if known.device_ends is not None:
            code = known.schema.categories[DEVICE].index(device)
            is_number = np.array([name not in known.schema.categories for name in known.schema.names])
            low, high = (
                np.where(is_number, own[code], usual) for own, usual in zip(known.device_ends, (low, high), strict=True)
            )
        usual = {**entry.usual, **latency.facts.constants}
        return cls(device, known.schema, low, high, known.free, usual, latency.facts.sheets.get(device, NO_SHEET))


class SourceView:
    """Puts together the view of what has learned on another device, input by input."""

    def __init__(self, seen: LearnedWhere, table: KindTable) -> None:
        self.seen = seen
        self.device, self.schema, self.usual, self.sheet = seen.device, seen.schema, seen.usual, seen.sheet
        self.table = table
        self.own_sheet = table.sheets.get(table.devices[0], NO_SHEET) if len(table.devices) == 1 else NO_SHEET
        self._constants: list[float] = []
        self._codes: list[int] = []

    def view(self) -> View:
        inputs = [self._input(name) for name in self.schema.names]
        operations, firsts, seconds, factors = zip(*inputs, strict=True)
        low, high = self._ends()
        return View(
            constants=np.array(self._constants, dtype=np.float64),
            operation=np.array(operations, dtype=np.int8),
            first=np.array(firsts, dtype=np.int32),
            second=np.array(seconds, dtype=np.int32),
            factors=np.ascontiguousarray(np.array(factors, dtype=np.float64).T),
            codes=np.array(self._codes, dtype=np.int32),
            low=low,
            high=high,
            work=np.array([self.schema.index(name) for name in WORK_COLUMNS if name in self.schema.names], np.int32),
        )

    def _input(self, name: str) -> tuple[int, int, int, tuple[float, float]]:
        """The operation, both columns and both factors of one input."""
        if name in self.schema.categories:
            return self._category(name)
        if name in SHEET_NUMBERS:
            return SCALED, self._constant(self.sheet[name]), 0, (1.0, 0.0)
        derived = on_another_device(name, self.own_sheet, self.sheet) if self.sheet else Derived("scaled", name, 1.0)
        if derived is None:
            raise UsageError(self._lacking(name))
        second = self._column(derived.second) if derived.second else 0
        factors = (derived.first_factor, derived.second_factor)
        return OPERATIONS[derived.operation], self._column(derived.first), second, factors

    def _column(self, name: str) -> int:
        """Where a number is: a column of the table, or one that holds the same for all rows."""
        schema = self.table.table.schema
        if name in schema.numeric:
            return schema.index(name)
        value = self.table.constants.get(name, self.usual.get(name))
        if name in schema.names or value is None or isinstance(value, str):
            raise UsageError(self._lacking(name))
        return self._constant(float(value))

    def _constant(self, number: Any) -> int:
        self._constants.append(float(number))
        return len(self.table.table.schema.names) + len(self._constants) - 1

    def _category(self, name: str) -> tuple[int, int, int, tuple[float, float]]:
        """The code of a category, by the name behind it; an unknown one counts as the usual."""
        known = {category: code for code, category in enumerate(self.schema.categories[name])}
        usual = int(self.seen.low[self.schema.index(name)])
        own = self.table.table.schema.categories.get(name)
        if name == DEVICE or own is None:
            stated = self.device if name == DEVICE else self.table.constants.get(name, self.usual.get(name))
            return SCALED, self._constant(known.get(str(stated), usual)), 0, (1.0, 0.0)
        begin = len(self._codes)
        self._codes += [known.get(category, usual) for category in own]
        return CODE, self.table.table.schema.index(name), begin, (float(len(own)), float(usual))

    def _ends(self) -> tuple[Array, Array]:
        """What was seen of each input on this device; categories and remainders have no ends."""
        endless = [name in self.schema.categories or name in self.seen.free for name in self.schema.names]
        return np.where(endless, -LARGEST, self.seen.low), np.where(endless, LARGEST, self.seen.high)

    def _lacking(self, name: str) -> str:
        what = f"the predictor of {self.device} needs {name} of {self.table.kind}, which the new device has not"
        if self.sheet and not self.own_sheet:
            return f"{what}: state its data sheet ({', '.join(self.sheet)}) with --sheet"
        return what
