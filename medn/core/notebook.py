"""How results show themselves in a notebook: a small table of HTML, and all rows as a table of pandas."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from medn.core.packages import need

if TYPE_CHECKING:
    import pandas

MOST_ROWS = 20
"""Rows that a notebook shows; `to_frame` has all of them."""


def html_table(caption: str, rows: Sequence[Mapping[str, Any]], count: int | None = None) -> str:
    """The first rows under a caption; `count` says how many there are where `rows` are only the first of them.

    >>> html_table("one layer", [{"latency": "2 ms", "note": None}])
    '<p>one layer</p><table><tr><th>latency</th><th>note</th></tr><tr><td>2 ms</td><td></td></tr></table>'
    """
    shown = rows[:MOST_ROWS]
    lines = [_line("th", shown[0]), *(_line("td", row.values()) for row in shown)] if shown else []
    more = (len(rows) if count is None else count) - len(shown)
    rest = f"<p>and {more:,} more: <code>to_frame()</code> has all</p>" if more else ""
    return f"<p>{escape(caption)}</p><table>{''.join(lines)}</table>{rest}"


def _line(tag: str, cells: Iterable[Any]) -> str:
    told = ("" if cell is None else escape(str(cell)) for cell in cells)
    return f"<tr>{''.join(f'<{tag}>{cell}</{tag}>' for cell in told)}</tr>"


def frame(rows: Sequence[Mapping[str, Any]] | Mapping[str, Any]) -> pandas.DataFrame:
    """Rows, or columns, as a table of pandas."""
    need("to_frame", "pandas", requirement="pandas")
    import pandas

    return pandas.DataFrame(rows)
