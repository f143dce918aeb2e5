"""PyTorch as it comes: one kernel after the other on the CPU. The reference the other backends are compared with."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from medn.core.values import Layer
from medn.devices.backend import Backend, Runner, backends
from medn.devices.convolution_scratch import convolution_scratch
from medn.devices.workload import Workload, to_arrays

if TYPE_CHECKING:
    import torch


class TorchRunner(Runner):
    """Calls a module, or whatever torch made of it."""

    def __init__(self, call: Callable[..., Any], inputs: tuple[torch.Tensor, ...]) -> None:
        self._call = call
        self._inputs = inputs
        self._outputs: object = None

    def context(self) -> AbstractContextManager[object]:
        import torch

        return torch.inference_mode()

    def run(self) -> None:
        self._outputs = self._call(*self._inputs)

    def outputs(self) -> list[NDArray[np.float32]]:
        return to_arrays(self._outputs)

    def forget(self) -> None:
        self._outputs = None


def set_threads(threads: int) -> None:
    """Let torch use this many threads; setting the number again would cost time even where nothing changes."""
    import torch

    if torch.get_num_threads() != threads:
        torch.set_num_threads(threads)


@backends.register
class TorchEager(Backend):
    name = "torch"
    description = "PyTorch eager on the CPU"
    packages = ("torch",)
    runs_module = True
    dtypes = ("fp32", "bf16", "fp16", "fp64")
    is_reference = True

    def scratch_bytes(self, layer: Layer, batch_size: int, element_bytes: float, threads: int) -> float:
        return convolution_scratch(layer, batch_size, element_bytes, threads)

    def load(self, workload: Workload) -> Runner:
        set_threads(workload.condition.threads)
        return TorchRunner(workload.module, workload.inputs)
