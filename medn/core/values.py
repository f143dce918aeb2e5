"""The values that cross the parts of medn: frozen, hashable, checked where they are made.

Units stand in the names; times are seconds, sizes are bytes. What can be derived is a property, not a field.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from medn.core.errors import UsageError
from medn.core.text import shown

Scalar = int | float | str | bool
Parameters = tuple[tuple[str, Scalar], ...]
Status = Literal["ok", "failed", "unsupported", "timeout", "crashed", "out_of_memory", "wrong"]

CACHE_STATES = ("hot", "cold", "inside")
"""How a layer finds its data: in the cache; in memory; or in the cache and in the backend's own layout, as between the
layers of a model, where nothing has to be converted."""
ELEMENT_BYTES = {"fp32": 4, "bf16": 2, "int8": 1}
"""The data types a layer can be measured in, and the bytes of one element."""

OUTPUT_TOLERANCE = {"fp32": 0.02, "bf16": 0.05, "int8": 0.1}
"""By dtype, how far outputs may be from torch's, relative to the largest output: rounding and faster algorithms stay
well below, a layer that computes something else does not."""

MAXIMUM_UTILIZATION = 0.95
MAXIMUM_BATCH_SIZE = 2**31 - 1
MAXIMUM_THREADS = 65_536


def canonical_json(value: object) -> str:
    """The one text of a value, so that equal values have equal hashes on every machine."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def content_key(value: object) -> str:
    """A short name made from content alone."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()[:20]


def plain(value: Any) -> Any:
    """The same value with nothing in it that JSON lacks: no NaN and no infinity, no NumPy type, no tuple."""
    if isinstance(value, Mapping):
        return {str(name): plain(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    if isinstance(value, np.generic):
        return plain(value.item())
    return None if isinstance(value, float) and not math.isfinite(value) else value


TOLD_DIGITS = 6


def told(value: Any) -> Any:
    """What is there to be read by people: ready for JSON, with as many digits as they read.

    Wherever an error is told it has these digits, so that it is the same everywhere.
    """
    if isinstance(value, Mapping):
        return {str(name): told(part) for name, part in value.items()}
    found = plain(value)
    return float(f"{found:.{TOLD_DIGITS}g}") if isinstance(found, float) else found


def freeze(parameters: Mapping[str, Scalar]) -> Parameters:
    return tuple(sorted(parameters.items()))


@dataclass(frozen=True)
class Layer:
    """A kind and every hyper-parameter with it, the input shape included, the batch size not.

    Layers are made by their kind, which checks them: `layer_kinds["relu"].layer(...)`.
    """

    kind: str
    parameters: Parameters

    @cached_property
    def key(self) -> str:
        return content_key([self.kind, dict(self.parameters)])

    @cached_property
    def values(self) -> dict[str, Scalar]:
        return dict(self.parameters)

    def __str__(self) -> str:
        return f"{self.kind}({', '.join(f'{name}={value}' for name, value in self.parameters)})"


@dataclass(frozen=True)
class Condition:
    """Under which circumstances a layer is measured; `utilization` is the one asked for.

    >>> Condition(batch_size=8, utilization=0.5).batch_size
    8
    """

    batch_size: int = 1
    utilization: float = 0.0
    cache: str = "hot"
    dtype: str = "fp32"
    threads: int = 1
    extra: Parameters = ()

    def __post_init__(self) -> None:
        if not 1 <= self.batch_size <= MAXIMUM_BATCH_SIZE:
            allowed = f"from 1 to {MAXIMUM_BATCH_SIZE}"
            raise UsageError(f"batch_size: must be {allowed} (got {shown(self.batch_size)})")
        if not 0.0 <= self.utilization <= MAXIMUM_UTILIZATION:
            raise UsageError(f"utilization: must be from 0 to {MAXIMUM_UTILIZATION} (got {self.utilization})")
        if self.cache not in CACHE_STATES:
            raise UsageError(f"cache: must be one of {', '.join(CACHE_STATES)} (got {self.cache!r})")
        if self.dtype not in ELEMENT_BYTES:
            raise UsageError(f"dtype: must be one of {', '.join(ELEMENT_BYTES)} (got {self.dtype!r})")
        if not 1 <= self.threads <= MAXIMUM_THREADS:
            raise UsageError(f"threads: must be from 1 to {MAXIMUM_THREADS} (got {shown(self.threads)})")

    @property
    def values(self) -> dict[str, Scalar]:
        """The columns of this condition, the user's own among them."""
        return {
            "batch_size": self.batch_size,
            "utilization": self.utilization,
            "cache": self.cache,
            "dtype": self.dtype,
            "threads": self.threads,
            **dict(self.extra),
        }

    @classmethod
    def from_values(cls, values: Mapping[str, Scalar]) -> Condition:
        own = {name: values[name] for name in CONDITION_COLUMNS if name in values}
        extra = {name: value for name, value in values.items() if name not in CONDITION_COLUMNS}
        return cls(**own, extra=freeze(extra))  # type: ignore[arg-type]


CONDITION_COLUMNS = ("batch_size", "utilization", "cache", "dtype", "threads")


@dataclass(frozen=True)
class Point:
    """What is to be measured: a layer under a condition on a device."""

    layer: Layer
    condition: Condition
    device: str

    @cached_property
    def key(self) -> str:
        return content_key([self.layer.kind, self.layer.values, self.condition.values, self.device])

    def __str__(self) -> str:
        return f"{self.layer} at {self.condition.values} on {self.device}"


@dataclass(frozen=True, eq=False)
class Samples:
    """The raw timings of one visit, per call of the layer: nothing is dropped here, only marked."""

    wall_s: NDArray[np.float64]
    cpu_s: NDArray[np.float64]
    preempted: NDArray[np.bool_]
    calls_per_sample: int = 1

    def __post_init__(self) -> None:
        if not len(self.wall_s) == len(self.cpu_s) == len(self.preempted):
            raise ValueError("wall_s, cpu_s and preempted must have one entry per sample")

    def __len__(self) -> int:
        return len(self.wall_s)

    @property
    def total_s(self) -> float:
        """Wall time of all calls of all samples together."""
        return float(self.wall_s.sum()) * self.calls_per_sample

    @cached_property
    def ordered(self) -> NDArray[np.float64]:
        """All wall times, shortest first."""
        return np.sort(self.wall_s)

    @cached_property
    def ordered_undisturbed(self) -> NDArray[np.float64]:
        """Wall times of the samples nobody interrupted, shortest first; all where every one was interrupted."""
        kept = self.wall_s[~self.preempted]
        return np.sort(kept) if len(kept) else self.ordered


NO_SAMPLES = Samples(np.empty(0), np.empty(0), np.empty(0, dtype=np.bool_))


@dataclass(frozen=True, eq=False)
class Visit:
    """One short visit to a point: raw samples and all that was seen around them, or the reason there are none."""

    point_key: str
    pass_number: int
    environment_id: str
    started_at: float
    status: Status
    reason: str = ""
    samples: Samples = NO_SAMPLES
    utilization_measured: float | None = None
    """Share of the device that others held just before the timing began."""
    utilization_during: float | None = None
    """Share that others got while the layer competed with them."""
    reference_s: float | None = None
    """A fixed small kernel, timed beside the layer: it drifts when the machine does."""
    memory_bytes: int | None = None
    memory_reason: str = ""
    energy_j: float | None = None
    """Energy of one call."""
    energy_reason: str = ""
    output_error: float | None = None
    """Largest difference to torch's output, relative to the largest output; None where torch itself was timed."""
    probes: Mapping[str, float | None] = field(default_factory=dict)
    elapsed_s: float = 0.0
    """Wall time the whole visit took, building and warming up included."""


def wrong_output(dtype: str, output_error: float | None) -> str:
    """Why an output is not the layer's; empty where it is, or where nothing was compared.

    >>> wrong_output("fp32", 0.5)
    "the output differs from torch's by more than 2 % of its largest value"
    """
    tolerance = OUTPUT_TOLERANCE[dtype]
    if output_error is None or output_error <= tolerance:
        return ""
    return f"the output differs from torch's by more than {tolerance * 100:g} % of its largest value"


@dataclass(frozen=True, eq=False)
class Measurement:
    """All visits to one point."""

    point: Point
    visits: tuple[Visit, ...]

    @cached_property
    def output_error(self) -> float | None:
        """The largest that any visit saw; None where outputs were not compared."""
        return max((visit.output_error for visit in self.visits if visit.output_error is not None), default=None)

    @cached_property
    def good_visits(self) -> tuple[Visit, ...]:
        """None for a layer whose output is wrong: it was timed well, but something else was timed."""
        return () if self._wrong else tuple(visit for visit in self.visits if visit.status == "ok")

    @property
    def status(self) -> Status:
        """Good as soon as one visit was; otherwise what the last one said."""
        if self.good_visits or not self.visits:
            return "ok" if self.visits else "failed"
        return "wrong" if self._wrong else self.visits[-1].status

    @property
    def reason(self) -> str:
        return "" if self.status == "ok" or not self.visits else self._wrong or self.visits[-1].reason

    @cached_property
    def _wrong(self) -> str:
        return wrong_output(self.point.condition.dtype, self.output_error)
