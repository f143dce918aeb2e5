"""The background load: the duty cycle by a fake clock, the held utilisation on the real machine."""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest

from medn.devices.cpu_load import CpuLoad
from medn.devices.duty_cycle import run_duty_cycle


class FakeCore:
    """Time passes by working and sleeping; others may take a share of it while the load works."""

    def __init__(self, share: float, contention: float = 0.0, oversleep_s: float = 0.0) -> None:
        self.now = self.used = 0.0
        self.share = share
        self.contention = contention
        self.oversleep_s = oversleep_s

    def work(self) -> None:
        self.used += 1e-4
        self.now += 1e-4 / (1 - self.contention)

    def sleep(self, seconds: float) -> None:
        self.now += seconds + self.oversleep_s

    def hold(self, seconds: float) -> float:
        began, used = self.now, self.used
        run_duty_cycle(
            target=lambda: self.share,
            work=self.work,
            used_s=lambda: self.used,
            alive=lambda: self.now - began < seconds,
            report=lambda used: None,
            clock=lambda: self.now,
            sleep=self.sleep,
        )
        return (self.used - used) / (self.now - began)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9])
def test_the_duty_cycle_uses_its_share(share: float) -> None:
    assert FakeCore(share).hold(10.0) == pytest.approx(share, abs=0.01)


def test_sleeping_too_long_is_made_good() -> None:
    assert FakeCore(0.5, oversleep_s=1e-3).hold(10.0) == pytest.approx(0.5, abs=0.02)


def test_what_others_held_is_not_caught_up_later() -> None:
    core = FakeCore(0.5, contention=0.8)
    assert core.hold(5.0) < 0.3
    core.contention = 0.0
    assert core.hold(5.0) == pytest.approx(0.5, abs=0.02)


@pytest.mark.serial
@pytest.mark.parametrize("asked", [0.3, 0.7])
def test_the_asked_utilization_is_held_on_this_machine(asked: float) -> None:
    with CpuLoad() as load:
        load.hold(asked)
        readings = []
        for _ in range(6):
            time.sleep(0.3)
            load.correct()
            readings.append(load.utilization_now(0.2))
    if load.others >= asked:
        pytest.skip("other programs use more than the asked utilisation")
    assert statistics.median(readings) == pytest.approx(asked, abs=0.1)


def test_the_load_ends_with_its_block() -> None:
    with CpuLoad() as load:
        load.hold(0.5)
        processes = list(load._processes)
        assert len(processes) == load.cores
    assert all(process.poll() is not None for process in processes)


HOLDING = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a test that runs in the background inherits none
from medn.devices.cpu_load import CpuLoad
with CpuLoad(cores=1) as load:
    load.hold(0.2)
    try:
        print(load._processes[0].pid, flush=True)
        time.sleep(60)
    except KeyboardInterrupt:
        sys.exit(130)
"""


def holding(folder: Path) -> subprocess.Popen[str]:
    """A program that holds a load, as a terminal would start it."""
    return subprocess.Popen(
        [sys.executable, "-c", HOLDING],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(folder)},
        start_new_session=True,
    )


def test_an_interrupt_at_the_keyboard_does_not_make_the_load_complain(tmp_path: Path) -> None:
    with holding(tmp_path) as program:
        assert program.stdout
        program.stdout.readline()
        os.killpg(program.pid, signal.SIGINT)
        _, complaints = program.communicate(timeout=30)
    assert (program.returncode, complaints) == (130, "")


def test_a_killed_program_leaves_neither_load_nor_files(tmp_path: Path) -> None:
    with holding(tmp_path) as program:
        assert program.stdout
        load = int(program.stdout.readline())
        program.kill()
        program.communicate(timeout=30)
    deadline = time.monotonic() + 30
    while Path(f"/proc/{load}").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not Path(f"/proc/{load}").exists()
    assert list(tmp_path.iterdir()) == []
