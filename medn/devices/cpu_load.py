"""The load of a CPU: one duty-cycle process per core, corrected for what other programs use.

Utilisation here is what an observer sees just before the layer starts: the share of the device's capacity that
everybody else holds. While the layer runs it competes with that load, and the load gets less.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass

from medn.core.environment import allowed_cores
from medn.devices import duty_cycle
from medn.devices.duty_cycle import SETTLING_S
from medn.devices.processor_time import busy_s, process_s

OTHERS_WINDOW_S = 1.0
"""The system counts busy time in steps of 10 ms; what others use is read over windows not shorter than this."""


@dataclass(frozen=True)
class Reading:
    """Counters at one moment, in CPU seconds."""

    at: float
    busy_s: float
    load_s: float
    layer_s: float


class CpuLoad:
    """Holds the asked utilisation for as long as the `with` block lasts.

    >>> with CpuLoad() as load:
    ...     load.hold(0.0)
    ...     0.0 <= load.utilization_now(seconds=0.05) <= 1.0
    True
    """

    def __init__(self, cores: int | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self.cores = cores or allowed_cores()
        self.asked = 0.0
        self.others = 0.0
        """The share of the device that programs which are neither our load nor our layer were seen to use lately."""
        self._clock = clock
        self._allowed = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
        self._layer: int | None = None
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> CpuLoad:
        # A file without a name: however this process ends, nothing of it stays behind.
        self._file = tempfile.TemporaryFile()
        count = self.cores + 1
        self._file.write(bytes(8 * count))
        self._file.flush()
        self._shared = duty_cycle.SharedNumbers(self._file.fileno(), count)
        self._window_start = self.reading()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()
        self._file.close()

    def _start(self) -> None:
        for index in range(self.cores):
            core = self._allowed[index] if index < len(self._allowed) else -1
            arguments = [str(index + 1), str(self.cores + 1), str(core), str(os.getpid())]
            # -S -E: a bare interpreter starts in a few milliseconds and needs nothing installed.
            command = [sys.executable, "-S", "-E", duty_cycle.__file__, *arguments]
            # In a session of its own, an interrupt at the keyboard reaches this process alone, which ends the load.
            self._processes.append(subprocess.Popen(command, stdin=self._file, start_new_session=True))

    def _stop(self) -> None:
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.wait()
        self._processes.clear()
        for index in range(self.cores + 1):
            self._shared[index] = 0.0
        self._window_start = self.reading()

    def watch(self, layer_process_id: int | None) -> None:
        """Name the process whose own use does not count as utilisation."""
        if self._layer == layer_process_id:
            return
        self._layer = layer_process_id
        self._window_start = self.reading()

    def hold(self, utilization: float) -> None:
        """Hold this utilisation from now on; returns when it is reached."""
        changed = utilization != self.asked
        self.asked = utilization
        if utilization == 0:
            if self._processes:
                self._stop()
            self.correct()
            return
        if any(process.poll() is not None for process in self._processes):
            self._stop()  # somebody ended part of the load: begin again with all of it
        if not self._processes:
            self._start()
            changed = True
        self.correct()
        if changed:
            time.sleep(SETTLING_S)

    def correct(self) -> None:
        """Leave room for what other programs use, as seen over the last while."""
        now = self.reading()
        if now.at - self._window_start.at >= OTHERS_WINDOW_S:
            self.others = self._others_between(self._window_start, now)
            self._window_start = now
        self._shared[0] = min(1.0, max(0.0, self.asked - self.others)) if self.asked else 0.0

    def reading(self) -> Reading:
        load = sum(self._shared[index + 1] for index in range(self.cores)) if self._processes else 0.0
        return Reading(self._clock(), busy_s(self._allowed), load, self._layer_s())

    def _layer_s(self) -> float:
        used = process_s(self._layer) if self._layer else None
        return used or 0.0

    def _others_between(self, first: Reading, second: Reading) -> float:
        """The share of others that are neither our load nor our layer."""
        busy = second.busy_s - first.busy_s
        ours = max(0.0, second.load_s - first.load_s) + max(0.0, second.layer_s - first.layer_s)
        return min(1.0, max(0.0, busy - ours) / ((second.at - first.at) * self.cores))

    def utilization_between(self, first: Reading, second: Reading) -> float:
        """The share of the device that everybody but the layer got between two readings."""
        load = (second.load_s - first.load_s) / ((second.at - first.at) * self.cores)
        return min(1.0, max(0.0, load) + self.others)

    def utilization_now(self, seconds: float) -> float:
        """Watch for a moment, while the layer rests."""
        first = self.reading()
        time.sleep(seconds)
        return self.utilization_between(first, self.reading())
