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

from medn.core.checking import LARGEST_LOG, check_array, check_numbers, check_whole
from medn.core.errors import UsageError
from medn.core.table import Array, Schema
from medn.program.formulas import looked_up, rows_of
from medn.regressors.encoding import Encoding
from medn.regressors.form import Form, Parts, forms

MOST_CONTENTION = 1.0 - 1e-9
"""With more, a device that others use in full would never answer."""

WORK = ("flops", "moved_bytes", "bytes_read", "bytes_written")


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
        """What a table does not state of the two, arithmetic and traffic, is taken to grow with the other."""
        stated = [names for names in (WORK[:1], WORK[1:2], WORK[2:]) if set(names) <= set(schema.names)]
        if not stated:
            raise UsageError(
                "a roofline needs the inputs 'flops' or 'moved_bytes' (or 'bytes_read' and 'bytes_written'); "
                f"this table has: {', '.join(schema.names)}"
            )
        traffic = next((names for names in stated if names != WORK[:1]), WORK[:1])
        return cls(
            flops=schema.index(stated[0][0]),
            traffic=tuple(schema.index(name) for name in traffic),
            utilization=schema.index("utilization") if "utilization" in schema.numeric else None,
            device=schema.index("device") if "device" in schema.categories else None,
        )

    def check(self, width: int) -> None:
        if not self.traffic:
            raise ValueError("the columns of a roofline lack the traffic")
        optional = [place for place in (self.utilization, self.device) if place is not None]
        for place in (self.flops, *self.traffic, *optional):
            check_whole("the columns of a roofline", place, 0, width - 1)

    def log_work(self, inputs: Array) -> Array:
        """Logarithms of FLOPs and bytes, two columns."""
        traffic = sum((inputs[:, column] for column in self.traffic[1:]), inputs[:, self.traffic[0]])
        work = np.concatenate((inputs[:, self.flops][:, None], traffic[:, None]), axis=1)
        return np.log(np.maximum(work, 1.0))

    def busy(self, inputs: Array) -> Array:
        """How much of the device others use, 0 to 1."""
        if self.utilization is None:
            none: Array = rows_of(inputs, 0.0)
            return none
        return np.minimum(np.maximum(inputs[:, self.utilization], 0.0), 1.0)

    def devices(self, inputs: Array) -> Array:
        """The device of each row as its place in tables, whose last row stands for all that are unknown."""
        found: Array = rows_of(inputs, 0.0) if self.device is None else inputs[:, self.device]
        return found


@dataclass(frozen=True, eq=False)
class Seen:
    """What the law sees of some rows."""

    log_work: Array
    held_work: Array
    """The same within the measured range."""
    shaping: Array
    """The encoded inputs within the measured range."""
    device: NDArray[Any]
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

    def check(self, encoded: int) -> None:
        devices = len(self.overhead)
        if not devices:
            raise ValueError("a roofline needs a device")
        check_array("the peaks of a roofline", self.peak, (devices, 2), "f", -LARGEST_LOG, LARGEST_LOG)
        check_array("the overheads of a roofline", self.overhead, (devices,), "f", -LARGEST_LOG, LARGEST_LOG)
        check_array("the offsets of a roofline", self.offset, (2,))
        check_array("the growths of a roofline", self.growth, (2,))
        check_array("the weights of a roofline", self.weights, (encoded, 2))
        check_numbers("the sharpness of a roofline", [self.sharpness], 1e-3, 1e6)
        check_numbers("the contention of a roofline", [self.contention], -1e3, MOST_CONTENTION)

    def times(self, seen: Seen) -> tuple[Array, Array]:
        """Logarithm of the seconds of arithmetic and traffic, and the log odds of the share of the peak."""
        odds = self.offset + self.growth * seen.held_work + seen.shaping @ self.weights
        return seen.log_work - looked_up(self.peak, seen.device) + np.logaddexp(0.0, -odds), odds

    def slower(self, times: Array) -> Array:
        """A smooth maximum."""
        return np.logaddexp(self.sharpness * times[:, 0], self.sharpness * times[:, 1]) / self.sharpness

    def log_value(self, seen: Seen) -> Array:
        alone = np.logaddexp(self.slower(self.times(seen)[0]), looked_up(self.overhead, seen.device))
        found: Array = alone - np.log1p(-self.contention * seen.busy)
        return found


def _inside(values: Array, bounds: Array) -> NDArray[np.bool_]:
    return np.asarray((values >= bounds[0]) & (values <= bounds[1]))


@forms.register
class Roofline(Form):
    name = "roofline"
    description = "the slower of arithmetic and memory traffic, plus an overhead"

    def __init__(self, columns: Columns, encoding: Encoding, bounds: Array, law: Law) -> None:
        self.columns = columns
        self.encoding = encoding
        self.bounds = bounds
        """Lowest and highest of the encoded inputs and of the two logarithms of work, as measured."""
        self.law = law

    def log_value(self, inputs: Array) -> Array:
        return self.law.log_value(see(self.columns, self.encoding, self.bounds, inputs))

    def gradient(self, inputs: Array) -> Array:
        law, columns = self.law, self.columns
        seen = see(columns, self.encoding, self.bounds, inputs)
        times, odds = law.times(seen)
        slower = law.slower(times)
        # From the latency alone on the device, through the slower of both, to the time of each.
        by_slower = np.exp(slower - np.logaddexp(slower, looked_up(law.overhead, seen.device)))
        by_times = by_slower[:, None] * np.exp(law.sharpness * (times - slower[:, None]))
        by_odds = -by_times / (1 + np.exp(odds))
        inside = _inside(seen.log_work, self.bounds[:, -2:])
        by_work = by_times + by_odds * law.growth * inside
        encoded = self.encoding.transform(inputs)
        shaping = (by_odds @ law.weights.T) * _inside(encoded, self.bounds[:, :-2])
        result = self.encoding.pull_back(inputs, shaping)
        self._add_work(result, inputs, by_work)
        if columns.utilization is not None:
            busy = inputs[:, columns.utilization]
            felt = law.contention / (1 - law.contention * seen.busy)
            result[:, columns.utilization] += np.where((busy >= 0) & (busy <= 1), felt, 0.0)
        return result

    def _add_work(self, result: Array, inputs: Array, by_work: Array) -> None:
        """Add what the logarithms of the work say of the columns that the work is the sum of."""
        for side, places in enumerate(((self.columns.flops,), self.columns.traffic)):
            work = inputs[:, places].sum(axis=1)
            slope = np.where(work > 1, by_work[:, side] / np.maximum(work, 1.0), 0.0)
            for place in places:
                result[:, place] += slope

    def check(self, width: int) -> None:
        self.encoding.check(width)
        self.columns.check(width)
        self.law.check(self.encoding.width)
        check_array("the bounds of a roofline", self.bounds, (2, self.encoding.width + 2))

    def parts(self) -> Parts:
        numbers = asdict(self.law)
        scalars = {name: numbers.pop(name) for name in ("sharpness", "contention")}
        return Parts(
            self.name,
            {"columns": asdict(self.columns), **scalars, **self.encoding.facts},
            {"bounds": self.bounds, **numbers, **self.encoding.arrays},
        )

    @classmethod
    def from_parts(cls, parts: Parts, inner: tuple[Form, ...]) -> Roofline:
        facts: dict[str, Any] = {**parts.facts, **parts.arrays}
        columns = Columns(**{**facts["columns"], "traffic": tuple(facts["columns"]["traffic"])})
        law = Law(**{name: facts[name] for name in Law.__dataclass_fields__})
        return cls(columns, Encoding.restore(parts.facts, parts.arrays), facts["bounds"], law)


def see(columns: Columns, encoding: Encoding, bounds: Array, inputs: Array) -> Seen:
    log_work, (low, high) = columns.log_work(inputs), bounds
    shaping, held_work = (
        np.minimum(np.maximum(values, low[part]), high[part])
        for values, part in ((encoding.transform(inputs), slice(None, -2)), (log_work, slice(-2, None)))
    )
    return Seen(log_work, held_work, shaping, columns.devices(inputs), columns.busy(inputs))
