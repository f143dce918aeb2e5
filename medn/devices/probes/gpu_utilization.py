"""How busy the GPU is, as its driver counts it."""

from __future__ import annotations

from medn.devices.probe import Probe, probes


@probes.register
class GpuUtilization(Probe):
    name = "gpu_utilization"
    description = "share of the last moments in which the first NVIDIA GPU was busy, read through NVML"

    def read(self) -> float | None:
        try:
            import pynvml

            pynvml.nvmlInit()
            handle = pynvml.nvmlDeviceGetHandleByIndex(0)
            return float(pynvml.nvmlDeviceGetUtilizationRates(handle).gpu) / 100
        except ImportError:
            return None
        except pynvml.NVMLError:
            return None
