"""What is predicted, for one layer and for many.

Every quantity that is declared can be read as an attribute by its name, such as `memory_bytes`: None where it was not
measured.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from medn.core.errors import did_you_mean
from medn.core.quantities import FURTHER
from medn.core.ranges import Flags
from medn.core.table import Array


class _Latency(NamedTuple):
    latency_s: float
    low_s: float
    high_s: float
    """The latency lies between these two for a share `level` of layers like those that were measured."""
    level: float
    in_range: bool
    """Whether layers like this one were measured. If not, the latency is an extrapolation."""
    further: Mapping[str, float] = {}
    """Everything else that is predicted of it, by name."""


class Prediction(_Latency):
    """What one layer costs.

    >>> Prediction(2e-3, 1e-3, 3e-3, 0.9, True, {"memory_bytes": 4096.0}).memory_bytes
    4096.0
    """

    __slots__ = ()

    def __getattr__(self, name: str) -> float | None:
        if name in self.further:
            return self.further[name]
        check_declared(self, name)
        return None

    def __dir__(self) -> Iterable[str]:
        return [*super().__dir__(), *FURTHER]

    def __hash__(self) -> int:
        return hash(self[:-1])

    def _asdict(self) -> dict[str, Any]:
        """All fields and quantities side by side."""
        return {**dict(zip(self._fields[:-1], self, strict=False)), **with_gaps(self.further)}


@dataclass(frozen=True, eq=False)
class Predictions:
    """What many layers cost: arrays with one entry per row."""

    latency_s: Array
    low_s: Array
    high_s: Array
    level: Array
    in_range: Flags
    further: Mapping[str, Array] = field(default_factory=dict)
    """By quantity, NaN for the kinds of which it was not measured; only those that were measured of some kind."""

    @classmethod
    def empty(cls, rows: int, further: Iterable[str]) -> Predictions:
        """Arrays to be filled."""
        return cls(
            latency_s=np.empty(rows),
            low_s=np.empty(rows),
            high_s=np.empty(rows),
            level=np.empty(rows),
            in_range=np.empty(rows, dtype=np.bool_),
            further={name: np.full(rows, np.nan) for name in further},
        )

    def __len__(self) -> int:
        return len(self.latency_s)

    def __getattr__(self, name: str) -> Array | None:
        if name == "further":  # an object that is not filled yet, as while it is copied
            raise AttributeError(name)
        if name in self.further:
            return self.further[name]
        check_declared(self, name)
        return None

    def __dir__(self) -> Iterable[str]:
        return [*super().__dir__(), *FURTHER]

    def __getitem__(self, row: int) -> Prediction:
        further = {name: column[row].item() for name, column in self.further.items()}
        return Prediction._make((*(column[row].item() for column in self._latency.values()), further))

    def __iter__(self) -> Iterator[Prediction]:
        return (self[row] for row in range(len(self)))

    @property
    def columns(self) -> dict[str, NDArray[Any] | None]:
        """All arrays side by side; None for a quantity that was measured of no kind."""
        return {**self._latency, **with_gaps(self.further)}

    @property
    def _latency(self) -> dict[str, NDArray[Any]]:
        return {name: getattr(self, name) for name in _Latency._fields[:-1]}


def with_gaps(further: Mapping[str, Any]) -> dict[str, Any]:
    """Every quantity that is declared, with None for those that are not predicted."""
    return {name: further.get(name) for name in FURTHER}


def check_declared(owner: object, name: str) -> None:
    """What is no quantity is no attribute."""
    if name in FURTHER:
        return
    near = "" if name.startswith("_") else did_you_mean(name, [each for each in dir(owner) if each[0] != "_"])
    raise AttributeError(f"{type(owner).__name__!r} object has no attribute {name!r}.{near}")
