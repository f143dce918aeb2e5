"""What every public data set is turned into: a table, a split, what others reached on it, and what we aim at."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medn.core.errors import UsageError
from medn.core.splits import Parts, split_by_group
from medn.core.table import Schema, Table, as_inputs

Columns = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Published:
    """A number that others report for the same rows and, where they say it, the same split."""

    who: str
    mape: float
    source: str


@dataclass(frozen=True, eq=False)
class Task:
    """One table to learn, and the error aimed at on its test rows."""

    name: str
    about: str
    table: Table
    parts: Parts
    aim: float
    published: tuple[Published, ...] = ()
    peak_us: str = ""
    """The column with the time at the peaks of the data sheet, where regressors are tried on multiples of it too."""
    seconds: float = 12.0
    """What one fit may take."""
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By regressor, what differs from its defaults; found on validation rows."""


Loader = Callable[[Path, int], list[Task]]
"""Reads the data set below a folder and splits it by a seed."""


def read_columns(path: Path) -> Columns:
    """The columns of a CSV file, packed or not; missing numbers become NaN."""
    from pyarrow import csv

    if not path.is_file():
        raise UsageError(f"no file {path}: --data names the folder that holds the public data sets")
    table = csv.read_csv(path)
    return {name: table[name].to_numpy() for name in table.column_names}


def chosen(columns: Columns, rows: NDArray[np.bool_]) -> Columns:
    return {name: column[rows] for name, column in columns.items()}


def whole(columns: Columns, *names: str) -> Columns:
    """Columns of sizes, as floats: products of sizes outgrow the integers that a CSV reader picks."""
    return {name: columns[name].astype(np.float64) for name in names}


def build_table(
    numbers: Mapping[str, Any], words: Mapping[str, NDArray[Any]], latency_ms: NDArray[Any], groups: NDArray[Any]
) -> Table:
    """A table of numeric columns and columns of names; columns that never change are left out."""
    varying = {name: column for name, column in numbers.items() if np.min(column) < np.max(column)}
    categories = {name: tuple(sorted(set(column.astype(str)))) for name, column in words.items()}
    schema = Schema((*varying, *categories), categories)
    latency_s = latency_ms.astype(np.float64) / 1e3
    return Table(schema, as_inputs({**varying, **words}, schema), latency_s, groups.astype(str))


def joined(*columns: NDArray[Any]) -> NDArray[np.str_]:
    """One name per row out of several columns, to group rows by."""
    codes = np.column_stack([np.unique(column, return_inverse=True)[1] for column in columns])
    return np.asarray(np.unique(codes, axis=0, return_inverse=True)[1].reshape(-1).astype(str))


def three_parts(groups: NDArray[np.str_], seed: int, fractions: tuple[float, float, float]) -> Parts:
    """Random by group, with nothing for calibration: no intervals are made here."""
    train, validation, test = fractions
    parts = split_by_group(groups, seed, (train, validation, 0.0, test))
    return Parts(np.concatenate([parts.train, parts.calibration]), parts.validation, np.empty(0, dtype=int), parts.test)
