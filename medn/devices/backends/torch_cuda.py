"""PyTorch on an NVIDIA GPU, timed by the GPU itself."""

from __future__ import annotations

import ctypes
import importlib.util
from collections.abc import Callable
from pathlib import Path

from medn.devices.backend import Backend, Runner, Timer, backends
from medn.devices.backends.torch_eager import TorchRunner
from medn.devices.device_load import DeviceLoad
from medn.devices.energy import EnergyMeter, gpu_energy_meter
from medn.devices.workload import Workload


class CudaTimer:
    """Two marks in the GPU's own queue: a call returns long before the work it queued is done."""

    def __init__(self) -> None:
        import torch

        self._begin = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        self._end = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]

    def start(self) -> None:
        import torch

        torch.cuda.current_stream().synchronize()  # not the whole device: a background load never comes to rest
        self._begin.record()

    def stop(self) -> float:
        self._end.record()
        self._end.synchronize()
        return float(self._begin.elapsed_time(self._end)) / 1000.0


@backends.register
class TorchCuda(Backend):
    name = "torch-cuda"
    description = "PyTorch eager on an NVIDIA GPU"
    packages = ("torch",)
    runs_module = True
    dtypes = ("fp32", "bf16", "fp16", "fp64")
    torch_device = "cuda"
    runs_on_host = False

    def missing(self) -> str | None:
        return super().missing() or _no_gpu() or _no_cuda_build()

    def load(self, workload: Workload) -> Runner:
        return TorchRunner(workload.module, workload.inputs)

    def timer(self) -> Timer:
        return CudaTimer()

    def device_load(self) -> DeviceLoad | None:
        return DeviceLoad(_side_stream_work())

    def energy_meter(self) -> tuple[EnergyMeter | None, str]:
        return gpu_energy_meter()

    def peak_memory_bytes(self) -> int | None:
        import torch

        return int(torch.cuda.max_memory_allocated())

    def reset_peak_memory(self) -> None:
        import torch

        torch.cuda.reset_peak_memory_stats()


def _side_stream_work() -> Callable[[], float]:
    """A matrix product of about a millisecond in a stream beside the layer's, timed by the GPU."""
    import torch

    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    matrix = torch.ones(2048, 2048, device="cuda")

    def work() -> float:
        timer = CudaTimer()
        with torch.cuda.stream(stream):
            timer.start()
            torch.mm(matrix, matrix)
            return timer.stop()

    return work


def _no_gpu() -> str | None:
    """Ask the driver itself, because asking torch would import it."""
    for name in ("libcuda.so.1", "nvcuda.dll"):
        try:
            driver = ctypes.CDLL(name)
        except OSError:
            continue
        count = ctypes.c_int(0)
        if driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0 and count.value > 0:
            return None
        return "torch-cuda needs an NVIDIA GPU: the driver is installed and finds none"
    return "torch-cuda needs an NVIDIA GPU: its driver is not installed here"


def _no_cuda_build() -> str | None:
    torch = importlib.util.find_spec("torch")
    libraries = Path(torch.origin).parent / "lib" if torch and torch.origin else Path()
    if any((libraries / name).exists() for name in ("libtorch_cuda.so", "torch_cuda.dll")):
        return None
    return "torch-cuda needs a CUDA build of torch: the one installed here runs on the CPU only"
