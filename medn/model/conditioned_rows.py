"""Layers of one kind that are asked for again and again, each time under other conditions."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import TypeVar

from medn.core.ranges import matches_constants
from medn.core.values import Scalar
from medn.estimator.estimator import Estimates, Estimator, Rows

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")

MOST_KEPT = 64
"""Answers after which those kept before are forgotten."""


def remembered(known: dict[Key, Value], key: Key, make: Callable[[], Value]) -> Value:
    """What is known for a key; made and kept if nothing is. Another thread may make it too, or forget it meanwhile."""
    value = known.get(key)
    if value is None:
        value = make()
        if len(known) >= MOST_KEPT:
            known.clear()
        known[key] = value
    return value


class Repeated:
    """Conditions that were the same all along while measuring are no inputs of a form, so its answers are kept."""

    def __init__(self, estimator: Estimator, rows: Rows, further: tuple[str, ...] = ()) -> None:
        self.estimator = estimator
        self.rows = rows
        self.further = tuple(name for name in further if name in estimator.further)
        """What is wanted beside the latency."""
        ranges = (estimator.range, *(estimator.further[name].deployed.range for name in self.further))
        self._inputs = {name for known in ranges for name in known.schema.names}
        self._known: dict[tuple[Scalar, ...], Estimates] = {}

    def under(self, conditions: Mapping[str, Scalar]) -> Estimates:
        """The arrays are kept: copy them before changing anything."""
        constants = {name: value for name, value in self.estimator.constants.items() if name in conditions}
        matches = bool(matches_constants(conditions, constants, 1)[0])
        felt = tuple(value for name, value in conditions.items() if name in self._inputs)
        return remembered(self._known, (*conditions, matches, *felt), lambda: self._estimate(conditions))

    def _estimate(self, conditions: Mapping[str, Scalar]) -> Estimates:
        return self.estimator.estimate(self.estimator.under(self.rows, conditions), self.further)
