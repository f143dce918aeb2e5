"""Tables in files: CSV by the standard library, JSON lines, and Parquet where pyarrow is."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from medn.core.errors import StoreError, UsageError
from medn.core.packages import need
from medn.core.table_content import BINARY, STANDARD, arrow_table, decoded, first_line_cells, table_content
from medn.core.text import first_line
from medn.core.values import Scalar, plain

Row = Mapping[str, Any]


def read_value(text: str) -> Scalar | None:
    """What a cell or an argument says: nothing, a number, true or false, or a string.

    >>> [read_value(text) for text in ("64", "0.5", "true", "relu", "")]
    [64, 0.5, True, 'relu', None]
    """
    stripped = text.strip()
    if not stripped:
        return None
    for read in (int, float):
        try:
            return read(stripped)
        except ValueError:
            continue
    return {"true": True, "false": False}.get(stripped.lower(), stripped)


def read_values(name: str, text: str) -> Scalar | list[Scalar | None] | range | None:
    """What an argument says: one value, or those of FROM:TO:STEP or A,B,C.

    >>> read_values("rows", "1,8"), read_values("rows", "8:65:8"), read_values("rows", "8")
    ([1, 8], range(8, 65, 8), 8)
    """
    if "," in text:
        return [read_value(part) for part in text.split(",")]
    if ":" not in text:
        return read_value(text)
    try:
        values = range(*(int(part) for part in text.split(":")))
    except (ValueError, TypeError):
        raise UsageError(f"{name}={text}: must be FROM:TO or FROM:TO:STEP in whole numbers") from None
    if not values:
        raise UsageError(f"{name}={text}: holds no value")
    return values


def read_table(path: Path) -> Any:
    """A table that `Predictor.predict` takes, from a file, a pipe or standard input."""
    content = table_content(path, pipes=True)
    if content.startswith(BINARY):
        return _from_arrow(path, content)
    try:
        text, _ = decoded(content)
    except ValueError as error:
        raise UsageError(f"{path} cannot be read as a table: {error}") from None
    return parse_table(text)


def parse_table(text: str) -> list[dict[str, Any]]:
    """The rows of CSV with a heading, of JSON lines, or of one JSON list of objects."""
    try:
        if text.lstrip().startswith("["):
            return _objects(json.loads(text))
        if text.lstrip().startswith("{"):
            return _objects([json.loads(line) for line in text.splitlines() if line.strip()])
    except (ValueError, RecursionError) as error:
        raise UsageError(f"the table is no JSON: {error}") from None
    return _parse_csv(text)


def _objects(rows: Any) -> list[dict[str, Any]]:
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise UsageError("a table in JSON must be one object per line, or a list of objects")
    return rows


def _parse_csv(text: str) -> list[dict[str, Any]]:
    if not text.strip():
        raise UsageError("the table is empty")
    try:
        separator, _ = first_line_cells(text)
        reader = csv.reader(io.StringIO(text, newline=None), delimiter=separator, strict=True)
        lines = [line for line in reader if line]
    except csv.Error as error:
        raise UsageError(f"the table is no CSV: {error}") from None
    heading = [name.strip() for name in lines[0]]
    if len(set(heading)) < len(heading) or not all(heading):
        raise UsageError(f"the first line of a table must name each column once (got {', '.join(heading)})")
    rows = []
    for number, line in enumerate(lines[1:]):
        if len(line) != len(heading):
            raise UsageError(f"row {number} of the table has {len(line)} cells, its heading {len(heading)}")
        rows.append({name: read_value(cell) for name, cell in zip(heading, line, strict=True)})
    return rows


def _from_arrow(path: Path, content: bytes) -> Any:
    need("reading Parquet", "pyarrow")
    import pyarrow

    try:
        return arrow_table(content)
    except (pyarrow.ArrowException, OSError) as error:
        raise UsageError(f"{path} cannot be read as a table: {first_line(error)}") from None


def write_table(rows: Sequence[Row], path: Path) -> None:
    """Rows as CSV, JSON lines or Parquet, by the ending of the file's name; CSV on standard output."""
    try:
        if path == STANDARD:
            write_csv(rows, sys.stdout)
        elif path.suffix == ".parquet":
            _write_parquet(rows, path)
        elif path.suffix in (".json", ".jsonl"):
            path.write_text("".join(f"{json.dumps(plain(row), allow_nan=False)}\n" for row in rows), encoding="utf-8")
        else:
            with path.open("w", encoding="utf-8", newline="") as file:
                write_csv(rows, file)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror or error}") from None


def write_csv(rows: Iterable[Row], file: TextIO) -> None:
    rows = list(rows)
    writer = csv.DictWriter(file, list(dict.fromkeys(name for row in rows for name in row)), lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _cell(value) for name, value in row.items()} for row in rows)


def _cell(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else value


def _write_parquet(rows: Sequence[Row], path: Path) -> None:
    need("writing Parquet", "pyarrow")
    import pyarrow
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.Table.from_pylist([dict(row) for row in rows]), path)
