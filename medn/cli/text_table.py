"""Tables on a terminal: they fit its width, the least important columns dropped first, and numbers on the right."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from typing import Literal, NamedTuple

from medn.core.text import printable

PIPED_WIDTH = 160
"""Columns of a table that goes into a file or another program, unless COLUMNS says otherwise: lines rarely break."""

DROPPED_FIRST = (
    # what programs read rather than people
    *("path", "module", "extra", "load ms", "10,000", "100", "bytes", "of reference", "output error", "unstable"),
    # beside a number that says nearly the same
    *(
        "size A",
        "size B",
        "us A",
        "us B",
        "kB",
        "size B-A",
        "us B-A",
        "covered",
        "interval covers",
        "R2",
        "within 10 %",
    ),
    *("lowest", "highest", "low", "high", "rows a second", "layers alone s", "width", "dtypes"),
    # what explains a row
    *("load", "beyond", "also predicts", "versions", "type", "unit", "told", "learned", "options", "median", "noise"),
    *("us/row", "us, 1 row", "note", "batch size", "share"),
)
"""Headings in the order in which their columns are dropped from a table that is too wide; before them go columns of
nothing. All others stay, unless they alone are too wide: then the last of them go."""

NARROWEST_TEXT = 14
"""Strings are folded to this many characters before a column is dropped."""
GAP = 2
EDGES = 2
STYLES = {"ok": "green", "warn": "yellow", "missing": "red", "yes": "green", "no": "red"}
NOTHING = "-"
_NUMBER = re.compile(r"[-+]?\d[\d,]*(\.\d+)?(e[-+]?\d+)?( ?(%|[a-z]{1,3}|[kMGT]?i?B|[kMG]))?")


class _Column(NamedTuple):
    heading: str
    cells: tuple[str, ...]

    @property
    def is_numeric(self) -> bool:
        """Whether it holds numbers, with or without units, and nothing else."""
        told = [cell for cell in self.cells if cell != NOTHING]
        return bool(told) and all(_NUMBER.fullmatch(cell) for cell in told)

    @property
    def widest(self) -> int:
        """What it takes on one line."""
        return max(map(_cell_width, (self.heading, *self.cells)), default=0)

    @property
    def narrowest(self) -> int:
        """What it takes at least: a number is never folded, a heading between its words."""
        heading = _longest_word(self.heading)
        if self.is_numeric:
            return max(heading, *map(_cell_width, self.cells))
        return max(heading, min(NARROWEST_TEXT, max(map(_longest_word, self.cells), default=0)))


def write_table(headings: Sequence[str], lines: Sequence[Sequence[str]]) -> list[str]:
    """Print a table that fits where it is printed; gives the headings of the columns that did not."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    width = shutil.get_terminal_size((PIPED_WIDTH, 24)).columns  # COLUMNS, else the terminal, else for a pipe
    cells = [[printable(cell) for cell in line] for line in lines]
    columns = [
        _Column(printable(heading), tuple(line[place] for line in cells)) for place, heading in enumerate(headings)
    ]
    shown = _fitting(columns, width)
    table = Table(box=SIMPLE_HEAD, pad_edge=False, safe_box=True, padding=(0, GAP - 1, 0, 0))
    for column, column_width in zip(shown, _widths(shown, width), strict=True):
        side: Literal["left", "right"] = "right" if column.is_numeric else "left"
        table.add_column(Text(column.heading), justify=side, width=column_width, overflow="fold")
    for row in zip(*(column.cells for column in shown), strict=True):
        table.add_row(*(Text(cell, style=STYLES.get(cell, "")) for cell in row))
    Console(width=width).print(table)
    return [column.heading for column in columns if column not in shown]


def _fitting(columns: list[_Column], width: int) -> list[_Column]:
    """The columns that have room beside one another, the least important dropped; the first always stays."""
    shown = list(columns)
    for dropped in _least_important_first(columns[1:]):
        if sum(column.narrowest for column in shown) + _between(shown) <= width:
            break
        shown.remove(dropped)
    return shown


def _least_important_first(columns: Sequence[_Column]) -> list[_Column]:
    def rank(place: int) -> tuple[int, int]:
        heading, cells = columns[place]
        listed = DROPPED_FIRST.index(heading) if heading in DROPPED_FIRST else len(DROPPED_FIRST)
        return -1 if set(cells) == {NOTHING} else listed, -place

    return [columns[place] for place in sorted(range(len(columns)), key=rank)]


def _widths(columns: Sequence[_Column], width: int) -> list[int]:
    """Each column as narrow as it may be, then the room that is left, the narrowest of those that need it first."""
    room = width - _between(columns)
    widths = [min(column.narrowest, max(1, room)) for column in columns]
    for _ in range(room - sum(widths)):
        folded = [place for place, column in enumerate(columns) if widths[place] < column.widest]
        if not folded:
            break
        widths[min(folded, key=lambda place: widths[place])] += 1
    return widths


def _between(columns: Sequence[_Column]) -> int:
    return EDGES + GAP * (len(columns) - 1)


def _longest_word(text: str) -> int:
    return max(map(_cell_width, text.split()), default=0)


def _cell_width(text: str) -> int:
    """What a string takes on a terminal, where some characters are wide."""
    if text.isascii():
        return max(map(len, text.split("\n")))
    from rich.cells import cell_len

    return max(map(cell_len, text.split("\n")))
