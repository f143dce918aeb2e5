"""The values that cross the parts of medn: frozen, hashable, checked where they are made.

Units stand in the names; times are seconds, sizes are bytes. What can be derived is a property, not a field.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from medn.core.conditions import CONDITIONS, is_said
from medn.core.dtypes import output_tolerance
from medn.core.errors import UsageError
from medn.core.parameters import Parameter
from medn.core.text import shown

Scalar = int | float | str | bool
Parameters = tuple[tuple[str, Scalar], ...]
Status = Literal["ok", "failed", "unsupported", "timeout", "crashed", "out_of_memory", "wrong", "lost"]
"""Lost is what the link to the device is to blame for: nothing is known of the layer, and the visit is still due."""


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


@dataclass(frozen=True, init=False)
class Condition:
    """Under which circumstances a layer is measured: every condition of the table, and the user's own by any name.

    Strings that may be stated somewhere, such as further data types, are checked where they are given.

    >>> Condition(batch_size=8, power_mode="low").values["power_mode"]
    'low'
    """

    parameters: Parameters
    """In the order of the table, the user's own after them."""

    def __init__(self, /, **given: Scalar) -> None:
        values = {name: _condition_value(declared, given.get(name)) for name, declared in CONDITIONS.items()}
        own = freeze({name: _own_value(name, value) for name, value in given.items() if name not in values})
        object.__setattr__(self, "parameters", (*values.items(), *own))

    @cached_property
    def values(self) -> dict[str, Scalar]:
        """The columns of this condition, the user's own among them."""
        return dict(self.parameters)

    @property
    def own(self) -> dict[str, Scalar]:
        """The user's own conditions."""
        return {name: value for name, value in self.parameters if name not in CONDITIONS}

    @cached_property
    def said(self) -> dict[str, Scalar]:
        """What stands in the key of a point, and in the journal: all but the defaults of later conditions."""
        return {name: value for name, value in self.parameters if is_said(name, value)}

    @property
    def batch_size(self) -> int:
        return int(self.values["batch_size"])

    @property
    def utilization(self) -> float:
        """The one asked for."""
        return float(self.values["utilization"])

    @property
    def cache(self) -> str:
        return str(self.values["cache"])

    @property
    def dtype(self) -> str:
        return str(self.values["dtype"])

    @property
    def threads(self) -> int:
        return int(self.values["threads"])

    @property
    def schedule(self) -> int:
        return int(self.values["schedule"])


def _condition_value(declared: Parameter, given: Scalar | None) -> Scalar:
    value: Scalar = declared.fitted(declared.default if given is None else given)
    mistake = None if declared.further and isinstance(value, str) else declared.mistake(value)
    if mistake:
        raise UsageError(f"{declared.name}: {mistake}")
    return float(value) if declared.type is float else value


def _own_value(name: str, value: Scalar) -> Scalar:
    if not isinstance(value, (bool, int, float, str)) or (isinstance(value, float) and not math.isfinite(value)):
        raise UsageError(f"{name}: must be a finite number, a string, or true or false (got {shown(value)})")
    return value


@dataclass(frozen=True)
class Point:
    """What is to be measured: a layer under a condition on a device."""

    layer: Layer
    condition: Condition
    device: str

    @cached_property
    def key(self) -> str:
        return content_key([self.layer.kind, self.layer.values, self.condition.said, self.device])

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

    @cached_property
    def all_preempted(self) -> bool:
        return len(self) > 0 and bool(self.preempted.all())

    @cached_property
    def ordered_processor(self) -> NDArray[np.float64]:
        """Processor times, shortest first; never more than the wall time, which stands in where none was counted."""
        return np.sort(np.where(self.cpu_s > 0, np.fmin(self.cpu_s, self.wall_s), self.wall_s))

    def shortest_s(self, by_processor_time: bool) -> float:
        """The shortest sample; by processor time, if that tells, where every one was interrupted."""
        return float((self.ordered_processor if by_processor_time and self.all_preempted else self.ordered)[0])


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
    reference_runs: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """Seconds of fixed kernels by name, timed between the samples; empty where they would tell nothing of the layer."""
    calm: bool | None = None
    """Whether nothing else slowed the visit (`medn.core.calm`), as far as is known; follows from the whole run."""
    by_processor_time: bool = False
    """Whether its processor times count (`medn.core.preempted`): it was pre-empted throughout; follows from the run."""
    quantities: Mapping[str, float | str] = field(default_factory=dict)
    """What was measured beside the time, by names of `medn.core.quantities`; a string says why there is no number."""
    output_error: float | None = None
    """Largest difference to torch's output, relative to the largest output; None where torch itself was timed."""
    probes: Mapping[str, float | None] = field(default_factory=dict)
    state: Mapping[str, float] = field(default_factory=dict)
    """Clocks, temperature and throttling of the machine just before, and how long it rested for heat, where known."""
    program: Mapping[str, Any] = field(default_factory=dict)
    """The tensor program that ran, at the first visit to one; journals keep it apart (`Store.programs`)."""
    elapsed_s: float = 0.0
    """Wall time the whole visit took, building and warming up included."""


def wrong_output(dtype: str, output_error: float | None) -> str:
    """Why an output is not the layer's; empty where it is, or where nothing was compared.

    >>> wrong_output("fp32", 0.5)
    "the output differs from torch's by more than 2 % of its largest value"
    """
    tolerance = output_tolerance(dtype)
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
