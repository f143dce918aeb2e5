"""The machine a measurement was made on: what decides a latency, read without any tool and without ever failing.

What a system does not tell is None. The roots of the system's files are arguments, so a test can lay out its own.
"""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medn.core.values import Scalar, content_key

Manifest = dict[str, Any]

VECTOR_EXTENSIONS = (
    *("sse4_2", "avx", "avx2", "fma", "f16c", "avx512f", "avx512_vnni", "avx512_bf16", "avx_vnni", "amx_tile"),
    *("asimd", "asimdhp", "asimddp", "sve", "sve2", "bf16", "i8mm"),
)
"""CPU flags that choose a kernel; virtual machines often hide the model's name but not these."""

DEFAULT_CACHE_BYTES = 32 * 2**20
"""Assumed where the system does not tell its cache sizes."""

UNLIMITED_BYTES = 1 << 60
"""Version 1 control groups write "no limit" as a number near the largest one there is."""


@dataclass(frozen=True)
class SystemFiles:
    """Where the kernel describes the machine."""

    proc: Path = Path("/proc")
    sys: Path = Path("/sys")

    @property
    def first_core(self) -> Path:
        return self.sys / "devices/system/cpu/cpu0"


SYSTEM_FILES = SystemFiles()


def environment_manifest(backend_versions: Mapping[str, str], files: SystemFiles = SYSTEM_FILES) -> Manifest:
    """Everything worth knowing about this machine, as plain JSON values."""
    described = _cpu_description(files)
    flags = described.get("flags", described.get("Features"))
    scaling = files.first_core / "cpufreq"
    return {
        "cpu": {
            "model": _cpu_model(described),
            "architecture": platform.machine() or None,
            "vector_extensions": None if flags is None else " ".join(sorted({*flags.split()} & {*VECTOR_EXTENSIONS})),
            "logical_cores": os.cpu_count(),
            "usable_cores": allowed_cores(),
            "cache_bytes": cache_bytes(files),
            "governor": _text(scaling / "scaling_governor"),
            "lowest_hz": _number(scaling / "scaling_min_freq", scale=1000),
            "highest_hz": _number(scaling / "scaling_max_freq", scale=1000),
            "hypervisor": None if flags is None else "hypervisor" in flags.split(),
        },
        "installed_bytes": _installed_bytes(),
        "container": {"cpu_quota": _cpu_quota(files), "limit_bytes": _memory_limit(files)},
        "os": {"name": platform.system() or None, "release": platform.release() or None},
        "python": platform.python_version(),
        "libraries": dict(backend_versions),
    }


def environment_id(manifest: Manifest) -> str:
    """The name of all machines alike: equal exactly where `differences` has nothing to say."""
    return content_key(_deciding(manifest))


def differences(here: Manifest, run: Manifest, places: tuple[str, str] = ("here", "in the run")) -> list[str]:
    """What may make latencies differ between two machines, one sentence each; `places` are what they are called.

    >>> here, run = environment_manifest({"torch": "2.12.0"}), environment_manifest({"torch": "2.13.0"})
    >>> differences(here, run)
    ['torch: 2.12.0 here, 2.13.0 in the run']
    """
    ours, theirs = _deciding(here), _deciding(run)
    return [
        f"{name}: {_words(ours.get(name))} {places[0]}, {_words(theirs.get(name))} {places[1]}"
        for name in {**theirs, **ours}
        if ours.get(name) != theirs.get(name)
    ]


def disagreements(here: Manifest, run: Manifest, places: tuple[str, str] = ("here", "in the run")) -> list[str]:
    """The differences in what both tell: a run may hold libraries of several devices, or of others than this one.

    >>> here, run = environment_manifest({"torch": "2.12.0"}), environment_manifest({"openvino": "2026.4"})
    >>> disagreements(here, run)
    []
    """
    return differences(_with_libraries_of(run, here), _with_libraries_of(here, run), places)


def _with_libraries_of(other: Manifest, manifest: Manifest) -> Manifest:
    kept = {name: version for name, version in manifest["libraries"].items() if name in other["libraries"]}
    return {**manifest, "libraries": kept}


def describe_environment(manifest: Mapping[str, Any]) -> str:
    """A machine in one line; for imported rows, the table they came from."""
    if "source" in manifest:
        return f"imported from {manifest['source']}"
    cpu = manifest["cpu"]
    libraries = [f"{name} {version}" for name, version in manifest["libraries"].items()]
    cores = f"{cpu['usable_cores']} core" + ("s" if cpu["usable_cores"] != 1 else "")
    return ", ".join([cpu["model"] or "unknown CPU", cores, *libraries])


def usable_cores(files: SystemFiles = SYSTEM_FILES) -> int:
    """How many processes can compute at once: the cores this one may run on, or fewer where a container says so."""
    quota = _cpu_quota(files)
    return allowed_cores() if quota is None else max(1, min(allowed_cores(), math.ceil(quota)))


def allowed_cores() -> int:
    """Logical cores this process may run on; `taskset` leaves fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def cache_bytes(files: SystemFiles = SYSTEM_FILES) -> dict[str, int]:
    """Size of each cache a core sees: L1d, L1i, L2, L3. Empty where the system does not say."""
    sizes: dict[str, int] = {}
    for folder in sorted((files.first_core / "cache").glob("index*")):
        level, kind, size = (_text(folder / name) for name in ("level", "type", "size"))
        if level and size and size.rstrip("KMG").isdigit():
            suffix = {"Data": "d", "Instruction": "i"}.get(kind or "", "")
            unit = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(size[-1], 1)
            sizes[f"L{level}{suffix}"] = int(size.rstrip("KMG")) * unit
    return sizes


def last_level_cache_bytes(files: SystemFiles = SYSTEM_FILES) -> int | None:
    """The largest cache, which a cold measurement must flush."""
    return max(cache_bytes(files).values(), default=None)


def largest_cache_bytes(environments: Mapping[str, Any]) -> float:
    """The largest cache among machines that were measured, as far as what is written about them tells.

    >>> largest_cache_bytes({"here": {"cpu": {"cache_bytes": {"L2": 1048576, "L3": 16777216}}}})
    16777216.0
    """
    sizes: list[float] = []
    for environment in environments.values():
        known: Any = environment
        for name in ("cpu", "cache_bytes"):
            known = known.get(name) if isinstance(known, Mapping) else None
        if isinstance(known, Mapping):
            sizes += [float(size) for size in known.values() if type(size) in (int, float) and 0 < size < 1e15]
    return max(sizes, default=float(DEFAULT_CACHE_BYTES))


def clock_hz(files: SystemFiles = SYSTEM_FILES) -> float | None:
    """The highest clock of the first core, or where the system does not say, the one it runs at."""
    highest = _number(files.first_core / "cpufreq" / "scaling_max_freq", scale=1000)
    now = _cpu_description(files).get("cpu MHz", "").replace(".", "", 1)
    return highest or (float(_cpu_description(files)["cpu MHz"]) * 1e6 if now.isdigit() else None)


def _deciding(manifest: Manifest) -> dict[str, Scalar]:
    """The parts that decide a latency, by a name to show; what is not known is left out."""
    cpu, container = manifest["cpu"], manifest["container"]
    parts = {
        "cpu model": cpu["model"],
        "architecture": cpu["architecture"],
        "vector extensions": cpu["vector_extensions"],
        "usable cores": cpu["usable_cores"],
        **{f"{name} cache bytes": size for name, size in cpu["cache_bytes"].items()},
        "governor": cpu["governor"],
        "highest frequency in Hz": cpu["highest_hz"],
        "container's cpu quota": container["cpu_quota"],
        "container's memory bytes": container.get("limit_bytes", container.get("memory_bytes")),
        **manifest["libraries"],
        # Where several machines serve one device, each has an environment of its own.
        "reached over": manifest.get("reached_over"),
    }
    return {name: value for name, value in parts.items() if value is not None}


def _words(value: Scalar | None) -> str:
    return "none" if value is None else str(value)


def _text(path: Path) -> str | None:
    try:
        return path.read_text(errors="replace").strip() or None
    except OSError:
        return None


def _number(path: Path, scale: int = 1) -> int | None:
    text = _text(path)
    return int(text) * scale if text is not None and text.lstrip("-").isdigit() else None


def _cpu_description(files: SystemFiles) -> dict[str, str]:
    """The first value of every field of /proc/cpuinfo."""
    fields: dict[str, str] = {}
    for line in (_text(files.proc / "cpuinfo") or "").splitlines():
        name, _, value = line.partition(":")
        fields.setdefault(name.strip(), value.strip())
    return fields


def _cpu_model(described: Mapping[str, str]) -> str | None:
    for name in ("model name", "cpu model", "Model", "Hardware"):
        if described.get(name):
            return described[name]
    if "CPU part" in described:  # ARM servers name their cores by number alone
        return f"ARM implementer {described.get('CPU implementer')} part {described['CPU part']}"
    return platform.processor() or None


def _installed_bytes() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None


def _control_groups(files: SystemFiles, controller: str) -> Iterator[Path]:
    """The folders whose limits this process is under, from its own group up to the root."""
    root = files.sys / "fs/cgroup"
    for line in (_text(files.proc / "self/cgroup") or "").splitlines():
        _, controllers, group = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        top = root / controllers if controllers else root
        folder = top / group.lstrip("/")
        yield from (folder, *(parent for parent in folder.parents if parent.is_relative_to(top)))


def _cpu_quota(files: SystemFiles) -> float | None:
    """How many cores' worth of time the container may use."""
    quotas = []
    for group in _control_groups(files, "cpu"):
        quota, _, period = (_text(group / "cpu.max") or "").partition(" ")
        if not quota:
            quota, period = (_text(group / f"cpu.cfs_{part}_us") or "" for part in ("quota", "period"))
        if quota.isdigit() and period.isdigit() and int(period):
            quotas.append(int(quota) / int(period))
    return min(quotas, default=None)


def _memory_limit(files: SystemFiles) -> int | None:
    limits = [
        limit
        for group in _control_groups(files, "memory")
        for name in ("memory.max", "memory.limit_in_bytes")
        if (limit := _number(group / name)) is not None and limit < UNLIMITED_BYTES
    ]
    return min(limits, default=None)
