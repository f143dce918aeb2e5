"""The roofline: a layer takes as long as its arithmetic or its memory traffic, whichever is slower, plus an overhead.

Each runs at a share of the best rate seen on the device. That share grows with the work and saturates at one:
share = work^g / (work^g + half^g), where the half point depends mildly on the layer's other inputs. Inputs outside the
measured range keep the share of the nearest one inside, so predictions go on growing with the work.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medn.core.errors import UsageError
from medn.core.table import Array, Schema
from medn.regressors.encoding import Encoding
from medn.regressors.form import Form, Parts, register_form

WORK = ("flops", "memory_bytes", "bytes_read", "bytes_written")


@dataclass(frozen=True)
class Columns:
    """Where the inputs of the roofline are; None for those a table may lack."""

    flops: int
    traffic: tuple[int, ...]
    """The columns whose sum is the traffic."""
    utilization: int | None
    device: int | None

    @classmethod
    def find(cls, schema: Schema) -> Columns:
        traffic = next((names for names in (WORK[1:2], WORK[2:]) if set(names) <= set(schema.names)), None)
        if "flops" not in schema.names or traffic is None:
            raise UsageError(
                "a roofline needs the inputs 'flops' and 'memory_bytes' (or 'bytes_read' and 'bytes_written'); "
                f"this table has: {', '.join(schema.names)}"
            )
        return cls(
            flops=schema.index("flops"),
            traffic=tuple(schema.index(name) for name in traffic),
            utilization=schema.index("utilization") if "utilization" in schema.numeric else None,
            device=schema.index("device") if "device" in schema.categories else None,
        )

    def log_work(self, inputs: Array) -> Array:
        """Logarithms of FLOPs and bytes, two columns."""
        work = np.empty((len(inputs), 2))
        work[:, 0] = inputs[:, self.flops]
        work[:, 1] = inputs[:, self.traffic[0]]
        for column in self.traffic[1:]:
            work[:, 1] += inputs[:, column]
        return np.log(np.maximum(work, 1.0, out=work), out=work)

    def busy(self, inputs: Array) -> Array:
        """How much of the device others use, 0 to 1."""
        if self.utilization is None:
            return np.zeros(len(inputs))
        return np.minimum(np.maximum(inputs[:, self.utilization], 0.0), 1.0)

    def devices(self, inputs: Array, known: int) -> NDArray[np.int_]:
        """The device of each row as a place; an unknown one is the place after the known ones."""
        if self.device is None:
            return np.zeros(len(inputs), dtype=int)
        codes = inputs[:, self.device].astype(int)
        return np.where((codes < 0) | (codes >= known), known, codes)


@dataclass(frozen=True, eq=False)
class Seen:
    """What the law sees of some rows."""

    log_work: Array
    held_work: Array
    """The same within the measured range."""
    shaping: Array
    """The encoded inputs within the measured range."""
    device: NDArray[np.int_]
    busy: Array


@dataclass(frozen=True, eq=False)
class Law:
    """The numbers of a roofline. Arithmetic is column 0, traffic column 1 of what has two columns."""

    peak: Array
    """Logarithm of the best rates, one row per device, the last for an unknown one."""
    overhead: Array
    """Logarithm of the seconds that no work can avoid, per device."""
    offset: Array
    growth: Array
    """How fast the share of the peak grows with the work, 0 to 1: never so fast that more work would take less time."""
    weights: Array
    """How the encoded inputs move the share, one row per encoded column."""
    sharpness: float
    """From 1, where arithmetic and traffic add up, to many, where the slower one alone counts."""
    contention: float
    """What part of the device's use by others is felt."""

    def times(self, seen: Seen) -> tuple[Array, Array]:
        """Logarithm of the seconds of arithmetic and traffic, and the log odds of the share of the peak."""
        odds = self.offset + self.growth * seen.held_work + seen.shaping @ self.weights
        return seen.log_work - self.peak[seen.device] + np.logaddexp(0.0, -odds), odds

    def slower(self, times: Array) -> Array:
        """A smooth maximum."""
        return np.logaddexp(self.sharpness * times[:, 0], self.sharpness * times[:, 1]) / self.sharpness

    def log_latency(self, seen: Seen) -> Array:
        alone = np.logaddexp(self.slower(self.times(seen)[0]), self.overhead[seen.device])
        return np.asarray(alone - np.log1p(-self.contention * seen.busy))


@register_form
class Roofline(Form):
    form = "roofline"

    def __init__(self, columns: Columns, encoding: Encoding, bounds: Array, law: Law) -> None:
        self.columns = columns
        self.encoding = encoding
        self.bounds = bounds
        """Lowest and highest of the encoded inputs and of the two logarithms of work, as measured."""
        self.law = law

    def log_latency(self, inputs: Array) -> Array:
        return self.law.log_latency(see(self.columns, self.encoding, self.bounds, len(self.law.peak) - 1, inputs))

    def parts(self) -> Parts:
        numbers = asdict(self.law)
        scalars = {name: numbers.pop(name) for name in ("sharpness", "contention")}
        return Parts(
            self.form,
            {"columns": asdict(self.columns), **scalars, **self.encoding.facts},
            {"bounds": self.bounds, **numbers, **self.encoding.arrays},
        )

    @classmethod
    def from_parts(cls, parts: Parts) -> Roofline:
        facts: dict[str, Any] = {**parts.facts, **parts.arrays}
        columns = Columns(**{**facts["columns"], "traffic": tuple(facts["columns"]["traffic"])})
        law = Law(**{name: facts[name] for name in Law.__dataclass_fields__})
        return cls(columns, Encoding.restore(parts.facts, parts.arrays), facts["bounds"], law)


def see(columns: Columns, encoding: Encoding, bounds: Array, known_devices: int, inputs: Array) -> Seen:
    log_work = columns.log_work(inputs)
    held = np.concatenate([encoding.transform(inputs), log_work], axis=1)
    np.minimum(np.maximum(held, bounds[0], out=held), bounds[1], out=held)
    return Seen(log_work, held[:, -2:], held[:, :-2], columns.devices(inputs, known_devices), columns.busy(inputs))
