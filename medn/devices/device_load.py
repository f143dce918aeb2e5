"""A load inside the worker, for devices that the host's own processes do not keep busy, such as a GPU."""

from __future__ import annotations

import threading
from collections.abc import Callable

from medn.devices.duty_cycle import run_duty_cycle


class DeviceLoad:
    """Keeps a device busy for the asked share of the time from a thread of its own.

    `work` does a short piece of work and returns when the device has done it, and tells the seconds it took there.
    """

    def __init__(self, work: Callable[[], float]) -> None:
        self._work = work
        self._used_s = 0.0
        self._share = 0.0
        self._thread: threading.Thread | None = None

    @property
    def used_s(self) -> float:
        """Seconds of the device that the load has used so far."""
        return self._used_s

    def hold(self, share: float) -> None:
        """Hold this share from now on; 0 ends the load."""
        self._share = share
        if share == 0 and self._thread is not None:
            self._thread.join()
            self._thread = None
        elif share > 0 and self._thread is None:
            self._thread = threading.Thread(target=self._run, daemon=True)
            self._thread.start()

    def _run(self) -> None:
        run_duty_cycle(
            target=lambda: self._share,
            work=self._add,
            used_s=lambda: self._used_s,
            alive=lambda: self._share > 0,
            report=lambda used: None,
        )

    def _add(self) -> None:
        self._used_s += self._work()
