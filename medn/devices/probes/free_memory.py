"""Memory that a new process could still get."""

from __future__ import annotations

from medn.devices.memory import available_bytes
from medn.devices.probe import Probe, probes


@probes.register
class FreeMemory(Probe):
    name = "free_memory"
    description = "bytes of memory a new process could still get"

    def read(self) -> float | None:
        return float(available_bytes())
