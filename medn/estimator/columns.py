"""Tables as people have them, as plain columns: found by what they can do, so that no library is imported for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medn.core.errors import UsageError
from medn.core.text import LONGEST, shown
from medn.core.values import Condition, Layer, Point, Scalar

Column = NDArray[Any] | Scalar
"""One value per row, or one value for all rows."""

Given = Column | None
"""A column as it is asked with: None stands for what is usual."""

MOST_ROWS = 10_000_000
"""Rows that a table is made of from few words, such as a range."""

Check = Callable[[Iterable[Any]], None]
"""Raises if a table may not have columns of these names."""

PLAIN = (bool, int, float, str, type(None))

PLAIN_COLUMNS = "?bhilqBHILQfdU"
"""The types of arrays that are columns as they stand, as NumPy calls them in a letter."""

ACCEPTED = "a dict of columns, a list of layers, a numpy record array, or a pandas, polars or arrow table"


def read_columns(table: Any, check: Check | None = None) -> tuple[dict[str, Given], int]:
    """The columns of a table by name, and the number of its rows.

    `check` sees the names first: a table of wrong ones is refused before anything is read of it.

    >>> columns, rows = read_columns({"kind": "linear", "in_features": [8, 16]})
    >>> columns["in_features"].tolist(), columns["kind"], rows
    ([8, 16], 'linear', 2)
    """
    columns = {name: read_column(name, values) for name, values in _found(table, check or check_names).items()}
    lengths = {name: len(values) for name, values in columns.items() if isinstance(values, np.ndarray)}
    if not columns or 0 in lengths.values():
        raise UsageError("the table has no rows" if columns else "the table has no columns")
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise UsageError(f"the columns of a table must be of one length (got {told})")
    return columns, next(iter(lengths.values()), 1)


def _found(table: Any, check: Check) -> Mapping[str, Any]:
    if isinstance(table, Mapping):
        check(table)
        return table
    for method in ("collect", "compute"):
        if callable(getattr(table, method, None)):
            raise UsageError(f"a lazy table has no rows yet: give its .{method}() (got {type(table).__name__})")
    if hasattr(table, "column_names") and hasattr(table, "column"):  # arrow
        check(table.column_names)
        return {name: table.column(name) for name in table.column_names}
    names = getattr(getattr(table, "dtype", None), "names", None)
    if names is None and hasattr(table, "columns") and hasattr(table, "__getitem__"):  # pandas, polars
        names = table.columns
    if names is not None and len(names):  # a numpy record array has them too
        check(names)
        return {name: table[name] for name in names}
    if isinstance(table, Sequence) and not isinstance(table, (str, bytes)):
        return _from_rows([_row(row) for row in table], check)
    if names is not None:
        raise UsageError("the table has no columns")
    raise UsageError(f"a table must be {ACCEPTED} (got {type(table).__name__})")


def check_names(names: Iterable[Any]) -> None:
    """That every column has a name, and each its own."""
    counts = Counter(iter(names))  # of a mapping it would take the values
    for name, count in counts.items():
        if not isinstance(name, str):
            raise UsageError(f"the name of a column must be a string (got {shown(name)})")
        if count > 1:
            raise UsageError(f"the table has the column {shown(name)} twice")


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


def _from_rows(rows: Sequence[Mapping[Any, Any]], check: Check) -> dict[str, Any]:
    if not rows:
        raise UsageError("the table has no rows")
    names = dict.fromkeys(name for row in rows for name in row)
    check(names)
    return {name: [row.get(name) for row in rows] for name in names}


def read_column(name: str, values: Any) -> Given:
    """One column of a table: an array of one dimension, or the value that all rows have.

    >>> read_column("batch_size", Fraction(8)), read_column("batch_size", [8, None]).tolist()
    (8.0, [8, None])
    """
    if type(values) is np.ndarray and values.ndim == 1 and values.dtype.char in PLAIN_COLUMNS:
        return values
    single = plain_value(values)
    if not _has_rows(single):
        return single  # type: ignore[no-any-return]  # whatever it is, the parameter it is given for says what is wrong
    try:
        column = _array(name, _unwrapped(values))
    except (ValueError, TypeError, NotImplementedError) as error:
        raise UsageError(f"the column {shown(name)} cannot be read: {shown(str(error))}") from None
    if column.ndim != 1:
        raise UsageError(f"the column {shown(name)} must have one value per row (its shape is {column.shape})")
    if column.dtype.kind == "f" and column.dtype.itemsize > 8:
        column = column.astype(np.float64)
    return _plain_objects(name, column) if column.dtype.kind == "O" else column


def _has_rows(values: Any) -> bool:
    if isinstance(values, (str, bytes, bytearray)):
        return False
    return isinstance(values, (Sequence, np.ndarray)) or hasattr(values, "to_numpy") or hasattr(values, "__array__")


def _unwrapped(values: Any) -> Any:
    """A column of another library as a list or as an array, with None where it has no value."""
    if isinstance(values, np.ma.MaskedArray):
        return values.tolist() if values.ndim == 1 and np.ma.is_masked(values) else values.data
    nulls = getattr(values, "null_count", 0)  # of arrow a number, of polars a method
    if nulls() if callable(nulls) else nulls:
        return values.to_pylist() if hasattr(values, "to_pylist") else values.to_list()
    if hasattr(values, "to_pylist"):
        return values.to_numpy(zero_copy_only=False)
    if not hasattr(values, "to_numpy"):
        return values
    # Nullable columns of pandas would become floats with NaN, which means something else.
    nullable = _is_missing(getattr(getattr(values, "dtype", None), "na_value", None))
    return values.to_numpy(dtype=object) if nullable else values.to_numpy()


def _array(name: str, values: Any) -> NDArray[Any]:
    if isinstance(values, range):
        check_rows(name, [values])
    if isinstance(values, (np.ndarray, range)) or not isinstance(values, Sequence):
        return np.asarray(values)
    types = set(map(type, values))
    # Together, unlike values would become like ones: flags become numbers, numbers beside strings become strings.
    if types <= {int, float} or (len(types) == 1 and issubclass(next(iter(types)), (bool, np.number))):
        return np.asarray(values)
    if types == {str} and max(map(len, values)) <= LONGEST:  # each takes as much memory as the longest
        return np.asarray(values)
    objects = np.empty(len(values), dtype=object)
    for row, value in enumerate(values):
        objects[row] = value
    return objects


def check_rows(name: str, varied: Iterable[Any]) -> None:
    """That all combinations of some values are not too many to be computed."""
    rows = 1
    for values in varied:
        try:
            rows *= len(values)
        except OverflowError:  # of a range
            rows = MOST_ROWS + 1
        if rows > MOST_ROWS:
            raise UsageError(f"{name}: makes a table of more than {MOST_ROWS:,} rows")


def _plain_objects(name: str, column: NDArray[Any]) -> NDArray[Any]:
    """The same column with nothing in it but plain values, each as Python has it."""
    values = column.tolist()
    if all(each in PLAIN for each in set(map(type, values))):
        return column
    plain = np.empty(len(values), dtype=object)
    for row, value in enumerate(map(plain_value, values)):
        if _has_rows(value):
            raise UsageError(f"the column {shown(name)} must have one value per row (row {row} holds {shown(value)})")
        plain[row] = value
    return plain


def plain_value(value: Any) -> Any:
    """A single value as Python has it: numbers of numpy, decimals and fractions as numbers, any gap as None.

    >>> plain_value(np.int32(8)), plain_value(np.array(8.0)), plain_value(Fraction(1, 2)), plain_value(np.ma.masked)
    (8, 8.0, 0.5, None)
    """
    if type(value) in PLAIN:
        return value
    if getattr(value, "ndim", None) == 0 and hasattr(value, "__array__"):
        if np.ma.is_masked(value):
            return None
        try:
            value = np.asarray(value).item()
        except (TypeError, ValueError, NotImplementedError):  # such as a tensor without data
            return value
    if isinstance(value, np.floating):  # of more digits than Python has
        return float(value)
    if isinstance(value, (Decimal, Fraction)):
        return _as_float(value)
    return None if _is_missing(value) else value


def value_at(column: Given, row: int) -> Any:
    """The value of one row, as Python has it.

    >>> value_at(np.array([1, 2]), 1), value_at(np.float64(0.5), 1), value_at("fp32", 1)
    (2, 0.5, 'fp32')
    """
    value = column[row] if isinstance(column, np.ndarray) and column.ndim else column
    return value.item() if isinstance(value, np.generic | np.ndarray) else value


def _is_missing(value: Any) -> bool:
    """Whether it is what pandas has in the place of no value."""
    return type(value).__module__.partition(".")[0] == "pandas" and type(value).__name__ in ("NAType", "NaTType")


def _as_float(value: Decimal | Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
    except ValueError:  # a decimal that signals that it is no number
        return float("nan")
