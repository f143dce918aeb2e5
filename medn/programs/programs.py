"""Measured tensor programs: what was kept of each, the layer it computes, the device, and its latency.

A task is a layer at a batch size: its programs are compared with one another, and a split keeps it on one side.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medn.core.errors import StoreError
from medn.core.store import Store
from medn.core.table import Array
from medn.core.values import Layer, Measurement, canonical_json
from medn.layer_generators.kind import layer_kinds
from medn.programs.loops import Nest, nest_vectors

LEAF_SIZE = 164
"""Numbers that TVM extracts for each buffer that is stored."""
FLOPS_PER_S, BYTES_PER_S = 2e10, 1e10
"""What one core does about: only their ratio matters, as all families learn a multiple of the time that follows."""


@dataclass(frozen=True, eq=False)
class TensorProgram:
    """One program without its latency: what a predictor is asked with."""

    task: str
    device: str
    flops: float
    moved_bytes: float
    """Of the layer, whatever its schedule."""
    trace: Sequence[Any]
    """TVM's: the steps, then the decisions by step."""
    positions: NDArray[np.int64]
    leaves: NDArray[np.float32]
    nests: NDArray[np.float32] = field(default_factory=lambda: nest_vectors([]))
    """The loops of every store as `medn.programs.loops` tells them; none of a program that an earlier version kept."""

    @classmethod
    def of_layer(cls, layer: Layer, batch_size: int, device: str, record: Mapping[str, Any]) -> TensorProgram:
        """A program of a layer by what its device kept of it."""
        kind = layer_kinds[layer.kind]
        costs = kind.costs(kind.values_of(layer), batch_size, 4)
        moved = costs.input_bytes + costs.output_bytes + costs.parameter_bytes
        return cls.from_record(f"{layer.key}:{batch_size}", device, float(costs.flops), float(moved), record)

    @classmethod
    def from_record(
        cls, task: str, device: str, flops: float, moved_bytes: float, record: Mapping[str, Any]
    ) -> TensorProgram:
        leaves = np.array(record["leaves"], dtype=np.float32).reshape(-1, LEAF_SIZE)
        positions = np.array(record["positions"], dtype=np.int64)
        nests = nest_vectors([Nest.from_record(nest) for nest in record.get("nests", ())])
        return cls(task, device, flops, moved_bytes, record["trace"], positions, leaves, nests)

    @property
    def work_s(self) -> float:
        """What its floating-point operations and bytes take at a fixed speed."""
        return self.flops / FLOPS_PER_S + self.moved_bytes / BYTES_PER_S


@dataclass(frozen=True, eq=False)
class MeasuredPrograms:
    """Programs with what was measured of them, a row each."""

    programs: tuple[TensorProgram, ...]
    latency_s: Array
    repeat_s: Array
    """The latency of another visit than the one that gave `latency_s`; NaN where there was one visit."""

    def __len__(self) -> int:
        return len(self.programs)

    @cached_property
    def tasks(self) -> NDArray[np.str_]:
        return np.array([program.task for program in self.programs])

    @cached_property
    def devices(self) -> NDArray[np.str_]:
        return np.array([program.device for program in self.programs])

    @cached_property
    def groups(self) -> NDArray[np.int64]:
        """The number of the task and device of each row: among these, programs are ranked."""
        names = np.char.add(np.char.add(self.tasks, " "), self.devices)
        return np.asarray(np.unique(names, return_inverse=True)[1], dtype=np.int64)

    def take(self, rows: NDArray[Any]) -> MeasuredPrograms:
        """Some of the rows, by number or by a mask."""
        places = np.arange(len(self))[rows]
        return MeasuredPrograms(
            tuple(self.programs[place] for place in places), self.latency_s[places], self.repeat_s[places]
        )

    @property
    def noise(self) -> float | None:
        """The mean relative difference of two visits to a program; None where none was visited twice."""
        twice = np.isfinite(self.repeat_s)
        differences = np.abs(self.repeat_s[twice] / self.latency_s[twice] - 1)
        return float(differences.mean()) if twice.any() else None


def read_programs(store: Store) -> MeasuredPrograms:
    """The programs of a run that were measured well. Of equal ones of a task and device the first counts."""
    records = dict(store.programs())
    rows: dict[tuple[str, str, str], tuple[TensorProgram, float, float]] = {}
    for measured in store.measurements():
        point = measured.point
        if point.key not in records or not measured.good_visits:
            continue
        record = records[point.key]
        program = TensorProgram.of_layer(point.layer, point.condition.batch_size, point.device, record)
        key = (program.task, program.device, canonical_json(record["trace"]))
        rows.setdefault(key, (program, *visited_s(measured)))
    if not rows:
        remedy = "Measure some with `programs: {schedules: 40}` in a sweep config"
        raise StoreError(f"{store.path.parent} holds no tensor programs. {remedy}")
    programs, latency_s, repeat_s = zip(*rows.values(), strict=True)
    return MeasuredPrograms(programs, np.array(latency_s), np.array(repeat_s))


def visited_s(measured: Measurement) -> tuple[float, float]:
    """The least processor time of one run over all visits, and that of another visit."""
    least = sorted(float(visit.samples.ordered_processor[0]) for visit in measured.good_visits)
    return least[0], least[1] if len(least) > 1 else math.nan
