"""The conditions that layers are measured under, each declared once.

Condition values, sweep configs, imports, queries, schemas and listings read this table: a new condition is one more
declaration here. A user's own conditions are not in it; they are declared by the data that has them.
"""

from __future__ import annotations

from collections.abc import Iterable

from medn.core.dtypes import ELEMENT_BYTES, FURTHER, SPELLINGS
from medn.core.parameters import Parameter, by_name, choice, integer, number

CACHE_STATES = ("hot", "cold", "inside")
"""How a layer finds its data: in the cache; in memory; or in the cache and in the backend's own layout, as between the
layers of a model, where nothing has to be converted."""

CONDITIONS: dict[str, Parameter] = by_name(
    integer("batch_size", "inputs computed in one call", 1, 2**31 - 1, default=1),
    number("utilization", "share of the device that others use", 0.0, 0.95, default=0.0),
    choice("cache", "whether a layer finds its data in the cache", CACHE_STATES, default="hot"),
    Parameter(
        "dtype",
        "data type of data and weights",
        str,
        choices=tuple(ELEMENT_BYTES),
        default="fp32",
        further=FURTHER,
        spellings=SPELLINGS,
    ),
    integer("threads", "threads that compute the layer", 1, 65_536, default=1),
    integer("schedule", "which drawn schedule its tensor program has; 0 for none", 0, 2**31 - 1, default=0),
)

ALWAYS_SAID = ("batch_size", "utilization", "cache", "dtype", "threads")
"""The conditions of the first runs, which stand in the key of every point. A later one stands there only where it is
not its default, so that the points of before keep their keys."""


def is_said(name: str, value: object) -> bool:
    """Whether a condition stands in the key of a point: a user's own always does."""
    return name in ALWAYS_SAID or name not in CONDITIONS or value != CONDITIONS[name].default


def with_dtypes(stated: Iterable[str]) -> dict[str, Parameter]:
    """The table where further data types are stated."""
    return {**CONDITIONS, "dtype": CONDITIONS["dtype"].with_choices(stated)}
