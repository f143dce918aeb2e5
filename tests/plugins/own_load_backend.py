"""A backend whose load runs inside its worker, as a GPU's does; the device is a sleeping thread."""

from __future__ import annotations

import time

from medn.devices.backend import Backend, Runner, backends
from medn.devices.backends.torch_eager import TorchRunner
from medn.devices.device_load import DeviceLoad
from medn.devices.workload import Workload


def sleep_a_moment() -> float:
    began = time.perf_counter()
    time.sleep(0.0005)
    return time.perf_counter() - began


@backends.register
class OwnLoad(Backend):
    name = "own-load"
    description = "torch beside a load of its own"
    packages = ("torch",)
    runs_module = True

    def load(self, workload: Workload) -> Runner:
        return TorchRunner(workload.module, workload.inputs)

    def device_load(self) -> DeviceLoad:
        return DeviceLoad(sleep_a_moment)
