"""The state of a machine before a visit, where its files tell: clocks, heat, throttling; and rest for a hot one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path

MOST_CORES = 8
"""Reading the clock of a core may interrupt it, and equal cores need not all be asked."""
HOT_C = 2.0
"""A sensor this near to where the system begins to slow the machine is hot."""
COOL_C = 7.0
"""And cool again so far below."""
LONGEST_REST_S = 30.0
NO_REST_S = 600.0
"""Where resting does not cool, it is not tried again for so long."""
_SLOWING = ("passive", "hot", "critical")
_MEMORY_CLOCKS = ("emc", "dmc", "ddr", "memory")


class MachineState:
    """The sensors of this machine, found once. What cannot be read is left out."""

    def __init__(
        self,
        root: Path = Path("/sys"),
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        cores = sorted(root.glob("devices/system/cpu/cpu[0-9]*"))
        self._sleep, self._clock = sleep, clock
        self._core_clocks = _existing(core / "cpufreq/scaling_cur_freq" for core in cores[:MOST_CORES])
        self._throttles = _existing(core / "thermal_throttle/core_throttle_count" for core in cores[:MOST_CORES])
        self._memory_clocks = [
            file
            for file in _existing(folder / "cur_freq" for folder in root.glob("class/devfreq/*"))
            if any(word in file.parent.name for word in _MEMORY_CLOCKS)
        ]
        zones = sorted(root.glob("class/thermal/thermal_zone*"))
        self._sensors = {zone / "temp": _slowed_from_c(zone) for zone in zones if _number(zone / "temp") is not None}
        self._throttled_before = self._throttled()
        self._no_rest_before = clock()

    def read(self) -> dict[str, float]:
        """What is known now, and how often the machine was throttled since this was last asked."""
        clocks = [1e3 * value for value in _numbers(self._core_clocks)]
        memory = _numbers(self._memory_clocks)
        temperatures = [value / 1e3 for value in _numbers(self._sensors)]
        found = {
            "cpu_hz": sum(clocks) / len(clocks) if clocks else None,
            "memory_hz": max(memory, default=None),
            "temperature_c": max(temperatures, default=None),
        }
        if self._throttles:
            before, self._throttled_before = self._throttled_before, self._throttled()
            found["throttled"] = self._throttled_before - before
        return {name: value for name, value in found.items() if value is not None}

    def rest(self) -> float:
        """Wait for a hot machine to cool, and tell for how long; not at all where no sensor says that it is hot."""
        began = self._clock()
        if began < self._no_rest_before or not self._is_within(HOT_C):
            return 0.0
        while self._is_within(COOL_C):
            if self._clock() - began >= LONGEST_REST_S:
                self._no_rest_before = self._clock() + NO_REST_S
                break
            self._sleep(1.0)
        return self._clock() - began

    def _is_within(self, margin_c: float) -> bool:
        """Whether any sensor is this near to where the machine is slowed, or beyond."""
        return any(
            slowed_from is not None and (value := _number(file)) is not None and value / 1e3 >= slowed_from - margin_c
            for file, slowed_from in self._sensors.items()
        )

    def _throttled(self) -> float:
        return sum(_numbers(self._throttles))


def _slowed_from_c(zone: Path) -> float | None:
    """The lowest temperature of a sensor at which the system does something that slows the machine."""
    trips = [
        (value / 1e3)
        for kind in zone.glob("trip_point_*_type")
        if _text(kind) in _SLOWING
        and (value := _number(kind.with_name(kind.name.replace("_type", "_temp")))) is not None
    ]
    return min((trip for trip in trips if trip > 0), default=None)


def _existing(files: Iterable[Path]) -> list[Path]:
    return [file for file in files if _number(file) is not None]


def _numbers(files: Iterable[Path]) -> list[float]:
    return [value for file in files if (value := _number(file)) is not None]


def _number(file: Path) -> float | None:
    try:
        return float(_text(file))
    except ValueError:
        return None


def _text(file: Path) -> str:
    try:
        return file.read_text(errors="replace").strip()
    except OSError:
        return ""
