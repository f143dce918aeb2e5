"""Layers as TVM compiles them: loops under a schedule, for an instruction set that the processor has.

The levels stand for devices: programs rank differently on each, though mildly, as it is one processor in the end.
"""

from __future__ import annotations

import importlib.metadata
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from medn.core.environment import environment_manifest
from medn.core.errors import reason_of
from medn.core.packages import is_installed
from medn.core.values import Condition, Layer
from medn.devices.backend import Backend, Runner, Unsupported, backends
from medn.devices.tensor_programs import EXTRA, ScheduledProgram, task_of, weights_of
from medn.devices.workload import Workload
from medn.layer_generators.kind import layer_kinds

DISTRIBUTIONS = {"tvm": "apache-tvm", "tvm_ffi": "apache-tvm-ffi", "torch": "torch"}
"""What the package index calls the libraries."""


class TvmRunner(Runner):
    """A compiled program with its arguments in TVM's memory."""

    def __init__(self, function: Any, arguments: list[Any], program: ScheduledProgram) -> None:
        self._function = function
        self._arguments = arguments
        self._program = program

    def run(self) -> None:
        self._function(*self._arguments)

    def outputs(self) -> list[NDArray[np.float32]]:
        return [self._arguments[-1].numpy()]

    def program(self) -> dict[str, Any]:
        return self._program.record()


class TvmLevel(Backend):
    """What the levels do alike."""

    packages = ("tvm", "tvm_ffi", "torch")
    extra = EXTRA
    draws_schedules = True
    takes_module = True
    processor: ClassVar[str]
    """What has the instructions of this level and no more, as LLVM calls it."""
    needs: ClassVar[str]
    """The CPU flag without which programs would crash; empty where every processor of the architecture runs them."""

    def missing(self) -> str | None:
        cpu = environment_manifest({})["cpu"]
        if cpu["architecture"] not in ("x86_64", "AMD64"):
            return f"{self.name} needs a processor of x86-64 (this one is {cpu['architecture']})"
        flags = cpu["vector_extensions"]
        if self.needs and flags is not None and self.needs not in flags.split():
            return f"{self.name} needs a processor with {self.needs}"
        return super().missing()

    def versions(self) -> dict[str, str]:
        return {name: importlib.metadata.version(DISTRIBUTIONS[name]) for name in self.packages if is_installed(name)}

    def environment(self, threads: int) -> dict[str, str]:
        return {**super().environment(threads), "TVM_NUM_THREADS": str(threads)}

    def load(self, workload: Workload) -> Runner:
        import tvm

        program, function = _compiled(workload.layer, workload.condition, self.processor)
        arrays = [*workload.arrays, *(weight.detach().numpy() for weight in weights_of(workload.module))]
        kind = layer_kinds[workload.layer.kind]
        shape = kind.output_shape(kind.values_of(workload.layer), workload.condition.batch_size)
        arguments = [tvm.runtime.tensor(array) for array in (*arrays, np.zeros(shape, np.float32))]
        return TvmRunner(function, arguments, program)


@lru_cache(maxsize=1)  # a layer is loaded twice on its first visit
def _compiled(layer: Layer, condition: Condition, processor: str) -> tuple[ScheduledProgram, Any]:
    import tvm

    task = task_of(layer, condition.batch_size, processor, condition.threads)
    program = task.program(condition.schedule)
    try:
        built = tvm.compile(program.schedule.mod, target=task.target)
    except Exception as error:  # TVM raises errors of many classes here
        raise Unsupported(f"TVM cannot compile it: {reason_of(error)}") from None
    return program, built["main"]


@backends.register
class TvmBaseline(TvmLevel):
    name = "tvm-x86-64"
    description = "TVM on the CPU, with the instructions that every x86-64 processor has"
    processor = "x86-64"
    needs = ""


@backends.register
class TvmAvx(TvmLevel):
    name = "tvm-avx"
    description = "TVM on the CPU, with instructions up to AVX"
    processor = "sandybridge"
    needs = "avx"


@backends.register
class TvmAvx2(TvmLevel):
    name = "tvm-avx2"
    description = "TVM on the CPU, with instructions up to AVX2"
    processor = "haswell"
    needs = "avx2"
