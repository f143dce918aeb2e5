"""Energy counters where the machine lets us read them; otherwise the reason why not, never a guess."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from medn.core.packages import is_installed, missing
from medn.devices.zeus_energy import zeus_chip_meter, zeus_gpu_meter

POWERCAP = Path("/sys/class/powercap")


class EnergyMeter(Protocol):
    """A counter of joules that only grows. What it counts includes whatever else runs on the package."""

    source: str

    def joules(self) -> float: ...


class RaplMeter:
    """Intel and AMD package counters through Linux powercap; they wrap around, which `joules` undoes."""

    def __init__(self, packages: list[Path]) -> None:
        self.source = "RAPL"
        self._counters = [package / "energy_uj" for package in packages]
        self._ranges = [int((package / "max_energy_range_uj").read_text()) for package in packages]
        self._last = [self._read(index) for index in range(len(packages))]
        self._total_uj = 0

    def _read(self, index: int) -> int:
        return int(self._counters[index].read_text())

    def joules(self) -> float:
        for index, wraps_at in enumerate(self._ranges):
            now = self._read(index)
            self._total_uj += (now - self._last[index]) % wraps_at
            self._last[index] = now
        return self._total_uj / 1e6


class NvmlMeter:
    """The total energy counter of one NVIDIA GPU."""

    def __init__(self, index: int = 0) -> None:
        import pynvml

        pynvml.nvmlInit()
        self.source = "NVML"
        self._read = pynvml.nvmlDeviceGetTotalEnergyConsumption
        self._handle = pynvml.nvmlDeviceGetHandleByIndex(index)

    def joules(self) -> float:
        return float(self._read(self._handle)) / 1e3


def cpu_energy_meter(powercap: Path = POWERCAP) -> tuple[EnergyMeter | None, str]:
    """The meter of the CPU packages, or of the chip where zeus reads one; or None and why there is none."""
    meter, reason = _rapl_meter(powercap)
    return (meter, reason) if meter else _or_zeus(zeus_chip_meter(), reason)


def _or_zeus(found: tuple[EnergyMeter | None, str], before: str) -> tuple[EnergyMeter | None, str]:
    """What zeus offers instead; without it, the reason of before, as zeus is not what most machines need."""
    meter, reason = found
    return meter, "" if meter else before if not is_installed("zeus") else f"{before}; {reason}"


def _rapl_meter(powercap: Path) -> tuple[EnergyMeter | None, str]:
    packages = sorted(path for path in powercap.glob("intel-rapl:*") if path.name.count(":") == 1)
    if not packages:
        return None, f"no RAPL counters under {powercap}: the kernel or the virtual machine does not offer them"
    try:
        return RaplMeter(packages), ""
    except PermissionError:
        return None, f"the RAPL counters under {powercap} may only be read by root here"
    except (OSError, ValueError) as error:
        return None, f"the RAPL counters under {powercap} cannot be read: {error}"


def gpu_energy_meter(index: int = 0) -> tuple[EnergyMeter | None, str]:
    """The meter of one GPU, by NVML or, where zeus is installed, by zeus; or None and why there is none."""
    meter, reason = _nvml_meter(index)
    return (meter, reason) if meter else _or_zeus(zeus_gpu_meter(index), reason)


def _nvml_meter(index: int) -> tuple[EnergyMeter | None, str]:
    if sentence := missing("reading a GPU's energy", ["pynvml"], "energy"):
        return None, sentence
    import pynvml

    try:
        meter = NvmlMeter(index)
        meter.joules()
    except pynvml.NVMLError as error:
        return None, f"NVML cannot read the energy of GPU {index}: {error}"
    return meter, ""
