"""The output of commands: data on stdout, as JSON or as a table of the same rows; messages on stderr."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from medn.core.text import printable

Row = Mapping[str, Any]

AsJson = Annotated[bool, typer.Option("--json", help="Print the data as JSON.")]
"""The option every verb has."""

PIPED_WIDTH = 160
"""Columns of a table that goes into a file or another program: wide, so that lines rarely break."""

STYLES = {"ok": "green", "warn": "yellow", "missing": "red", "yes": "green", "no": "red"}


def say(message: str) -> None:
    """A message for people, on stderr."""
    typer.echo(printable(message), err=True)


def write_json(value: object) -> None:
    """Strict JSON: no NaN and no infinity, and unprintable characters escaped."""
    from medn.core.values import plain

    text = json.dumps(plain(value), indent=2, ensure_ascii=False, allow_nan=False)
    typer.echo(re.sub(r"[^\n -~]", lambda match: _escaped(match[0]), text))


def _escaped(character: str) -> str:
    return character if character.isprintable() else json.dumps(character)[1:-1]


def write_rows(rows: Sequence[Row], as_json: bool) -> None:
    """The rows as a JSON list, or as a table whose headings are the keys of the first row."""
    if as_json:
        write_json([dict(row) for row in rows])
    elif rows:
        _write_table(list(rows[0]), [[_cell(value) for value in row.values()] for row in rows])


def write_record(record: Row, as_json: bool) -> None:
    """One thing and its properties, a line for each."""
    if as_json:
        write_json(dict(record))
    else:
        _write_table(["property", "value"], [[name, _cell(value)] for name, value in record.items()])


def _cell(value: object) -> str:
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{name}: {_nested(part)}" for name, part in value.items()) or "-"
    if isinstance(value, (list, tuple)):
        return ", ".join(_nested(part) for part in value) or "-"
    return str(value)


def _nested(value: object) -> str:
    """A part of a cell, in the brackets that a config would write."""
    if isinstance(value, Mapping):
        return f"{{{_cell(value)}}}"
    return f"[{_cell(value)}]" if isinstance(value, (list, tuple)) else _cell(value)


def _write_table(headings: Sequence[str], lines: Sequence[Sequence[str]]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(width=None if sys.stdout.isatty() else PIPED_WIDTH)
    table = Table(box=SIMPLE_HEAD, pad_edge=False, safe_box=True)
    for heading in headings:
        table.add_column(heading.replace("_", " "), overflow="fold")
    for line in lines:
        table.add_row(*(Text(printable(cell), style=STYLES.get(cell, "")) for cell in line))
    console.print(table)
