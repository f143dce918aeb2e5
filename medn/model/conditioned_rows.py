"""Layers of one kind that are predicted under changing conditions, with a cache of the predictions."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from functools import cache, cached_property
from typing import TypeVar

import numpy as np

from medn.core.ranges import Flags, is_constant, matches_constants
from medn.core.table import Array
from medn.core.values import Scalar
from medn.estimator.estimator import Estimates, Estimator, Rows

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")

IN_RANGE = 3
"""The row of numbers that holds flags."""

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
        self._cache: dict[tuple[Scalar, ...], Array] = {}

    def under(self, conditions: Mapping[str, Scalar]) -> Estimates:
        """The arrays stay in the cache: copy them before changing anything."""
        latency_s, low_s, high_s, in_range, *more = self.numbers(conditions)
        return Estimates(latency_s, low_s, high_s, in_range != 0, dict(zip(self.further, more, strict=True)))

    def numbers(self, conditions: Mapping[str, Scalar]) -> Array:
        """The same as rows of one array: latency, low, high, flags whether layers are in range, further quantities."""
        constants = self.estimator.constants
        matches = all(is_constant(value, constants[name]) for name, value in conditions.items() if name in constants)
        inputs = tuple(value for name, value in conditions.items() if name in self._inputs)
        return cached(self._cache, (*conditions, matches, *inputs), lambda: self._numbers(conditions, matches))

    def _numbers(self, conditions: Mapping[str, Scalar], matches: bool) -> Array:
        """Of inputs that are ready but for the conditions."""
        self.estimator.check_conditions(conditions)
        inputs = self._ready.copy()
        for name, value in conditions.items():
            for place, codes in self._places(name):
                inputs[place] = np.float32(value) if codes is None else codes.get(str(value), -1)
        found = self.estimator.numbers(inputs, self.further)
        if found is None:  # formulas that cannot be traced
            told = self.estimator.estimate(self.estimator.under(self.rows, conditions), self.further)
            return np.array([*told[:4], *told.further.values()], dtype=np.float64)
        found[IN_RANGE] *= self._matching(tuple(conditions)) & matches
        return found

    @cached_property
    def _ready(self) -> Array:
        """The inputs of every quantity, one below the other."""
        return np.ascontiguousarray(self.estimator.inputs_of_all(self.rows).T)

    @cached_property
    def _places(self) -> Callable[[str], list[tuple[int, dict[str, int] | None]]]:
        """Where a condition stands among the inputs, with its codes if it is a category."""

        @cache
        def found(name: str) -> list[tuple[int, dict[str, int] | None]]:
            places, start = [], 0
            for schema in self.estimator.schemas:
                if name in schema.names:
                    texts = schema.categories.get(name)
                    codes = None if texts is None else {text: code for code, text in enumerate(texts)}
                    places.append((start + schema.index(name), codes))
                start += len(schema.names)
            return places

        return found

    @cached_property
    def _matching(self) -> Callable[[tuple[str, ...]], Flags]:
        """Whether each row has what never varied while measuring, conditions of these names aside."""

        @cache
        def found(names: tuple[str, ...]) -> Flags:
            constants = {name: value for name, value in self.estimator.constants.items() if name not in names}
            return matches_constants(self.rows.columns, constants, len(self.rows.inputs))

        return found
