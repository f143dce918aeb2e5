"""MIG slices: NVIDIA's table, and what a GPU tells of itself."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import pytest

from medn.devices.mig import GPUS, gpu_of, nvml_gpu


@pytest.mark.parametrize("gpu", GPUS.values(), ids=lambda gpu: gpu.name)
def test_slices_are_parts_of_their_gpu(gpu: object) -> None:
    assert gpu.profiles  # type: ignore[attr-defined]
    for profile in gpu.profiles:  # type: ignore[attr-defined]
        assert 0 < profile.compute_share < 1
        assert profile.memory_bytes <= 1.03 * profile.memory_share * gpu.memory_bytes  # type: ignore[attr-defined]
        assert profile.instances * profile.memory_share <= 1
        assert profile.name == f"{round(7 * profile.compute_share)}g.{profile.memory_bytes / 1e9:.0f}gb"


@pytest.mark.parametrize(
    ("device", "gpu"),
    [
        ("A100", "A100-40GB"),
        ("NVIDIA A100-SXM4-80GB", "A100-80GB"),
        ("a100_sxm", "A100-40GB"),
        ("h100_sxm", "H100-80GB"),
        ("NVIDIA H100 NVL 94GB", None),
        ("h200_sxm", "H200-141GB"),
        ("b200", "B200-180GB"),
        ("GB200", None),
        ("GH200", None),
        ("torch", None),
        ("L40S", None),
    ],
)
def test_a_gpu_is_known_by_its_name(device: str, gpu: str | None) -> None:
    found = gpu_of(device)
    assert (found.name if found else None) == gpu


class FakeNvml(ModuleType):
    """The part of NVML's documented interface that is read, for a GPU with three profiles."""

    NVML_GPU_INSTANCE_PROFILE_COUNT = 4

    class NVMLError(Exception):
        pass

    def nvmlInit(self) -> None:  # noqa: N802
        pass

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:  # noqa: N802
        return index

    def nvmlDeviceGetName(self, device: int) -> str:  # noqa: N802
        return "NVIDIA H100 80GB HBM3"

    def nvmlDeviceGetMemoryInfo(self, device: int) -> SimpleNamespace:  # noqa: N802
        return SimpleNamespace(total=80 * 2**30)

    def nvmlDeviceGetGpuInstanceProfileInfo(self, device: int, profile: int) -> SimpleNamespace:  # noqa: N802
        known = {0: ("MIG 7g.80gb", 132, 80, 1), 1: ("MIG 1g.10gb", 16, 10, 7), 3: ("MIG 1g.10gb+me", 16, 10, 1)}
        if profile not in known:
            raise self.NVMLError("not supported")
        name, count, memory, instances = known[profile]
        return SimpleNamespace(
            name=name.encode(),
            multiprocessorCount=count,
            memorySizeMB=memory * 1024,
            instanceCount=instances,
            sliceCount=int(name[4]),
        )


def test_a_gpu_tells_its_own_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml("pynvml"))
    monkeypatch.setattr("medn.devices.mig.is_installed", lambda package: True)
    gpu = gpu_of("H100")
    assert gpu is not None
    assert gpu.source == "NVML"
    (profile,) = gpu.profiles
    assert (profile.name, profile.instances) == ("1g.10gb", 7)
    assert profile.compute_share == pytest.approx(16 / 132)
    assert profile.memory_share == pytest.approx(1 / 8)
    assert gpu_of("A100") == GPUS["A100-40GB"]


def test_without_a_gpu_the_table_holds() -> None:
    pytest.importorskip("pynvml")
    if nvml_gpu() is None:
        assert gpu_of("H100") == GPUS["H100-80GB"]
