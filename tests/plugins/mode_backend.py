"""A backend that obeys a condition of the user's own: it runs in one power mode and not in the other."""

from __future__ import annotations

from medn.devices.backend import Backend, Runner, Unsupported, backends
from medn.devices.backends.torch_eager import TorchRunner
from medn.devices.workload import Workload


@backends.register
class Modes(Backend):
    name = "modes"
    description = "torch in one of two power modes"
    packages = ("torch",)
    runs_module = True

    def load(self, workload: Workload) -> Runner:
        if workload.condition.values.get("power_mode") == "low":
            raise Unsupported("the low power mode is broken")
        return TorchRunner(workload.module, workload.inputs)
