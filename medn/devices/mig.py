"""MIG: the slices that NVIDIA's large GPUs can be cut into, from NVIDIA's table or from the GPU itself.

The table is that of the Multi-Instance GPU User Guide (docs.nvidia.com/datacenter/tesla/mig-user-guide, "Supported MIG
Profiles"): sevenths of the multiprocessors, eighths of the memory and of its bandwidth. Where NVML shows such a GPU,
its own numbers stand in place of the table's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from medn.core.packages import is_installed


@dataclass(frozen=True)
class MigProfile:
    """A slice of a GPU."""

    name: str
    compute_share: float
    """Of the multiprocessors."""
    memory_share: float
    """Of the memory, and of its bandwidth."""
    memory_bytes: float
    instances: int
    """How many of them one GPU can be cut into."""

    @property
    def share(self) -> float:
        """Of the GPU: what others cannot use any more, of what there is least of left."""
        return max(self.compute_share, self.memory_share)


@dataclass(frozen=True)
class MigGpu:
    name: str
    memory_bytes: float
    profiles: tuple[MigProfile, ...]
    """The smallest first."""
    source: str = "NVIDIA's MIG user guide"


_CUTS = ((1, 1, 7), (1, 2, 4), (2, 2, 3), (3, 4, 2), (4, 4, 1))
"""Sevenths of the multiprocessors, eighths of the memory, and how many there can be; the same for all of these GPUs."""


def _gpu(name: str, memory_gb: int, *sizes_gb: int) -> MigGpu:
    """A GPU whose slices have these gigabytes, as their names say them: what can be used is a little more."""
    profiles = tuple(
        MigProfile(f"{sevenths}g.{size}gb", sevenths / 7, eighths / 8, size * 1e9, instances)
        for (sevenths, eighths, instances), size in zip(_CUTS, sizes_gb, strict=True)
    )
    return MigGpu(name, memory_gb * 1e9, profiles)


GPUS: Mapping[str, MigGpu] = {
    gpu.name: gpu
    for gpu in (
        _gpu("A100-40GB", 40, 5, 10, 10, 20, 20),
        _gpu("A100-80GB", 80, 10, 20, 20, 40, 40),
        _gpu("H100-80GB", 80, 10, 20, 20, 40, 40),
        _gpu("H200-141GB", 141, 18, 35, 35, 71, 71),
        _gpu("B200-180GB", 180, 23, 45, 45, 90, 90),
    )
}

_NAMED = (
    (r"A100(?=.*80)", "A100-80GB"),
    (r"A100", "A100-40GB"),
    (r"\bH100(?!.*(94|96))", "H100-80GB"),
    (r"\bH200", "H200-141GB"),
    (r"\bB200", "B200-180GB"),
)
"""How names of devices, as tables and drivers write them, tell which GPU is meant. GB200 and the like are others."""


def gpu_of(device: str) -> MigGpu | None:
    """The GPU that a device is by its name; None where it is none of these. An A100 of unknown size is the small one.

    >>> [gpu.name if (gpu := gpu_of(name)) else None for name in ("a100_80gb_pcie", "H200_sxm", "laptop", "gb200")]
    ['A100-80GB', 'H200-141GB', None, None]
    """
    spelled = re.sub(r"[^A-Z0-9]+", " ", device.upper())
    named = next((name for pattern, name in _NAMED if re.search(pattern, spelled)), None)
    if named is None:
        return None
    here = nvml_gpu()
    return here if here and here.name == named else GPUS[named]


def nvml_gpu(index: int = 0) -> MigGpu | None:
    """The GPU of this machine with the slices that it tells of itself; None where there is none that can be cut."""
    if not is_installed("pynvml"):
        return None
    import pynvml

    try:
        pynvml.nvmlInit()
        device = pynvml.nvmlDeviceGetHandleByIndex(index)
        name = pynvml.nvmlDeviceGetName(device)
        memory_bytes = float(pynvml.nvmlDeviceGetMemoryInfo(device).total)
    except pynvml.NVMLError:
        return None
    named = _named_with_memory(name.decode() if isinstance(name, bytes) else str(name), memory_bytes)
    found = [_nvml_profile(device, number) for number in range(pynvml.NVML_GPU_INSTANCE_PROFILE_COUNT)]
    profiles = [each for each in found if each is not None]
    whole = max((multiprocessors for _, multiprocessors in profiles), default=0)
    if named is None or not whole:
        return None
    slices = [
        MigProfile(
            profile.name,
            multiprocessors / whole,
            round(8 * profile.memory_bytes / memory_bytes) / 8,
            profile.memory_bytes,
            profile.instances,
        )
        for profile, multiprocessors in profiles
        # A plain slice: one with media engines is no faster, and the largest is the whole GPU.
        if "+" not in profile.name and multiprocessors < whole
    ]
    slices.sort(key=lambda each: (each.compute_share, each.memory_bytes))
    return MigGpu(named, memory_bytes, tuple(slices), "NVML")


def _named_with_memory(name: str, memory_bytes: float) -> str | None:
    """An A100 does not always say in its name how large it is."""
    spelled = re.sub(r"[^A-Z0-9]+", " ", f"{name.upper()} {memory_bytes / 1e9:.0f}")
    return next((known for pattern, known in _NAMED if re.search(pattern, spelled)), None)


def _nvml_profile(device: object, number: int) -> tuple[MigProfile, int] | None:
    """One profile and its multiprocessors; None where the GPU does not have it."""
    import pynvml

    try:
        info = pynvml.nvmlDeviceGetGpuInstanceProfileInfo(device, number)
    except pynvml.NVMLError:
        return None
    name = info.name.decode() if isinstance(info.name, bytes) else str(info.name)
    name = name.removeprefix("MIG ").strip() or f"{info.sliceCount}g.{info.memorySizeMB / 1024:.0f}gb"
    profile = MigProfile(name, 0.0, 0.0, info.memorySizeMB * 2**20, info.instanceCount)
    return profile, int(info.multiprocessorCount)
