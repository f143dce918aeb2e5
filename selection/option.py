"""What there is to choose from: one way to predict one place, with what it costs and how wrong it was."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
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

LUCK = 8.0
"""By how much an error counts as larger for a single candidate, as a share of it, times the number of layers."""


def believed_error(error: float, shares: Iterable[float], layers: int) -> float:
    """What is believed of an error on few layers: whatever looks best by itself looks so by luck too.

    A mean of several is less a matter of luck: what is added goes with the sum of the squared shares, and is nothing
    where layers are many.

    >>> round(believed_error(0.1, [1.0], 80), 4), round(believed_error(0.1, [0.5, 0.5], 80), 4)
    (0.11, 0.105)
    """
    return error * (1 + LUCK * sum(share**2 for share in shares) / layers)


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

    @cached_property
    def believed(self) -> float:
        """What it is chosen by."""
        return believed_error(self.error, self.members.values() or (1.0,), len(np.unique(self.groups)))


Selection = Mapping[str, Option]
"""One option for every place."""
