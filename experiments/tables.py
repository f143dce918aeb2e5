"""How experiments write what they found: a Markdown table to read and JSON to compute with."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def markdown_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows as a Markdown table, one column per name of the first row.

    >>> print(markdown_table([{"kind": "conv2d", "error": 0.031}]))
    | kind | error |
    |---|---|
    | conv2d | 0.031 |
    """
    names = list(rows[0])
    lines = [f"| {' | '.join(names)} |", "|" + "---|" * len(names)]
    lines += [f"| {' | '.join(_cell(row.get(name)) for name in names)} |" for row in rows]
    return "\n".join(lines)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def write_tables(folder: Path, name: str, rows: Sequence[Mapping[str, Any]], about: Mapping[str, Any]) -> None:
    """Write NAME.json and NAME.md, each with what must be known to read the numbers: seeds, sizes, machine."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps({"about": dict(about), "rows": list(rows)}, indent=2) + "\n")
    facts = "\n".join(f"- {key}: {value}" for key, value in about.items())
    (folder / f"{name}.md").write_text(f"{facts}\n\n{markdown_table(rows)}\n")
