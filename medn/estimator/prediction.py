"""What is predicted, for one layer and for many."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from medn.core.ranges import Flags
from medn.core.table import Array


class Prediction(NamedTuple):
    """What one layer costs."""

    latency_s: float
    low_s: float
    high_s: float
    """The latency lies between these two for a share `level` of layers like those that were measured."""
    level: float
    in_range: bool
    """Whether layers like this one were measured. If not, the latency is an extrapolation."""
    memory_bytes: float | None = None
    energy_j: float | None = None
    latency_p90_s: float | None = None
    latency_p99_s: float | None = None
    """What 90 and 99 of 100 calls stay within, where the device was measured under load."""


@dataclass(frozen=True, eq=False)
class Predictions:
    """What many layers cost: arrays with one entry per row."""

    latency_s: Array
    low_s: Array
    high_s: Array
    level: Array
    in_range: Flags
    memory_bytes: Array | None = None
    """NaN for the kinds whose memory was not measured; None where no kind's was."""
    energy_j: Array | None = None
    latency_p90_s: Array | None = None
    latency_p99_s: Array | None = None

    @classmethod
    def empty(cls, rows: int, further: Sequence[str]) -> Predictions:
        """Arrays to be filled."""
        return cls(
            **{name: np.empty(rows) for name in ("latency_s", "low_s", "high_s", "level")},
            in_range=np.empty(rows, dtype=np.bool_),
            **{name: np.full(rows, np.nan) for name in further},
        )

    def __len__(self) -> int:
        return len(self.latency_s)

    def __getitem__(self, row: int) -> Prediction:
        values: list[Any] = [None if column is None else column[row].item() for column in self.columns.values()]
        return Prediction(*values)

    def __iter__(self) -> Iterator[Prediction]:
        return (self[row] for row in range(len(self)))

    @property
    def columns(self) -> dict[str, NDArray[Any] | None]:
        return {name: getattr(self, name) for name in Prediction._fields}
