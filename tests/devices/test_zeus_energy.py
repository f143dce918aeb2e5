"""Energy through zeus: a stand-in for its documented interface, as no chip that needs it is at hand."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from medn.devices import energy, zeus_energy
from medn.devices.energy import cpu_energy_meter, gpu_energy_meter


@pytest.fixture
def zeus(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A module `zeus.device` whose functions a test fills in; nothing of NVIDIA is there."""
    package, device = ModuleType("zeus"), ModuleType("zeus.device")
    monkeypatch.setitem(sys.modules, "zeus", package)
    monkeypatch.setitem(sys.modules, "zeus.device", device)
    for module in (energy, zeus_energy):
        monkeypatch.setattr(module, "is_installed", lambda name: name == "zeus")
    monkeypatch.setattr(energy, "missing", lambda *rest: "reading a GPU's energy needs pynvml")
    return device


def chip(**told: Any) -> Any:
    return SimpleNamespace(get_total_energy_consumption=lambda: SimpleNamespace(**told))


def test_apple_silicon_is_the_sum_of_its_parts(zeus: ModuleType, tmp_path: Path) -> None:
    zeus.get_soc = lambda: chip(  # type: ignore[attr-defined]
        cpu_total_mj=1500, performance_cores_mj=[700, 800], gpu_mj=400, dram_mj=100, ane_mj=None
    )
    meter, reason = cpu_energy_meter(tmp_path)
    assert meter is not None, reason
    assert (meter.source, meter.joules()) == ("zeus", pytest.approx(2.0))


def test_a_jetson_tells_its_own_sum(zeus: ModuleType, tmp_path: Path) -> None:
    zeus.get_soc = lambda: chip(cpu_energy_mj=100.0, gpu_energy_mj=200.0, total_energy_mj=900.0)  # type: ignore[attr-defined]
    meter, _ = cpu_energy_meter(tmp_path)
    assert meter is not None
    assert meter.joules() == pytest.approx(0.9)


def test_an_amd_gpu_is_read_by_its_place(zeus: ModuleType) -> None:
    zeus.get_gpus = lambda: SimpleNamespace(get_total_energy_consumption=lambda index: 1000 + index)  # type: ignore[attr-defined]
    meter, reason = gpu_energy_meter(2)
    assert meter is not None, reason
    assert meter.joules() == pytest.approx(1.002)


def test_a_chip_that_zeus_cannot_read_is_said_with_both_reasons(zeus: ModuleType, tmp_path: Path) -> None:
    def none() -> None:
        raise RuntimeError("No observable SoC was found")

    zeus.get_soc = none  # type: ignore[attr-defined]
    meter, reason = cpu_energy_meter(tmp_path)
    assert meter is None
    assert "no RAPL counters" in reason
    assert "No observable SoC was found" in reason


def test_a_chip_that_tells_nothing_has_no_energy(zeus: ModuleType, tmp_path: Path) -> None:
    zeus.get_soc = lambda: chip(ane_mj=None)  # type: ignore[attr-defined]
    meter, reason = cpu_energy_meter(tmp_path)
    assert meter is None
    assert "tells no energy" in reason


def test_without_zeus_the_reason_is_that_of_before(tmp_path: Path) -> None:
    if zeus_energy.is_installed("zeus"):
        pytest.skip("zeus is installed")
    meter, reason = cpu_energy_meter(tmp_path)
    assert meter is None
    assert "zeus cannot" not in reason
    assert "zeus is" not in reason
