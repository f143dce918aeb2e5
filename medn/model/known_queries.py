"""The queries of a model that a predictor answers, kind after kind.

Each kind answers for itself, what is done with the answers is done for all kinds at once: a model is asked for again
and again, and arrays of a few layers take as long as those of all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from medn.core.outside import Outside
from medn.core.quantities import adding_up
from medn.core.ranges import Flags
from medn.core.table import Array
from medn.core.values import Scalar
from medn.estimator.estimator import Estimator
from medn.model.conditioned_rows import IN_RANGE, ConditionedRows
from medn.model.unmeasured_conditions import batch_factors, only_shares

if TYPE_CHECKING:
    from medn.model.composition import Composition

CONVERTING, COOLING = ("inside", "hot"), ("hot", "cold")
"""States of the cache of which the second adds to the first what converting layouts, or fetching from memory, takes."""

LATENCY, LOW, HIGH, FURTHER = 0, 1, 2, IN_RANGE + 1
"""Which rows of numbers are what."""


@dataclass(frozen=True, eq=False)
class KindQueries:
    """The queries for layers of one kind."""

    rows: ConditionedRows
    floor_s: Array
    """What reading from memory takes at least, where a layer reads more than the caches hold."""

    def __len__(self) -> int:
        return len(self.floor_s)

    @property
    def estimator(self) -> Estimator:
        return self.rows.estimator

    @cached_property
    def states(self) -> frozenset[str]:
        """The states of the cache that were measured, if several were."""
        return frozenset(self.estimator.range.schema.categories.get("cache", ()))

    @cached_property
    def alone(self) -> str:
        """The state in which a layer takes least."""
        return "inside" if "inside" in self.states else "hot"

    def numbers(self, conditions: Mapping[str, Scalar], state: str | None, further: Sequence[str]) -> Array:
        """With the cache in a state, or as it is for a layer alone; NaN for quantities that are not known."""
        if self.states:
            conditions = {**conditions, "cache": state if state in self.states else self.alone}
        found = self.rows.numbers(conditions)
        if len(found) == FURTHER + len(further):
            return found
        filled = np.full((FURTHER + len(further), len(self)), np.nan)
        filled[[*range(FURTHER), *(FURTHER + further.index(name) for name in self.rows.further)]] = found
        return filled


class KnownQueries:
    """All of them."""

    def __init__(self, kinds: Sequence[KindQueries]) -> None:
        self.kinds = tuple(kinds)
        self.further = tuple(name for name in adding_up() if any(name in kind.rows.further for kind in kinds))
        self.levels = self._of_all([np.full(len(kind), kind.estimator.level) for kind in kinds])
        """What the interval of each query promises."""
        self._floor_s = self._of_all([kind.floor_s for kind in kinds])
        sides = [(kind.rows.rows, kind.estimator.constants) for kind in kinds]
        self._batch_factors = self._of_all([batch_factors(*side) for side in sides])
        self._shares = self._of_all([only_shares(*side) for side in sides])
        self._adds = {pair: self._of_all([_flags(kind, pair) for kind in kinds]) for pair in (CONVERTING, COOLING)}

    def __len__(self) -> int:
        return len(self.levels)

    @property
    def level(self) -> float:
        """The lowest of the intervals' levels."""
        return float(self.levels.min(initial=np.inf)) if len(self) else 0.0

    def estimate(
        self, conditions: Mapping[str, Scalar], composition: Composition, cold_share: float
    ) -> tuple[Array, Flags]:
        """Among other layers: what they take alone, and what the composition and a share of a cold cache add to it.

        Rows of numbers as those of `ConditionedRows`, and which layers take as long as reading memory does, as the
        predictor gives them less.
        """
        found = self._numbers(conditions, None)
        own_s = found[LATENCY]
        alone_s = np.maximum(own_s, self._floor_s)
        latency_s = composition.stretch * alone_s
        for share, pair in ((composition.conversion_share, CONVERTING), (cold_share, COOLING)):
            adds = self._adds[pair]
            if share and adds.any():
                less_s, more_s = (np.maximum(self._numbers(conditions, s)[LATENCY], self._floor_s) for s in pair)
                latency_s = latency_s + share * np.where(adds, np.maximum(more_s - less_s, 0.0), 0.0)
        found[FURTHER:] *= latency_s / alone_s
        longer = latency_s / own_s
        found[LOW] *= longer / self._batch_factors
        found[HIGH] *= longer * self._batch_factors
        streams = own_s < self._floor_s
        found[LATENCY] = latency_s
        self._widen(found, float(conditions["utilization"]))
        return found, streams

    def _widen(self, found: Array, utilization: float) -> None:
        """Where the device was always used as much, others may hold more of it, or less."""
        times = self._shares / (1 - utilization)
        found[LOW] *= np.fmin(times, 1.0)
        found[HIGH] *= np.fmax(times, 1.0)

    def _numbers(self, conditions: Mapping[str, Scalar], state: str | None) -> Array:
        """Of all queries, in an array of its own."""
        if not self.kinds:
            return np.empty((FURTHER, 0))
        return np.concatenate([kind.numbers(conditions, state, self.further) for kind in self.kinds], axis=1)

    @staticmethod
    def _of_all(parts: Sequence[Array]) -> Array:
        return np.concatenate(parts) if parts else np.empty(0)

    def outside(self, query: int, conditions: Mapping[str, Scalar]) -> list[Outside]:
        """What of a query lies outside what was measured; nothing of one that is not predicted."""
        for kind in self.kinds:
            if query < len(kind):
                return kind.estimator.outside(kind.estimator.under(kind.rows.rows, conditions), query)
            query -= len(kind)
        return []


def _flags(kind: KindQueries, pair: tuple[str, str]) -> Array:
    """Whether both states of the cache were measured of a kind, for each of its queries."""
    return np.full(len(kind), float(kind.states.issuperset(pair)))
