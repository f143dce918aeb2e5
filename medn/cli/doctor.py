"""`medn doctor`: what this machine can measure, and what would make it measure better."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, Literal

from medn.cli.output import AsJson, say, write_rows
from medn.core.errors import DeviceUnavailable
from medn.core.packages import install

CALM = 0.10
"""Share of the machine that others may use before measurements are worth repeating later."""
COARSE_S = 1e-6
"""A clock that steps further than this cannot time one call of a small layer."""
CLOCK_READINGS = 1000


@dataclass(frozen=True)
class Check:
    name: str
    status: Literal["ok", "warn", "missing"]
    found: str
    advice: str = ""


def doctor(as_json: AsJson = False) -> None:
    """Check what this machine can measure.

    Each line says what was found and, where something could be better, what to do.

    \b
    Examples:
      medn doctor
      medn doctor --json
    """
    from medn.core.environment import environment_manifest

    manifest = environment_manifest({})
    checks = [*_machine(manifest), *_instruments(), *_devices()]
    sheet = _data_sheet()
    write_rows([asdict(check) for check in (*checks, sheet) if as_json or check is not sheet], as_json)
    if not any(check.name.startswith("device ") and check.status == "ok" for check in checks):
        raise DeviceUnavailable(f"no device is available here: {install('train')}")
    advices = sum(check.status != "ok" for check in checks)
    say(f"{sheet.name}: {sheet.found}")  # on one line, so that it can be pasted into a config
    say(f"{len(checks)} checks, {advices} with advice" if advices else f"{len(checks)} checks, all well")


def _machine(manifest: dict[str, Any]) -> Iterator[Check]:
    """What the machine is, and what stands between us and it."""
    cpu, container = manifest["cpu"], manifest["container"]
    yield Check("python", "ok", f"{manifest['python']} ({sys.executable})")
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


def _instruments() -> Iterator[Check]:
    """What measurements are read off."""
    import psutil

    from medn.devices.energy import cpu_energy_meter
    from medn.devices.memory import PeakMemory

    load = psutil.cpu_percent(interval=0.5) / 100
    found = f"{load:.0%} of the machine is busy"
    yield (
        Check("load", "ok", found) if load <= CALM else Check("load", "warn", found, "stop other work or measure later")
    )
    step = _clock_step_s()
    found = f"steps of {step * 1e9:.0f} ns"
    coarse = "small layers are timed several calls at once, so single slow calls are not seen"
    yield Check("clock", "ok", found) if step <= COARSE_S else Check("clock", "warn", found, coarse)
    yield _context_switches()
    with PeakMemory() as peak:
        pass
    yield Check("memory peak", "missing", peak.reason) if peak.reason else Check("memory peak", "ok", "can be reset")
    meter, reason = cpu_energy_meter()
    yield Check("energy", "ok", meter.source) if meter else Check("energy", "missing", reason)


def _data_sheet() -> Check:
    """What this CPU reaches at best, as a config takes it."""
    from medn.devices.cpu_sheet import cpu_sheet

    numbers = ", ".join(f"{name}: {number:g}" for name, number in cpu_sheet().items())
    return Check("data sheet", "ok", f"sheet: {{{numbers}}}")


def _clock_step_s() -> float:
    """The smallest step the clock was seen to make."""
    readings = [time.perf_counter() for _ in range(CLOCK_READINGS)]
    return min(after - before for before, after in pairwise(readings) if after > before)


def _context_switches() -> Check:
    try:
        import resource
    except ImportError:
        return Check("context switches", "missing", "not counted by this system", "disturbed samples go unmarked")
    scope = "per thread" if hasattr(resource, "RUSAGE_THREAD") else "per process"
    return Check("context switches", "ok", f"counted {scope}")


def _devices() -> Iterator[Check]:
    from medn.devices.backend import backends

    for backend in backends.values():
        reason = backend.missing()
        if reason:
            yield Check(f"device {backend.name}", "missing", reason)
        else:
            versions = ", ".join(f"{name} {version}" for name, version in backend.versions().items())
            yield Check(f"device {backend.name}", "ok", versions)
