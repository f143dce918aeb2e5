"""Memory, energy, cache and probes: what is read off the machine, or the reason why it cannot be."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
import pytest

from medn.devices.cache import cache_flusher
from medn.devices.energy import cpu_energy_meter, gpu_energy_meter
from medn.devices.memory import PeakMemory
from medn.devices.probe import FileProbe, probes, reading

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@linux_only
def test_peak_memory_sees_a_block_that_is_gone_again() -> None:
    with PeakMemory() as peak:
        np.ones(10_000_000).sum()
    assert peak.bytes is not None
    assert 70e6 < peak.bytes < 120e6


def test_peak_memory_says_why_it_cannot_be_read(tmp_path: Path) -> None:
    with PeakMemory(process=tmp_path / "none") as peak:
        pass
    assert peak.bytes is None
    assert "cannot be reset" in peak.reason


def make_package(folder: Path, name: str, energy_uj: int) -> Path:
    package = folder / name
    package.mkdir()
    (package / "energy_uj").write_text(f"{energy_uj}\n")
    (package / "max_energy_range_uj").write_text("1000000\n")
    return package


def test_rapl_adds_up_packages_and_undoes_wrapping(tmp_path: Path) -> None:
    first = make_package(tmp_path, "intel-rapl:0", 900_000)
    second = make_package(tmp_path, "intel-rapl:1", 0)
    make_package(tmp_path, "intel-rapl:0:0", 5)  # a part of package 0, already counted there
    meter, reason = cpu_energy_meter(tmp_path)
    assert meter is not None, reason
    (first / "energy_uj").write_text("100000")  # wrapped: 200,000 more
    (second / "energy_uj").write_text("300000")
    assert meter.joules() == pytest.approx(0.5)
    (second / "energy_uj").write_text("400000")
    assert meter.joules() == pytest.approx(0.6)


def test_a_machine_without_counters_says_so(tmp_path: Path) -> None:
    meter, reason = cpu_energy_meter(tmp_path)
    assert meter is None
    assert "no RAPL counters" in reason


def test_a_counter_that_is_no_number_is_a_reason(tmp_path: Path) -> None:
    package = make_package(tmp_path, "intel-rapl:0", 0)
    (package / "energy_uj").write_text("broken")
    meter, reason = cpu_energy_meter(tmp_path)
    assert meter is None
    assert "cannot be read" in reason


def test_a_gpu_is_metered_or_the_reason_is_told() -> None:
    meter, reason = gpu_energy_meter()
    assert (meter is None) == bool(reason)


@pytest.mark.serial
def test_flushing_pushes_data_out_of_the_cache() -> None:
    data = np.ones(250_000)  # 2 MB: stays in the last level of cache when read again and again
    flush = cache_flusher(64 * 2**20)

    def fastest(before: bool) -> float:
        times = []
        for _ in range(15):
            if before:
                flush()
            started = time.perf_counter()
            data.sum()
            times.append(time.perf_counter() - started)
        return min(times)

    assert fastest(before=True) > 1.15 * fastest(before=False)


@pytest.mark.parametrize("name", list(probes))
def test_every_probe_reads_a_number_or_nothing(name: str) -> None:
    value = probes[name].read()
    assert value is None or value >= 0


def test_a_file_probe_scales_what_it_reads(tmp_path: Path) -> None:
    (tmp_path / "temp").write_text("42000\n")
    assert FileProbe("temperature", tmp_path / "temp", 0.001).read() == pytest.approx(42.0)


def test_a_file_probe_without_its_file_reads_nothing(tmp_path: Path) -> None:
    assert FileProbe("temperature", tmp_path / "none").read() is None


class Shaky:
    name = "shaky"

    def __init__(self, answer: object) -> None:
        self.answer = answer

    def read(self) -> float | None:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("answer", "number", "reason"),
    [
        (OSError("no such sensor"), None, "OSError: no such sensor"),
        (float("nan"), None, "it read nan, which is no finite number"),
        (float("inf"), None, "it read inf, which is no finite number"),
        ("warm", None, "ValueError: could not convert string to float: 'warm'"),
        (np.float32(1.5), 1.5, ""),
        (None, None, ""),
    ],
)
def test_a_probe_without_a_number_says_why(answer: object, number: float | None, reason: str) -> None:
    assert reading(Shaky(answer)) == (number, reason)
