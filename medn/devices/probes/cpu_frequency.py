"""The clock the cores run at."""

from __future__ import annotations

from medn.devices.probe import Probe, probes


@probes.register
class CpuFrequency(Probe):
    name = "cpu_frequency"
    description = "mean clock of the cores in hertz"

    def read(self) -> float | None:
        import psutil

        try:
            frequency = psutil.cpu_freq()
        except (OSError, NotImplementedError, RuntimeError):
            return None
        return float(frequency.current) * 1e6 if frequency else None
