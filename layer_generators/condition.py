"""The conditions beside the parameters of a layer, with their limits: for sweeps, imports and queries alike."""

from __future__ import annotations

from medn.core.values import (
    CACHE_STATES,
    ELEMENT_BYTES,
    MAXIMUM_BATCH_SIZE,
    MAXIMUM_THREADS,
    MAXIMUM_UTILIZATION,
)
from medn.layer_generators.kind import Parameter, by_name, choice, integer

CONDITIONS = by_name(
    integer("batch_size", "inputs computed in one call", 1, MAXIMUM_BATCH_SIZE),
    Parameter("utilization", "share of the device that others use", float, low=0.0, high=MAXIMUM_UTILIZATION),
    choice("cache", "whether a layer finds its data in the cache", CACHE_STATES),
    choice("dtype", "data type of data and weights", tuple(ELEMENT_BYTES)),
    integer("threads", "threads that compute the layer", 1, MAXIMUM_THREADS),
)
