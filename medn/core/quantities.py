"""What is measured and predicted of a layer, each quantity declared once: name, unit, limits, label, how it is learned.

Everything else reads this table: what a visit stores, columns of exported tables, imported columns, what is trained and
shipped, the attributes of a prediction, what `medn predict` prints and what a server answers. A module of one's own
adds one with `FURTHER.declare(Quantity(...))`.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from medn.core.conditions import CONDITIONS
from medn.core.errors import UsageError, unknown
from medn.core.plugins import installed, load_named
from medn.core.statistic import Target, tail_latency_s
from medn.core.text import shown
from medn.core.units import format_bytes, format_latency
from medn.core.values import Measurement

Derive = Callable[[Measurement, Target], float | None]

HOW_MEASURED = (
    *("point_key", "status", "reason", "cpu_s", "split_half_difference", "visits", "calm_visits", "samples"),
    *("disturbed_share", "utilization_measured", "utilization_during", "output_error", "environment_id"),
)
"""What a dataset says of a point beside quantities: what came of measuring it, and how well that went."""

TAKEN = frozenset(
    {
        *("device", "kind", "latency_s", "low_s", "high_s", "level", "in_range", "further", "columns"),
        *("outside", "uncertainty", "should_measure"),
        *("count", "index", *CONDITIONS, *HOW_MEASURED),
    }
)
"""What columns of a dataset and attributes of a prediction are called already."""


@dataclass(frozen=True)
class Quantity:
    """Something that is measured of a layer. It is learned as a logarithm, so what is not above 0 is left out.

    >>> Quantity("temperature_c", "temperature", "how hot the device gets", unit="C").mistake(-300.0)
    'must be a number above 0 (got -300.0)'
    """

    name: str
    """Ends with the unit; names the column, the attribute and the field alike."""
    label: str
    about: str
    unit: str = ""
    type: type = float
    low: float = 0.0
    """What is measured is above this."""
    high: float = math.inf
    format: Callable[[float], str] | None = None
    """For people; three digits and the unit, where nothing else is said."""
    derive: Derive | None = None
    """From all visits to a point, or None where they do not tell. Without it visits hold the quantity under its name,
    and the median counts."""
    counter: Callable[[], float] | None = None
    """A reading that grows while layers run: a worker reads it before and after its timed calls, and a visit holds what
    it grew by, per call. Memory and energy are read by the backend."""
    over_latency: bool = False
    """Learned and shipped as a multiple of the latency, which does not grow with the work as the latency does."""
    at_least: str = "latency_s"
    """What a multiple of the latency is never below."""
    swept: str = ""
    """The column that must have varied while measuring for the quantity to say more than the latency does."""
    adds_up: bool = False
    """Whether the layers of a model add up to what the model has."""
    hard: bool = False
    """Whether families that take longer are worth it where rows are many: what light ones cannot learn well."""
    task: str = ""
    """The task of MEDN that learns it; its own name where nothing is said."""
    reason_column: str = ""
    """Where a dataset says why it was not measured; NAME_reason where nothing is said."""

    def __post_init__(self) -> None:
        if not self.name.isidentifier() or self.name.startswith("_"):
            raise UsageError(f"a quantity is named like a column, as in cache_misses (got {self.name!r})")
        object.__setattr__(self, "task", self.task or self.name)
        object.__setattr__(self, "reason_column", self.reason_column or f"{self.name}_reason")

    @property
    def columns(self) -> tuple[str, ...]:
        """Those of a dataset; what is derived from samples needs no reason why it is not there."""
        return (self.name,) if self.derive else (self.name, self.reason_column)

    def formatted(self, value: float) -> str:
        return self.format(value) if self.format else f"{value:.3g} {self.unit}".rstrip()

    def mistake(self, value: Any) -> str | None:
        """Why a value cannot have been measured; None where it can."""
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if is_number and self.low < value <= self.high and value < math.inf:
            return None
        limit = "" if math.isinf(self.high) else f" and at most {self.high:g}"
        return f"must be a number above {self.low:g}{limit} (got {'nothing' if value is None else shown(value)})"

    def reading(self, value: float) -> float | str:
        """A measured value as a visit holds it; nothing at all is measured too, but what cannot be is told instead.

        >>> Quantity("cache_misses", "misses", "lines not found in the cache").reading(-3.0)
        'it read -3, which is not from 0 to inf'
        """
        if self.low <= value <= self.high and value < math.inf:
            return self.rounded(value)
        return f"it read {value:g}, which is not from {self.low:g} to {self.high:g}"

    def rounded(self, value: float) -> float:
        """As it is kept: bytes and other things that are counted are whole."""
        return round(value) if self.type is int else float(value)

    def of(self, measurement: Measurement, target: Target) -> float | None:
        """What a point has, from its good visits; None where they do not tell."""
        if self.derive:
            return self.derive(measurement, target)
        found = [visit.quantities.get(self.name) for visit in measurement.good_visits]
        known = [value for value in found if isinstance(value, (int, float))]
        return float(statistics.median(known)) if known else None

    def reason(self, measurement: Measurement) -> str:
        """Why the first visit, at which everything is tried, could not tell; empty where it could."""
        found = measurement.visits[0].quantities.get(self.name)
        return found if isinstance(found, str) else ""


class Quantities(dict[str, Quantity]):
    """Quantities by name, in the order in which they were declared."""

    def __init__(self, *quantities: Quantity) -> None:
        super().__init__()
        for quantity in quantities:
            self.declare(quantity)

    def declare(self, quantity: Quantity) -> Quantity:
        taken = {*TAKEN, *(name for each in self.values() for name in (each.name, each.reason_column))}
        for name in (quantity.name, quantity.reason_column):
            if name in taken:
                raise UsageError(f"there is a column {name!r} already; call the quantity something else")
        if quantity.at_least not in ("latency_s", *self):
            raise UsageError(f"{quantity.name}: {unknown('quantity', quantity.at_least, self)}")
        self[quantity.name] = quantity
        return quantity


LATENCY = Quantity(
    "latency_s",
    "latency",
    "seconds that one call takes",
    unit="s",
    format=format_latency,
    derive=lambda measurement, target: target.latency_s(measurement),
    adds_up=True,
)
"""The one that regressors are chosen by, and that everything else is told beside."""


def _tail(share: int, at_least: str) -> Quantity:
    """On an idle device the slow calls are disturbances; under load they are what one has to plan for."""
    return Quantity(
        f"latency_p{share}_s",
        {90: "9 of 10 calls within", 99: "99 of 100 calls within"}[share],
        f"seconds that {share} of 100 calls stay within, where the device was measured under load",
        unit="s",
        format=format_latency,
        derive=lambda measurement, target: tail_latency_s(measurement, share / 100),
        over_latency=True,
        at_least=at_least,
        swept="utilization",
        task="tail",
    )


FURTHER = Quantities(
    Quantity(
        "memory_bytes",
        "memory",
        "the most bytes of memory that it takes to hold and run it: weights, tensors and scratch space",
        unit="B",
        type=int,
        format=format_bytes,
        task="memory",
        reason_column="memory_reason",
    ),
    Quantity(
        "energy_j",
        "energy",
        "joules that one call takes, those of whatever else runs on the device among them",
        unit="J",
        adds_up=True,
        hard=True,
        task="energy",
        reason_column="energy_reason",
    ),
    _tail(90, at_least="latency_s"),
    _tail(99, at_least="latency_p90_s"),
)
"""All but the latency, in the order in which they are told; for who goes over all of them, `all_quantities`."""


FIRST = tuple(FURTHER)
"""Columns of every table that is learned from. Those that were declared later are there only where they were measured,
so that the tables of before keep their keys."""


def all_quantities() -> Quantities:
    """All but the latency, those of plug-ins among them."""
    if not _looked_for:
        load_named()
        installed()
        _looked_for.append(True)
    return FURTHER


_looked_for: list[bool] = []
"""Whether plug-ins were imported: not before anybody asks, as that takes a while."""


def adding_up() -> tuple[str, ...]:
    """What a model has of it is the sum of what its layers have."""
    return tuple(name for name, quantity in FURTHER.items() if quantity.adds_up)


def measured_columns() -> tuple[str, ...]:
    """The columns of a dataset that were measured; all others describe what was asked for."""
    further = [name for each in all_quantities().values() for name in each.columns]
    return (*HOW_MEASURED, LATENCY.name, *further)


def from_learned(latency_s: Any, learned: Mapping[str, Any], larger: Callable[..., Any] = np.maximum) -> dict[str, Any]:
    """The quantities themselves from what forms give, for one row or for columns.

    >>> from_learned(2.0, {"memory_bytes": 64.0, "latency_p90_s": 1.5, "latency_p99_s": 1.25}, larger=max)
    {'memory_bytes': 64.0, 'latency_p90_s': 3.0, 'latency_p99_s': 3.0}
    """
    found = dict(learned)
    for name, quantity in FURTHER.items():
        if quantity.over_latency and name in found:
            found[name] = larger(latency_s * found[name], found.get(quantity.at_least, latency_s))
    return found
