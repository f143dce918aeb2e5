"""PyTorch with torch.compile: kernels written for the layer and compiled with the C++ compiler of the machine."""

from __future__ import annotations

import shutil

from medn.core.text import first_line
from medn.devices.backend import Backend, Runner, Unsupported, backends
from medn.devices.backends.torch_eager import TorchRunner, set_threads
from medn.devices.workload import Workload


@backends.register
class TorchCompile(Backend):
    name = "torch-compile"
    description = "PyTorch with torch.compile on the CPU"
    packages = ("torch",)
    runs_module = True

    def missing(self) -> str | None:
        if reason := super().missing():
            return reason
        if shutil.which("g++") is None:
            return "torch-compile needs a C++ compiler: install g++"
        return None

    def environment(self, threads: int) -> dict[str, str]:
        # Compiling in this process alone: a pool of compilers would be load that nobody asked for.
        return super().environment(threads) | {"TORCHINDUCTOR_COMPILE_THREADS": "1"}

    def load(self, workload: Workload) -> Runner:
        import torch
        from torch._dynamo.exc import TorchDynamoException
        from torch._inductor import config

        recurrent = (torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN)
        if any(isinstance(module, recurrent) for module in workload.module.modules()):
            raise Unsupported("torch.compile leaves recurrent layers to eager torch")
        set_threads(workload.condition.threads)
        config.cpp.threads = workload.condition.threads  # part of the key under which compiled code is kept
        torch._dynamo.reset()  # each layer is a new program; without this the old ones stay in memory
        compiled = torch.compile(workload.module, dynamic=False, fullgraph=True)
        runner = TorchRunner(compiled, workload.inputs)
        try:
            with runner.context():
                runner.run()
        except TorchDynamoException as error:
            raise Unsupported(f"torch.compile cannot compile it: {first_line(error)}") from error
        return runner
