"""What a machine tells of its clocks and its heat, laid out in files of a test."""

from __future__ import annotations

from pathlib import Path

import pytest

from medn.devices.processor_time import busy_s, process_s
from medn.devices.state import LONGEST_REST_S, NO_REST_S, MachineState


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for core in range(2):
        write(tmp_path / f"devices/system/cpu/cpu{core}/cpufreq/scaling_cur_freq", 1_000_000 + core * 500_000)
        write(tmp_path / f"devices/system/cpu/cpu{core}/thermal_throttle/core_throttle_count", 3)
    write(tmp_path / "class/devfreq/17000000.gpu/cur_freq", 5)
    write(tmp_path / "class/devfreq/17000000.emc/cur_freq", 3_199_000_000)
    write(tmp_path / "class/thermal/thermal_zone0/temp", 45_000)
    write(tmp_path / "class/thermal/thermal_zone0/trip_point_0_type", "passive")
    write(tmp_path / "class/thermal/thermal_zone0/trip_point_0_temp", 80_000)
    write(tmp_path / "class/thermal/thermal_zone1/temp", "unreadable")
    return tmp_path


def write(file: Path, content: object) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{content}\n")


class Time:
    """Passes while somebody sleeps, and the machine cools meanwhile."""

    def __init__(self, root: Path, cooling: float) -> None:
        self.now, self.cooling = 0.0, cooling
        self.sensor = root / "class/thermal/thermal_zone0/temp"

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        write(self.sensor, float(self.sensor.read_text()) - self.cooling)


def test_clocks_heat_and_throttling_are_read(root: Path) -> None:
    state = MachineState(root)
    assert state.read() == {"cpu_hz": 1.25e9, "memory_hz": 3.199e9, "temperature_c": 45.0, "throttled": 0.0}
    write(root / "devices/system/cpu/cpu1/thermal_throttle/core_throttle_count", 5)
    assert [state.read()["throttled"], state.read()["throttled"]] == [2.0, 0.0]


def test_a_machine_without_sensors_tells_nothing_and_never_rests(tmp_path: Path) -> None:
    state = MachineState(tmp_path)
    assert (state.read(), state.rest()) == ({}, 0.0)


def test_a_hot_machine_rests_until_it_is_cool(root: Path) -> None:
    time = Time(root, cooling=1000)
    state = MachineState(root, time.sleep, lambda: time.now)
    assert state.rest() == 0.0
    write(time.sensor, 79_000)
    assert state.rest() == pytest.approx(7.0)
    assert state.rest() == 0.0


def test_where_resting_does_not_cool_it_is_not_tried_again_for_a_while(root: Path) -> None:
    time = Time(root, cooling=0)
    state = MachineState(root, time.sleep, lambda: time.now)
    write(time.sensor, 95_000)
    assert state.rest() == pytest.approx(LONGEST_REST_S)
    assert state.rest() == 0.0
    time.now += NO_REST_S
    assert state.rest() > 0


def test_processor_time_is_read_without_a_library() -> None:
    import os

    import psutil

    used = psutil.Process().cpu_times()
    assert process_s(os.getpid()) == pytest.approx(used.user + used.system, abs=1.0)
    assert process_s(2**30) is None
    assert 0 < busy_s([0]) <= busy_s([])
