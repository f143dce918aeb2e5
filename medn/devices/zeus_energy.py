"""Energy of chips that neither RAPL nor NVML reads, through the library zeus: AMD GPUs, Jetson, Apple silicon."""

from __future__ import annotations

from typing import Any

from medn.core.errors import reason_of
from medn.core.packages import is_installed

PARTS = ("cpu_total_mj", "gpu_mj", "gpu_sram_mj", "dram_mj", "ane_mj")
"""What Apple silicon tells apart, none of it a part of another."""


class ZeusChipMeter:
    """A chip that holds processor and GPU: a Jetson or Apple silicon."""

    def __init__(self, chip: Any) -> None:
        self.source = "zeus"
        self._chip = chip

    def joules(self) -> float:
        told = self._chip.get_total_energy_consumption()
        total = getattr(told, "total_energy_mj", None)  # a Jetson's own sum; its parts need not add up to it
        if total is not None:
            return float(total) / 1e3
        known = [value for part in PARTS if (value := getattr(told, part, None)) is not None]
        if not known:
            raise RuntimeError("zeus tells no energy of this chip")
        return float(sum(known)) / 1e3


class ZeusGpuMeter:
    """One GPU, by its place among those that zeus finds."""

    def __init__(self, gpus: Any, index: int) -> None:
        self.source = "zeus"
        self._gpus, self._index = gpus, index

    def joules(self) -> float:
        return float(self._gpus.get_total_energy_consumption(self._index)) / 1e3


def zeus_chip_meter() -> tuple[ZeusChipMeter | None, str]:
    """The meter of the chip that this runs on, or None and why there is none."""
    if not is_installed("zeus"):
        return None, "zeus is not installed"
    try:
        from zeus.device import get_soc

        meter = ZeusChipMeter(get_soc())
        meter.joules()
    except Exception as error:  # whatever a driver or another library raises
        return None, f"zeus cannot read this chip: {reason_of(error)}"
    return meter, ""


def zeus_gpu_meter(index: int = 0) -> tuple[ZeusGpuMeter | None, str]:
    """The meter of one GPU, or None and why there is none."""
    if not is_installed("zeus"):
        return None, "zeus is not installed"
    try:
        from zeus.device import get_gpus

        meter = ZeusGpuMeter(get_gpus(), index)
        meter.joules()
    except Exception as error:
        return None, f"zeus cannot read GPU {index}: {reason_of(error)}"
    return meter, ""
