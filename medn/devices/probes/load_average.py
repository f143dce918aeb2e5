"""How many processes wanted a core, averaged over a minute."""

from __future__ import annotations

import os

from medn.devices.probe import Probe, probes


@probes.register
class LoadAverage(Probe):
    name = "load_average"
    description = "processes that wanted to run, averaged over the last minute"

    def read(self) -> float | None:
        return os.getloadavg()[0] if hasattr(os, "getloadavg") else None
