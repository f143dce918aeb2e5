"""A table in a file as other people wrote it: compression, encoding, separator and decimal comma are found from it.

A cell that does not fit its column stays the text that it is, so that whoever reads the row can say what is wrong.
"""

from __future__ import annotations

import codecs
import csv
import io
import math
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medn.core.errors import UsageError, unknown
from medn.core.text import first_line

if TYPE_CHECKING:
    import pyarrow

SEPARATORS = (",", ";", "\t", "|")
GAPS = ("", "na", "n/a", "#n/a", "<na>", "nan", "null", "none")
"""What stands for nothing in a column of numbers; in one of texts only the empty cell does."""

PARQUET, ARROW, ZIP, ZSTANDARD = b"PAR1", b"ARROW1", b"PK\x03\x04", b"\x28\xb5\x2f\xfd"
GZIP, BZIP, XZ = b"\x1f\x8b", b"BZh", b"\xfd7zXZ\x00"

MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)

NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|[+-]?inf(inity)?", re.I)
WHOLE = re.compile(r"[+-]?[0-9]{1,18}")
"""What longer ones say is read as a fraction, which has no end."""
DECIMAL_COMMA = re.compile(r"[+-]?[0-9]+,[0-9]+([eE][+-]?[0-9]+)?")
THOUSANDS = re.compile(r"[+-]?[1-9][0-9]{0,2}(,[0-9]{3})+")
INDEX = re.compile(r"__index_level_[0-9]+__|Unnamed: [0-9]+")
"""What pandas calls a column without a name."""

HEAD = 1_000_000
"""So many characters hold the first two lines."""

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
        """One value per row: a number, true or false, a text, or None."""
        if name not in self._columns:
            raise UsageError(f"{self.path}: {unknown('column', name, self.names)}")
        first, *others = (_cells(column) for column in self._columns[name])
        if any(other != first for other in others):
            raise UsageError(f"{self.path}: {1 + len(others)} columns are named {name!r}, and they differ")
        return first


def open_table(path: Path) -> TableFile:
    """The table in a file; one sentence if there is none."""
    import pyarrow

    if path.is_dir():
        raise UsageError(f"{path} is a folder; a table is one file")
    if not path.exists():
        near = [other.name for other in path.parent.glob("*") if other.is_file()] if path.parent.is_dir() else []
        raise UsageError(f"no table at {path}. {unknown('file', path.name, near[:20])}")
    if not path.is_file():
        raise UsageError(f"{path} is no ordinary file, so it cannot be read as a table")
    try:
        content = _unpacked(path.read_bytes())
        if not content.strip():
            raise ValueError("it is empty")
        if content.startswith(ZIP):
            raise ValueError("it is a zip archive or a workbook; unpack it, or save it as CSV")
        found = _from_arrow(path, content) if content.startswith((PARQUET, ARROW)) else _from_text(path, content)
    except (pyarrow.ArrowException, OSError, EOFError, ValueError, zlib.error, csv.Error) as error:
        said = getattr(error, "strerror", None) or first_line(error)
        raise UsageError(f"{path} cannot be read as a table: {said}") from None
    if not found.rows and not found.broken:
        raise UsageError(f"{path} has a heading and no rows")
    return found


def _unpacked(content: bytes) -> bytes:
    """What a compressed file holds, known by its first bytes and not by its name."""
    if content.startswith(GZIP):
        import gzip

        return gzip.decompress(content)
    if content.startswith(BZIP):
        import bz2

        return bz2.decompress(content)
    if content.startswith(XZ):
        import lzma

        try:
            return lzma.decompress(content)
        except lzma.LZMAError as error:
            raise ValueError(str(error)) from None
    if content.startswith(ZSTANDARD):
        import pyarrow

        with pyarrow.input_stream(pyarrow.BufferReader(content), compression="zstd") as stream:
            unpacked: bytes = stream.read()
        return unpacked
    return content


def _from_arrow(path: Path, content: bytes) -> TableFile:
    import pyarrow
    import pyarrow.feather
    import pyarrow.parquet

    source = pyarrow.BufferReader(content)
    read = pyarrow.parquet.read_table if content.startswith(PARQUET) else pyarrow.feather.read_table
    table = read(source)
    return TableFile(path, table.num_rows, {}, (), _by_name(table.column_names, table.columns))


def _from_text(path: Path, content: bytes) -> TableFile:
    """The rows of CSV, every cell a text until it is asked for."""
    import pyarrow
    import pyarrow.csv

    text, encoding = _decoded(content)
    if text.lstrip().startswith(("{", "[")):
        raise ValueError("it is JSON; a table is CSV or Parquet")
    separator, heading = _heading(text)
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


def _decoded(content: bytes) -> tuple[str, str]:
    """The text, and the encoding it was found to have."""
    marked = next((name for mark, name in MARKS if content.startswith(mark)), None)
    for order, start in (("utf-16-le", 1), ("utf-16-be", 0)):
        # Latin letters have a zero in every other byte of UTF-16: which one tells the order.
        every_other = content[start:1000:2]
        if marked is None and every_other.count(0) > len(every_other) * 0.9:
            marked = order
    for encoding in [marked] if marked else ["utf-8", "cp1252", "latin-1"]:
        try:
            text = content.decode(encoding)
        except UnicodeDecodeError:
            continue
        if "\x00" in text:
            break
        return text, {"cp1252": "latin-1"}.get(encoding, encoding)
    raise ValueError("it is neither text nor Parquet")


def _heading(text: str) -> tuple[str, list[str]]:
    """The separator that cuts the first two lines into most cells alike, and the names in the first."""
    found: list[tuple[bool, int, str, list[str]]] = []
    for separator in SEPARATORS:
        lines = (line for line in csv.reader(io.StringIO(text[:HEAD], newline=None), delimiter=separator) if line)
        first = next(lines)
        second = next(lines, first)
        found.append((len(first) == len(second), len(first), separator, first))
    several = [each for each in found if each[1] > 1] or found[:1]
    _, _, separator, names = max(several, key=lambda each: each[:2])
    return separator, [name.strip() for name in names]


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
        texts = [text.strip() for text in encoded.dictionary.to_pylist()]
        values = read_texts(texts, [counts[place] for place in range(len(texts))])
        return [None if place is None else values[place] for place in encoded.indices.to_pylist()]
    return [_plain(cell) for cell in column.to_pylist()]


def _plain(cell: Any) -> Any:
    """Dates, durations, lists and the like are kept as they are written."""
    if isinstance(cell, bytes):
        return cell.decode("utf-8", "replace")
    if isinstance(cell, float) and math.isnan(cell):
        return None
    return cell if cell is None or isinstance(cell, (bool, int, float, str)) else str(cell)


def read_texts(texts: Sequence[str], counts: Sequence[int]) -> list[Any]:
    """What the different texts of a column mean: numbers if most cells are numbers, flags if all are, or texts.

    >>> read_texts(["1", "2.5", "oops", ""], [1, 1, 1, 1])
    [1, 2.5, 'oops', None]
    >>> read_texts(["0,5", "12"], [1, 1]), read_texts(["relu", "1"], [2, 1]), read_texts(["True", ""], [1, 1])
    ([0.5, 12], ['relu', '1'], [True, None])
    """
    filled = [(text, count) for text, count in zip(texts, counts, strict=True) if text.lower() not in GAPS]
    if filled and all(text.lower() in FLAGS for text, _ in filled):
        return [FLAGS.get(text.lower()) for text in texts]
    number = _number_reader([text for text, _ in filled])
    # Only what ends counts: "inf" by itself may just as well be short for a word.
    numbers = sum(
        count for text, count in filled if isinstance(found := number(text), (int, float)) and abs(found) < math.inf
    )
    if numbers and 2 * numbers >= sum(count for _, count in filled):
        return [None if text.lower() in GAPS else number(text) for text in texts]
    return [text or None for text in texts]


def _number_reader(texts: Sequence[str]) -> Callable[[str], int | float | str]:
    """Reads the numbers of a column. A comma is that of a fraction unless it could be one between thousands."""
    with_comma = [text for text in texts if DECIMAL_COMMA.fullmatch(text)]
    is_point = any(NUMBER.fullmatch(text) and "." in text for text in texts)
    decimal_comma = with_comma and not is_point and not all(THOUSANDS.fullmatch(text) for text in with_comma)

    def number(text: str) -> int | float | str:
        written = text.replace(",", ".") if decimal_comma and DECIMAL_COMMA.fullmatch(text) else text
        if WHOLE.fullmatch(written):
            return int(written)
        return float(written) if NUMBER.fullmatch(written) else text

    return number
