"""What one can afford, and what one wants most of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from medn.core.errors import UsageError, unknown
from medn.selection.option import Cost

ROWS = (1, 100, 10_000)
"""Prediction times are measured for queries of so many rows."""


@dataclass(frozen=True)
class Mode:
    """Among the options whose error is near enough to the best, the one with the smallest price."""

    name: str
    about: str
    tolerance: float
    """How much larger than the best an error may be, as a share of it."""
    tied_level: float | None
    """An error is near as well if the confidence interval of this level around the difference holds zero."""
    price: Callable[[Cost], float]


def _two_digits(number: float) -> float:
    """Times closer than measurements repeat count as the same."""
    return float(f"{number:.1e}")


def _time_then_bytes(cost: Cost) -> float:
    return _two_digits(cost.us) + 1e-15 * cost.bytes


def _bytes_then_time(cost: Cost) -> float:
    return _two_digits(cost.bytes) + 1e-9 * cost.us


def _time_and_bytes(cost: Cost) -> float:
    return float(np.log(max(cost.us, 1e-3)) + np.log(max(cost.bytes, 1.0)))


_SAME = 0.01
"""What is nearly the smallest error. An interval around the difference would call much the same, on few layers, that is
not: it costs more error than time."""

_MAYBE_SAME = 0.8

MODES = {
    mode.name: mode
    for mode in (
        Mode("accuracy", "the smallest error; of what is within 1 % of it the faster", _SAME, None, _time_then_bytes),
        Mode("balanced", "near the smallest error, time x bytes small", 0.05, _MAYBE_SAME, _time_and_bytes),
        Mode("fast", "the fastest with up to 1.5 times the best error", 0.5, _MAYBE_SAME, _time_then_bytes),
        Mode("small", "the smallest with up to 1.5 times the best error", 0.5, _MAYBE_SAME, _bytes_then_time),
    )
}


@dataclass(frozen=True)
class Budget:
    """Limits of a whole selection; None is no limit.

    >>> Budget(mode="fats")
    Traceback (most recent call last):
    medn.core.errors.UsageError: no mode named 'fats'. Did you mean 'fast'? Known: accuracy, balanced, fast, small
    """

    mode: str = "accuracy"
    rows: int = 1
    """The size of the queries whose time counts."""
    max_us: float | None = None
    """Microseconds a row, the mean over places by their weights."""
    max_kb: float | None = None
    """Thousands of bytes of all places together."""
    max_load_ms: float | None = None
    """Milliseconds to load all places."""
    weights: Mapping[str, float] = field(default_factory=dict)
    """How often each layer kind is asked, next to the others; 1 where nothing is said."""

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise UsageError(unknown("mode", self.mode, MODES))
        if self.rows not in ROWS:
            raise UsageError(f"times are measured for {', '.join(map(str, ROWS))} rows (got {self.rows})")
        for name in ("max_us", "max_kb", "max_load_ms"):
            limit = getattr(self, name)
            if limit is not None and not limit > 0:
                raise UsageError(f"{name} must be above 0 (got {limit:g})")
        for kind, weight in self.weights.items():
            if not 0 < weight < float("inf"):
                raise UsageError(f"the weight of {kind} must be above 0 (got {weight:g})")

    @property
    def limits(self) -> Cost:
        """Without end where there is none."""
        limits = (self.max_us, None if self.max_kb is None else 1000 * self.max_kb, self.max_load_ms)
        return Cost(*(np.inf if limit is None else limit for limit in limits))

    def as_json(self) -> dict[str, Any]:
        return asdict(self)
