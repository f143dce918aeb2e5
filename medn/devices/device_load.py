"""A load inside the worker, for devices that the host's own processes do not keep busy, such as a GPU."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from medn.devices.duty_cycle import SETTLING_S, run_duty_cycle


class DeviceLoad:
    """Keeps a device busy for the asked share of the time from a thread of its own.

    `work` does a short piece of work and returns when the device has done it, and tells the seconds it took there.
    """

    others = 0.0
    """What other programs use of such a device is not seen."""

    def __init__(self, work: Callable[[], float]) -> None:
        self.asked = 0.0
        self._work = work
        self._used_s = 0.0
        self._thread: threading.Thread | None = None

    @property
    def used_s(self) -> float:
        """Seconds of the device that the load has used so far."""
        return self._used_s

    def hold(self, utilization: float) -> None:
        """Hold this share from now on; returns when it is reached. 0 ends the load."""
        changed = utilization != self.asked
        self.asked = utilization
        if utilization == 0 and self._thread is not None:
            self._thread.join()
            self._thread = None
        elif utilization > 0 and self._thread is None:
            self._thread = threading.Thread(target=self._run, daemon=True)
            self._thread.start()
        if changed and utilization > 0:
            time.sleep(SETTLING_S)

    def utilization_now(self, seconds: float) -> float:
        """Watch for a moment, while the layer rests."""
        began, used = time.monotonic(), self._used_s
        time.sleep(seconds)
        return (self._used_s - used) / (time.monotonic() - began)

    def _run(self) -> None:
        run_duty_cycle(
            target=lambda: self.asked,
            work=self._add,
            used_s=lambda: self._used_s,
            alive=lambda: self.asked > 0,
            report=lambda used: None,
        )

    def _add(self) -> None:
        self._used_s += self._work()
