"""The queries that a captured model makes of a predictor at one batch size, each distinct layer once."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from medn.capture.captured_model import CapturedLayer, CapturedModel
from medn.core.environment import largest_cache_bytes
from medn.core.outside import Outside
from medn.core.quantities import adding_up
from medn.core.ranges import Flags
from medn.core.table import Array
from medn.core.values import Layer, Scalar
from medn.estimator.estimator import Estimates, Estimator
from medn.model.conditioned_rows import ConditionedRows
from medn.model.schedule import batch_factors, peak_activation_bytes, peak_graph_bytes
from medn.model.unmeasured_conditions import widened

if TYPE_CHECKING:
    from medn.estimator.layer_predictor import LayerPredictor
    from medn.model.composition import Composition


CONVERTING, COOLING = ("inside", "hot"), ("hot", "cold")
"""States of the cache of which the second adds to the first what converting layouts, or fetching from memory, takes."""

COMMON_DTYPES = ("fp32", "bf16", "int8")
"""Layers are asked for in these, out of range at worst; in any other data type only where it was measured."""


class LayerQuery(NamedTuple):
    """A layer that the predictor knows."""

    layer: Layer
    batch_size: int
    dtype: str


class OperatorWork(NamedTuple):
    """What any other operator has to do."""

    moved_bytes: float
    flops: float


@dataclass(frozen=True, eq=False)
class KindQueries:
    """The queries for layers of one kind."""

    rows: ConditionedRows
    indices: NDArray[np.int_]
    """Where they stand among all queries."""
    floor_s: Array
    """What reading from memory takes at least, where a layer reads more than the caches hold."""

    @property
    def estimator(self) -> Estimator:
        return self.rows.estimator

    @property
    def states(self) -> tuple[str, ...]:
        """The states of the cache that were measured, if several were."""
        return tuple(self.estimator.range.schema.categories.get("cache", ()))

    @property
    def alone(self) -> str:
        """The state in which a layer takes least."""
        return "inside" if "inside" in self.states else "hot"

    def estimate(self, conditions: Mapping[str, Scalar], composition: Composition, cold_share: float) -> Estimates:
        """Among other layers: what they take alone, and what the composition and a share of a cold cache add to it."""
        alone = self._at_least_from_memory(self.alone, conditions)
        latency_s = composition.stretch * alone.latency_s
        for share, (low, high) in ((composition.conversion_share, CONVERTING), (cold_share, COOLING)):
            if share and {low, high} <= set(self.states):
                less, more = (self._at_least_from_memory(state, conditions).latency_s for state in (low, high))
                latency_s = latency_s + share * np.maximum(more - less, 0)
        longer = latency_s / alone.latency_s
        further = {name: values * longer for name, values in alone.further.items()}
        estimates = Estimates(latency_s, alone.low_s * longer, alone.high_s * longer, alone.in_range, further)
        return widened(estimates, {**self.rows.rows.columns, **conditions}, self.estimator.constants)

    def streams(self, conditions: Mapping[str, Scalar]) -> Flags:
        """Which layers take as long as reading memory does, as the predictor gives them less."""
        return np.asarray(self._estimates(self.alone, conditions).latency_s < self.floor_s)

    def _at_least_from_memory(self, state: str, conditions: Mapping[str, Scalar]) -> Estimates:
        """With the cache in a state, and never faster than memory."""
        estimates = self._estimates(state, conditions)
        longer = np.maximum(self.floor_s / estimates.latency_s, 1.0)
        return estimates._replace(
            latency_s=estimates.latency_s * longer, low_s=estimates.low_s * longer, high_s=estimates.high_s * longer
        )

    def _estimates(self, state: str, conditions: Mapping[str, Scalar]) -> Estimates:
        return self.rows.under({**conditions, "cache": state} if self.states else conditions)


@dataclass(frozen=True, eq=False)
class ModelQueries:
    """All queries that a model makes."""

    kinds: tuple[KindQueries, ...]
    works: Array
    """Moved bytes and FLOPs of the operators that are not predicted."""
    work_indices: NDArray[np.int_]
    """Where they stand among all queries."""
    query_of_layer: NDArray[np.int_]
    """The query of each layer of the model."""
    repeats: Array
    """How often each layer of the model runs."""
    counts: Array
    """How often each query is made, by all layers in all their runs."""
    peak_bytes: float
    """What tensors beside the weights hold at most."""
    graph_bytes: float
    """The same by the graph alone, which is what compositions were fitted to."""

    def outside(self, layer: int, conditions: Mapping[str, Scalar]) -> list[Outside]:
        """What of a layer lies outside what was measured; nothing of one that is not predicted."""
        query = self.query_of_layer[layer]
        for kind in self.kinds:
            for row in np.flatnonzero(kind.indices == query).tolist():
                return kind.estimator.outside(kind.estimator.under(kind.rows.rows, conditions), row)
        return []

    @property
    def level(self) -> float:
        """The lowest of the intervals' levels."""
        return min((queries.estimator.level for queries in self.kinds), default=0.0)


def model_queries(predictor: LayerPredictor, model: CapturedModel, batch_size: int) -> ModelQueries:
    numbers: dict[LayerQuery | OperatorWork, int] = {}
    query_of_layer = [
        numbers.setdefault(_query(layer, factor, predictor), len(numbers))
        for layer, factor in zip(model.layers, batch_factors(model, batch_size).tolist(), strict=True)
    ]
    repeats = np.array([layer.repeats for layer in model.layers], dtype=np.float64)
    by_kind: dict[str, list[tuple[int, LayerQuery]]] = {}
    works: list[tuple[int, OperatorWork]] = []
    for query, index in numbers.items():
        if isinstance(query, OperatorWork):
            works.append((index, query))
        else:
            by_kind.setdefault(query.layer.kind, []).append((index, query))
    threads = max(int(entry.usual.get("threads", 1)) for entry in predictor.bundle.on(predictor.device))
    return ModelQueries(
        kinds=tuple(_kind_queries(predictor, kind, queries) for kind, queries in by_kind.items()),
        works=np.array([work for _, work in works], dtype=np.float64).reshape(-1, 2),
        work_indices=np.array([index for index, _ in works], dtype=np.int_),
        query_of_layer=np.array(query_of_layer, dtype=np.int_),
        repeats=repeats,
        counts=np.bincount(query_of_layer, weights=repeats, minlength=len(numbers)).astype(np.float64),
        peak_bytes=peak_activation_bytes(model, batch_size, predictor.bundle.backend(predictor.device), threads),
        graph_bytes=peak_graph_bytes(model, batch_size),
    )


def _query(captured: CapturedLayer, factor: float, predictor: LayerPredictor) -> LayerQuery | OperatorWork:
    layer = captured.layer
    if layer is not None and _knows(predictor, layer, captured.dtype):
        return LayerQuery(layer, round(captured.batch_size * factor), captured.dtype)
    # Parameters are read once, however large the batch is.
    fixed = min(captured.parameter_bytes, captured.moved_bytes)
    return OperatorWork(fixed + (captured.moved_bytes - fixed) * factor, captured.flops * factor)


def _knows(predictor: LayerPredictor, layer: Layer, dtype: str) -> bool:
    """Whether a layer can be asked for. What was learned before its kind had a parameter knows nothing of it."""
    if layer.kind not in predictor.kinds:
        return False
    estimator = predictor.estimator(layer.kind)
    measured = (*estimator.range.schema.categories.get("dtype", ()), estimator.constants.get("dtype"))
    return layer.values.keys() <= estimator.query.parameters.keys() and dtype in (*COMMON_DTYPES, *measured)


def _kind_queries(predictor: LayerPredictor, kind: str, queries: Sequence[tuple[int, LayerQuery]]) -> KindQueries:
    estimator = predictor.estimator(kind)
    rows = [
        {**estimator.kind.complete(query.layer.values), "batch_size": query.batch_size, "dtype": query.dtype}
        for _, query in queries
    ]
    columns = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    prepared = estimator.prepare(columns, len(rows))
    bundle = predictor.bundle
    from_memory = np.asarray(prepared.columns["bytes_read"]) - largest_cache_bytes(bundle.environments)
    floor_s = np.maximum(from_memory, 0.0) / bundle.streaming.get(predictor.device, math.inf)
    indices = np.array([index for index, _ in queries])
    return KindQueries(ConditionedRows(estimator, prepared, adding_up()), indices, floor_s)
