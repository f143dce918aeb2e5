"""A table in a file as other people wrote it: compression, encoding, separator and decimal comma are found from it.

A cell that does not fit its column stays the text that it is, so that whoever reads the row can say what is wrong.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medn.core.errors import UsageError, unknown
from medn.core.table_content import BINARY, arrow_table, decoded, first_line_cells, table_content
from medn.core.text import first_line

if TYPE_CHECKING:
    import pyarrow

GAPS = ("", "na", "n/a", "#n/a", "<na>", "nan", "null", "none")
"""What stands for nothing in a column of numbers; in one of strings only the empty cell does."""

NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|[+-]?inf(inity)?", re.I)
WHOLE = re.compile(r"[+-]?[0-9]{1,18}")
"""What longer ones say is read as a fraction, which has no end."""
DECIMAL_COMMA = re.compile(r"[+-]?[0-9]+,[0-9]+([eE][+-]?[0-9]+)?")
THOUSANDS = re.compile(r"[+-]?[1-9][0-9]{0,2}(,[0-9]{3})+")
INDEX = re.compile(r"__index_level_[0-9]+__|Unnamed: [0-9]+")
"""What pandas calls a column without a name."""

FLAGS = {"true": True, "false": False}


@dataclass(frozen=True, eq=False)
class TableFile:
    """The columns of a table by name, read when they are asked for."""

    path: Path
    rows: int
    broken: Mapping[str, int]
    """Lines that are no rows, by reason."""
    notes: tuple[str, ...]
    """What was guessed of the file, in words."""
    _columns: Mapping[str, Sequence[pyarrow.ChunkedArray]]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._columns)

    def cells(self, name: str) -> list[Any]:
        """One value per row: a number, true or false, a string, or None."""
        if name not in self._columns:
            raise UsageError(f"{self.path}: {unknown('column', name, self.names)}")
        first, *others = (_cells(column) for column in self._columns[name])
        if any(other != first for other in others):
            raise UsageError(f"{self.path}: {1 + len(others)} columns are named {name!r}, and they differ")
        return first


def open_table(path: Path) -> TableFile:
    """The table in a file; one sentence if there is none."""
    import pyarrow

    content = table_content(path)
    try:
        found = _from_arrow(path, content) if content.startswith(BINARY) else _from_text(path, content)
    except (pyarrow.ArrowException, OSError, ValueError, csv.Error) as error:
        raise UsageError(f"{path} cannot be read as a table: {first_line(error)}") from None
    if not found.rows and not found.broken:
        raise UsageError(f"{path} has a heading and no rows")
    return found


def _from_arrow(path: Path, content: bytes) -> TableFile:
    table = arrow_table(content)
    return TableFile(path, table.num_rows, {}, (), _by_name(table.column_names, table.columns))


def _from_text(path: Path, content: bytes) -> TableFile:
    """The rows of CSV, every cell a string until it is asked for."""
    import pyarrow
    import pyarrow.csv

    text, encoding = decoded(content)
    if text.lstrip().startswith(("{", "[")):
        raise ValueError("it is JSON; a table is CSV or Parquet")
    separator, heading = first_line_cells(text)
    places = [str(place) for place in range(len(heading))]
    broken: Counter[str] = Counter()
    unclosed: list[int] = []

    def on_broken(line: pyarrow.csv.InvalidRow) -> str:
        broken[f"it has {line.actual_columns} cells, the heading has {line.expected_columns}"] += 1
        unclosed.extend([line.number or 0] if "\n" in line.text else [])
        return "skip"

    table = pyarrow.csv.read_csv(
        io.BytesIO(text.encode()),
        pyarrow.csv.ReadOptions(column_names=places, use_threads=False),
        pyarrow.csv.ParseOptions(delimiter=separator, newlines_in_values=True, invalid_row_handler=on_broken),
        pyarrow.csv.ConvertOptions(column_types=dict.fromkeys(places, pyarrow.string())),
    ).slice(1)
    if unclosed:
        raise ValueError(f'a quote (") is never closed, in line {unclosed[0]} or after it')
    notes = [] if encoding.startswith("utf-8") else [f"read as {encoding}"]
    notes += [] if separator == "," else [f"columns are separated by {'tabs' if separator == chr(9) else separator}"]
    return TableFile(path, table.num_rows, broken, tuple(notes), _by_name(heading, table.columns))


def _by_name(names: Iterable[str], columns: Iterable[Any]) -> dict[str, list[Any]]:
    """The columns of each name; one without a name, such as the index of a data frame, is none."""
    found: dict[str, list[Any]] = {}
    for name, column in zip(names, columns, strict=True):
        if name and not INDEX.fullmatch(name):
            found.setdefault(name, []).append(column)
    return found


def _cells(column: pyarrow.ChunkedArray) -> list[Any]:
    """The values of a column as plain Python has them."""
    import pyarrow
    from pyarrow import types

    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if types.is_decimal(column.type) or types.is_float16(column.type):
        column = column.cast(pyarrow.float64())
    if types.is_string(column.type) or types.is_large_string(column.type) or types.is_string_view(column.type):
        encoded = column.combine_chunks().dictionary_encode()
        if isinstance(encoded, pyarrow.ChunkedArray):
            encoded = encoded.combine_chunks()
        counts = Counter(encoded.indices.to_pylist())
        strings = [text.strip() for text in encoded.dictionary.to_pylist()]
        values = read_strings(strings, [counts[place] for place in range(len(strings))])
        return [None if place is None else values[place] for place in encoded.indices.to_pylist()]
    return [_plain(cell) for cell in column.to_pylist()]


def _plain(cell: Any) -> Any:
    """Dates, durations, lists and the like are kept as they are written."""
    if isinstance(cell, bytes):
        return cell.decode("utf-8", "replace")
    if isinstance(cell, float) and math.isnan(cell):
        return None
    return cell if cell is None or isinstance(cell, (bool, int, float, str)) else str(cell)


def read_strings(strings: Sequence[str], counts: Sequence[int]) -> list[Any]:
    """What the different strings of a column mean: numbers if most cells are numbers, flags if all are, or strings.

    >>> read_strings(["1", "2.5", "oops", ""], [1, 1, 1, 1])
    [1, 2.5, 'oops', None]
    >>> read_strings(["0,5", "12"], [1, 1]), read_strings(["relu", "1"], [2, 1]), read_strings(["True", ""], [1, 1])
    ([0.5, 12], ['relu', '1'], [True, None])
    """
    filled = [(text, count) for text, count in zip(strings, counts, strict=True) if text.lower() not in GAPS]
    if filled and all(text.lower() in FLAGS for text, _ in filled):
        return [FLAGS.get(text.lower()) for text in strings]
    number = _number_reader([text for text, _ in filled])
    # Only what ends counts: "inf" by itself may just as well be short for a word.
    numbers = sum(
        count for text, count in filled if isinstance(found := number(text), (int, float)) and abs(found) < math.inf
    )
    if numbers and 2 * numbers >= sum(count for _, count in filled):
        return [None if text.lower() in GAPS else number(text) for text in strings]
    return [text or None for text in strings]


def _number_reader(strings: Sequence[str]) -> Callable[[str], int | float | str]:
    """Reads the numbers of a column. A comma is that of a fraction unless it could be one between thousands."""
    with_comma = [text for text in strings if DECIMAL_COMMA.fullmatch(text)]
    is_point = any(NUMBER.fullmatch(text) and "." in text for text in strings)
    decimal_comma = with_comma and not is_point and not all(THOUSANDS.fullmatch(text) for text in with_comma)

    def number(text: str) -> int | float | str:
        written = text.replace(",", ".") if decimal_comma and DECIMAL_COMMA.fullmatch(text) else text
        if WHOLE.fullmatch(written):
            return int(written)
        return float(written) if NUMBER.fullmatch(written) else text

    return number
