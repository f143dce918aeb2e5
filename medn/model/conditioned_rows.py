"""Layers of one kind that are predicted under changing conditions, with a cache of the predictions."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import TypeVar

from medn.core.ranges import matches_constants
from medn.core.values import Scalar
from medn.estimator.estimator import Estimates, Estimator, Rows

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")

CACHE_SIZE = 64
"""Entries after which a cache is emptied."""


def cached(cache: dict[Key, Value], key: Key, make: Callable[[], Value]) -> Value:
    """The entry of a key, made if there is none. Another thread may make it too, or empty the cache meanwhile."""
    value = cache.get(key)
    if value is None:
        value = make()
        if len(cache) >= CACHE_SIZE:
            cache.clear()
        cache[key] = value
    return value


class ConditionedRows:
    """Conditions that never varied while measuring are no inputs of a form, so all their values share a prediction."""

    def __init__(self, estimator: Estimator, rows: Rows, further: tuple[str, ...] = ()) -> None:
        self.estimator = estimator
        self.rows = rows
        self.further = tuple(name for name in further if name in estimator.further)
        """What is wanted beside the latency."""
        ranges = (estimator.range, *(estimator.further[name].deployed.range for name in self.further))
        self._inputs = {name for measured in ranges for name in measured.schema.names}
        self._cache: dict[tuple[Scalar, ...], Estimates] = {}

    def under(self, conditions: Mapping[str, Scalar]) -> Estimates:
        """The arrays stay in the cache: copy them before changing anything."""
        constants = {name: value for name, value in self.estimator.constants.items() if name in conditions}
        matches = bool(matches_constants(conditions, constants, 1)[0])
        inputs = tuple(value for name, value in conditions.items() if name in self._inputs)
        return cached(self._cache, (*conditions, matches, *inputs), lambda: self._estimate(conditions))

    def _estimate(self, conditions: Mapping[str, Scalar]) -> Estimates:
        return self.estimator.estimate(self.estimator.under(self.rows, conditions), self.further)
