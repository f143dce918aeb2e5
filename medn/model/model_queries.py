"""The queries that a captured model makes of a predictor at one batch size, each distinct layer once."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
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
from medn.model.conditioned_rows import ConditionedRows
from medn.model.known_queries import KindQueries, KnownQueries
from medn.model.schedule import batch_factors, peak_activation_bytes, peak_graph_bytes

if TYPE_CHECKING:
    from medn.estimator.layer_predictor import LayerPredictor


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
class ModelQueries:
    """All queries that a model makes."""

    known: KnownQueries
    works: Array
    """Moved bytes and FLOPs of the operators that are not predicted, which come behind those that are."""
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
        return self.known.outside(int(self.query_of_layer[layer]), conditions)

    @cached_property
    def is_known(self) -> Flags:
        """Which queries are predicted."""
        return np.arange(len(self.counts)) < len(self.known)

    @cached_property
    def known_layers(self) -> Flags:
        return np.asarray(self.is_known[self.query_of_layer])

    @cached_property
    def layer_levels(self) -> Array:
        """What the interval of each layer promises; that of a layer that is not predicted nothing."""
        return np.concatenate([self.known.levels, np.zeros(len(self.works))])[self.query_of_layer]


def model_queries(predictor: LayerPredictor, model: CapturedModel, batch_size: int) -> ModelQueries:
    asked = [
        _query(layer, factor, predictor)
        for layer, factor in zip(model.layers, batch_factors(model, batch_size).tolist(), strict=True)
    ]
    by_kind: dict[str, dict[LayerQuery, None]] = {}
    works: dict[OperatorWork, None] = {}
    for query in asked:
        if isinstance(query, OperatorWork):
            works[query] = None
        else:
            by_kind.setdefault(query.layer.kind, {})[query] = None
    numbers = {query: number for number, query in enumerate([*itertools.chain(*by_kind.values()), *works])}
    query_of_layer = [numbers[query] for query in asked]
    repeats = np.array([layer.repeats for layer in model.layers], dtype=np.float64)
    threads = max(int(entry.usual.get("threads", 1)) for entry in predictor.bundle.on(predictor.device))
    return ModelQueries(
        known=KnownQueries([_kind_queries(predictor, kind, list(queries)) for kind, queries in by_kind.items()]),
        works=np.array(list(works), dtype=np.float64).reshape(-1, 2),
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


def _kind_queries(predictor: LayerPredictor, kind: str, queries: Sequence[LayerQuery]) -> KindQueries:
    estimator = predictor.estimator(kind)
    rows = [
        {**estimator.kind.complete(query.layer.values), "batch_size": query.batch_size, "dtype": query.dtype}
        for query in queries
    ]
    columns = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    prepared = estimator.prepare(columns, len(rows))
    bundle = predictor.bundle
    from_memory = np.asarray(prepared.columns["bytes_read"]) - largest_cache_bytes(bundle.environments)
    floor_s = np.maximum(from_memory, 0.0) / bundle.streaming.get(predictor.device, math.inf)
    return KindQueries(ConditionedRows(estimator, prepared, adding_up()), np.broadcast_to(floor_s, len(rows)))
