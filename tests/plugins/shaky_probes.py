"""Probes that do what probes of others may do."""

from __future__ import annotations

import os
import time

from medn.devices.probe import Probe, probes


@probes.register
class Raising(Probe):
    name = "test_raising"
    description = "always fails"

    def read(self) -> float | None:
        raise OSError("no such sensor")


@probes.register
class Hanging(Probe):
    name = "test_hanging"
    description = "never answers"

    def read(self) -> float | None:
        time.sleep(3600)
        return None


@probes.register
class Crashing(Probe):
    name = "test_crashing"
    description = "takes its process along"

    def read(self) -> float | None:
        os._exit(7)
