"""A backend that computes something else than it was asked to, quickly and in finite numbers."""

from __future__ import annotations

from medn.devices.backend import Backend, Runner, backends
from medn.devices.backends.torch_eager import TorchRunner
from medn.devices.workload import Workload


@backends.register
class Twice(Backend):
    name = "twice"
    description = "every output twice as large as it should be"
    packages = ("torch",)
    runs_module = True

    def load(self, workload: Workload) -> Runner:
        return TorchRunner(lambda *inputs: 2 * workload.module(*inputs), workload.inputs)
