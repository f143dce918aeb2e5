"""A backend whose layers take as long as their FLOPs say, times LAW_FACTOR: a machine that can change."""

from __future__ import annotations

import os
import time

import numpy as np
from made_up_run import PEAK
from numpy.typing import NDArray

from medn.devices.backend import Backend, Runner, backends
from medn.devices.workload import Workload, to_arrays
from medn.layer_generators.kind import layer_kinds


class LawRunner(Runner):
    def __init__(self, workload: Workload, seconds: float) -> None:
        self._workload = workload
        self._seconds = seconds

    def run(self) -> None:
        end = time.perf_counter() + self._seconds
        while time.perf_counter() < end:
            pass

    def outputs(self) -> list[NDArray[np.float32]]:
        return to_arrays(self._workload.module(*self._workload.inputs))


@backends.register
class Law(Backend):
    name = "law"
    description = "as long as FLOPs say"
    packages = ("torch",)
    runs_module = True

    def load(self, workload: Workload) -> Runner:
        kind = layer_kinds[workload.layer.kind]
        flops = kind.costs(kind.values_of(workload.layer), workload.condition.batch_size, 4).flops
        return LawRunner(workload, float(os.environ.get("LAW_FACTOR", "1")) * float(flops) / PEAK)
