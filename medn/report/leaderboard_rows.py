"""Which rows of a leaderboard a report shows where."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from medn.choosing.leaderboard import Leaderboard

Row = Mapping[str, Any]


def chosen_rows(board: Leaderboard) -> list[Row]:
    """One row for each device and kind that something was chosen for."""
    return [row for row in board.rows if row["chosen"]]


def chosen_by_kind(rows: Sequence[Row]) -> dict[tuple[str, str], Row]:
    """The chosen row of each device and kind."""
    return {(row["device"], row["kind"]): row for row in rows if row["chosen"]}


def rows_of(board: Leaderboard, device: str, kind: str) -> tuple[Row, ...]:
    """The candidates of one kind that could be judged, the smallest error first."""
    rows = [row for row in board.rows if (row["device"], row["kind"]) == (device, kind) and row["mape"] is not None]
    return tuple(sorted(rows, key=lambda row: float(row["mape"])))


def noise_of(row: Row) -> float | None:
    """How far two halves of the measurements of a row's kind disagree, on average; None where there are no two."""
    noise: float | None = row.get("noise_mean")
    return noise
