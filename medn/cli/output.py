"""The output of commands: data on stdout, as JSON or as a table of the same rows; messages on stderr."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from medn.cli.text_table import NOTHING, write_table
from medn.cli.verbosity import LOGGER

Row = Mapping[str, Any]

AsJson = Annotated[bool, typer.Option("--json", help="Print the data as JSON.")]
"""The option every verb has."""


def say(message: str) -> None:
    """A message for people, on stderr; `-q` leaves it out."""
    LOGGER.info("%s", message)


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
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{name}: {_nested(part)}" for name, part in value.items()) or NOTHING
    if isinstance(value, (list, tuple)):
        return ", ".join(_nested(part) for part in value) or NOTHING
    return str(value)


def _nested(value: object) -> str:
    """A part of a cell, in the brackets that a config would write."""
    if isinstance(value, Mapping):
        return f"{{{_cell(value)}}}"
    return f"[{_cell(value)}]" if isinstance(value, (list, tuple)) else _cell(value)


def _write_table(headings: Sequence[str], lines: Sequence[Sequence[str]]) -> None:
    left_out = write_table([heading.replace("_", " ") for heading in headings], lines)
    if left_out:
        say(f"left out, for want of width: {', '.join(left_out)}; a wider terminal or --json shows all")
