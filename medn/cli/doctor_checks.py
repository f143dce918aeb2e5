"""The checks of `medn doctor` that what is written about a machine answers, here or elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class Check:
    name: str
    status: Literal["ok", "warn", "missing"]
    found: str
    advice: str = ""


def machine_checks(manifest: dict[str, Any]) -> Iterator[Check]:
    """What a machine is, and what stands between us and it."""
    cpu, container = manifest["cpu"], manifest["container"]
    yield Check("cpu", "ok", f"{cpu['model'] or 'unknown'}, {cpu['architecture']}, {cpu['vector_extensions'] or ''}")
    if cpu["usable_cores"] > 1:
        yield Check("cores", "ok", f"{cpu['usable_cores']} of {cpu['logical_cores']} usable")
    else:
        yield Check("cores", "warn", "1 usable", "medn and the measured layer share it; expect more disturbed samples")
    if cpu["cache_bytes"]:
        sizes = ", ".join(f"{name} {size / 1024:.0f} KiB" for name, size in cpu["cache_bytes"].items())
        yield Check("caches", "ok", sizes)
    else:
        yield Check("caches", "warn", "sizes unknown", "cold-cache measurements assume a large last-level cache")
    yield _governor(cpu["governor"])
    if cpu["hypervisor"]:
        yield Check("hypervisor", "warn", "virtual machine", "other guests disturb unseen; use many short visits")
    yield _quota(container["cpu_quota"], cpu["usable_cores"])
    limit = container["limit_bytes"]
    total = manifest["installed_bytes"]
    found = "unknown" if total is None else f"{total / 2**30:.1f} GiB"
    yield Check("memory", "ok", found if limit is None else f"{found}, container limited to {limit / 2**30:.1f} GiB")


def _governor(governor: str | None) -> Check:
    if governor is None:
        return Check("governor", "warn", "not visible", "the clock rate may move unseen; repeat doubtful measurements")
    if governor == "performance":
        return Check("governor", "ok", governor)
    return Check("governor", "warn", governor, "steadier with: sudo cpupower frequency-set -g performance")


def _quota(quota: float | None, cores: int) -> Check:
    if quota is None:
        return Check("container cpu limit", "ok", "none")
    if quota >= cores:
        return Check("container cpu limit", "ok", f"{quota:g} cores")
    return Check("container cpu limit", "warn", f"{quota:g} cores", "calls beyond it are stopped midway; raise it")
