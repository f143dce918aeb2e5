"""`medn doctor`: what this machine can measure, and what would make it measure better."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from itertools import pairwise

from medn.cli.doctor_checks import Check, machine_checks
from medn.cli.doctor_over import InstallOption, OverOption, PythonOption, check_goes_with_over, doctor_over
from medn.cli.output import AsJson, say, write_rows
from medn.core.errors import DeviceUnavailable
from medn.core.packages import install

CALM = 0.10
"""Share of the machine that others may use before measurements are worth repeating later."""
COARSE_S = 1e-6
"""A clock that steps further than this cannot time one call of a small layer."""
CLOCK_READINGS = 1000


def doctor(
    over: OverOption = "", python: PythonOption = "python3", install_there: InstallOption = "", as_json: AsJson = False
) -> None:
    """Check what this machine, or a device elsewhere, can measure.

    Each line says what was found and, where something could be better, what to do.

    \b
    Examples:
      medn doctor
      medn doctor --json
      medn doctor --over "ssh orin"
      medn doctor --over "docker exec -i box" --python /opt/venv/bin/python
      medn doctor --over "ssh orin" --install onnxruntime
    """
    check_goes_with_over(over, python, install_there)
    if over:
        doctor_over(over, python, [name.strip() for name in install_there.split(",") if name.strip()], as_json)
        return
    from medn.core.environment import environment_manifest

    manifest = environment_manifest({})
    python_here = Check("python", "ok", f"{manifest['python']} ({sys.executable})")
    checks = [python_here, *machine_checks(manifest), *_instruments(), _engine(), *_devices()]
    sheet = _data_sheet()
    write_rows([asdict(check) for check in (*checks, sheet) if as_json or check is not sheet], as_json)
    if not any(check.name.startswith("device ") and check.status == "ok" for check in checks):
        raise DeviceUnavailable(f"no device is available here: {install('train')}")
    advices = sum(check.status != "ok" for check in checks)
    say(f"{sheet.name}: {sheet.found}")  # on one line, so that it can be pasted into a config
    say(f"{len(checks)} checks, {advices} with advice" if advices else f"{len(checks)} checks, all well")


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


def _engine() -> Check:
    """What answers queries."""
    from medn.program.engines import C, described, engine

    if engine() == C:
        return Check("engine", "ok", described())
    advice = "a layer takes a hundred times as long, a table three; pip builds the C engine where there is a compiler"
    return Check("engine", "warn", described(), advice)


def _devices() -> Iterator[Check]:
    from medn.devices.backend import backends

    for backend in backends.values():
        reason = backend.missing()
        if reason:
            yield Check(f"device {backend.name}", "missing", reason)
        else:
            versions = ", ".join(f"{name} {version}" for name, version in backend.versions().items())
            yield Check(f"device {backend.name}", "ok", versions)
