"""A utilisation that is held beside layers, and read now and then while they rest."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

UTILIZATION_WINDOW_S = 0.1
UTILIZATION_EVERY_S = 1.0
"""Under load the layers pause this often, for one window, so that the utilisation without them can be read."""


class DutyCycleLoad(Protocol):
    """What keeps a device busy."""

    asked: float
    others: float
    """The share of the device that programs which are neither the load nor the layer were seen to use lately."""

    def hold(self, utilization: float) -> None:
        """Hold this utilisation from now on; returns when it is reached."""

    def utilization_now(self, seconds: float) -> float:
        """Watch for a moment, while the layer rests."""


class HeldUtilization:
    """The utilisation that a load holds, as it was last read."""

    def __init__(self, load: DutyCycleLoad, clock: Callable[[], float] = time.monotonic) -> None:
        self.load = load
        self._clock = clock
        self._held = 0.0
        self._read_at = clock() - UTILIZATION_EVERY_S

    def hold(self, asked: float) -> float:
        """Hold the asked utilisation, and tell the one that is held, read at most a second ago."""
        changed = asked != self.load.asked
        self.load.hold(asked)
        if asked == 0:
            return self.load.others
        if changed or self._clock() - self._read_at > UTILIZATION_EVERY_S:
            self._held = self.load.utilization_now(UTILIZATION_WINDOW_S)
            self._read_at = self._clock()
        return self._held
