"""A backend that says on which side it runs: its memory and energy stand in a variable of its process's environment."""

from __future__ import annotations

import os

from medn.devices.backend import Backend, Runner, backends
from medn.devices.backends.torch_eager import TorchRunner
from medn.devices.energy import EnergyMeter
from medn.devices.workload import Workload

SIDE = "MEDN_TEST_SIDE_BYTES"


class CountingMeter:
    source = "a count of its readings"

    def __init__(self) -> None:
        self._readings = 0

    def joules(self) -> float:
        self._readings += 1
        return float(self._readings)


@backends.register
class Side(Backend):
    name = "test-side"
    description = "torch, weighed as the variable of its process says"
    packages = ("torch",)
    runs_module = True

    def load(self, workload: Workload) -> Runner:
        return TorchRunner(workload.module, workload.inputs)

    def peak_memory_bytes(self) -> int | None:
        return int(os.environ[SIDE]) if SIDE in os.environ else None

    def energy_meter(self) -> tuple[EnergyMeter | None, str]:
        return (CountingMeter(), "") if SIDE in os.environ else (None, "on this side")
