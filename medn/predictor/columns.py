"""Tables as people have them, as plain columns: found by what they can do, so that no library is imported for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medn.core.errors import UsageError
from medn.core.values import Condition, Layer, Point, Scalar

Column = NDArray[Any] | Scalar
"""One value per row, or one value for all rows."""

ACCEPTED = "a dict of columns, a list of layers, a numpy record array, or a pandas, polars or arrow table"


def read_columns(table: Any) -> tuple[dict[str, Column], int]:
    """The columns of a table by name, and the number of its rows.

    >>> columns, rows = read_columns({"kind": "linear", "in_features": [8, 16]})
    >>> columns["in_features"].tolist(), columns["kind"], rows
    ([8, 16], 'linear', 2)
    """
    columns = {_name(name): _column(name, values) for name, values in _found(table).items()}
    lengths = {name: len(values) for name, values in columns.items() if isinstance(values, np.ndarray)}
    if not columns or 0 in lengths.values():
        raise UsageError("the table has no rows" if columns else "the table has no columns")
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise UsageError(f"the columns of a table must be of one length (got {told})")
    return columns, next(iter(lengths.values()), 1)


def _found(table: Any) -> Mapping[Any, Any]:
    if isinstance(table, Mapping):
        return table
    if hasattr(table, "column_names") and hasattr(table, "column"):  # arrow
        return {name: table.column(name).to_numpy(zero_copy_only=False) for name in table.column_names}
    names = getattr(getattr(table, "dtype", None), "names", None)
    if names:  # a numpy record array
        return {name: table[name] for name in names}
    if hasattr(table, "columns") and hasattr(table, "__getitem__"):  # pandas, polars
        return {name: table[name].to_numpy() for name in table.columns}
    if isinstance(table, Sequence) and not isinstance(table, (str, bytes)):
        return _from_rows([_row(row) for row in table])
    raise UsageError(f"a table must be {ACCEPTED} (got {type(table).__name__})")


def _row(row: Any) -> Mapping[Any, Any]:
    if isinstance(row, Mapping):
        return row
    if isinstance(row, Point):
        row = (row.layer, row.condition)
    if isinstance(row, Layer):
        row = (row, Condition())
    if isinstance(row, tuple) and len(row) == 2 and isinstance(row[0], Layer) and isinstance(row[1], Condition):
        layer, condition = row
        return {"kind": layer.kind, **layer.values, **condition.values}
    raise UsageError(f"a row must be a dict, a Layer, or a Layer and its Condition (got {type(row).__name__})")


def _from_rows(rows: Sequence[Mapping[Any, Any]]) -> dict[Any, Any]:
    if not rows:
        raise UsageError("the table has no rows")
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


def _name(name: Any) -> str:
    if not isinstance(name, str):
        raise UsageError(f"the name of a column must be a text (got {name!r})")
    return name


def _column(name: str, values: Any) -> Column:
    if isinstance(values, (str, bool, int, float)):
        return values
    try:
        column = np.asarray(values)
        # Numbers beside texts would all become texts: keep each as it is, so that what is wrong can be told.
        if column.dtype.kind in "US" and not isinstance(values, np.ndarray) and not _all_texts(values):
            column = np.array(list(values), dtype=object)
    except (ValueError, TypeError, OverflowError) as error:
        raise UsageError(f"the column {name!r} cannot be read: {error}") from None
    if column.ndim == 0 and column.dtype.kind in "biufU":
        single: Scalar = column.item()
        return single
    if column.ndim != 1:
        raise UsageError(f"the column {name!r} must have one value per row (its shape is {column.shape})")
    return column


def _all_texts(values: Any) -> bool:
    return all(isinstance(value, str) for value in values)
