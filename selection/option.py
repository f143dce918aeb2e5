"""What there is to choose from: one way to predict one place, with what it costs and how wrong it was."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from numpy import str_
from numpy.typing import NDArray

from medn.core.table import Array


@dataclass(frozen=True)
class Cost:
    """What a prediction takes, measured on the deployed form."""

    us: float
    """Microseconds a row."""
    bytes: float
    load_ms: float

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.us + other.us, self.bytes + other.bytes, self.load_ms + other.load_ms)


NO_COST = Cost(0.0, 0.0, 0.0)


@dataclass(frozen=True, eq=False)
class Option:
    """One candidate or ensemble for one place, judged on validation rows; a place is a layer kind on a device."""

    place: str
    name: str
    errors: Array
    """Relative errors, one per validation row."""
    groups: NDArray[str_]
    """The layer of each validation row."""
    cost: Cost
    members: Mapping[str, float] = field(default_factory=dict)
    """The shares of an ensemble; empty for a single candidate."""

    @cached_property
    def error(self) -> float:
        return float(self.errors.mean())


Selection = Mapping[str, Option]
"""One option for every place."""
