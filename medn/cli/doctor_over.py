"""`medn doctor --over`: what a device elsewhere can measure, what is missing there, and the command to install it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from medn.cli.doctor_checks import Check, machine_checks
from medn.cli.output import say, write_rows
from medn.core.errors import DeviceUnavailable, UsageError

if TYPE_CHECKING:
    from medn.remote.link import AgentLink, Greeting

ROUND_TRIPS = 5

OverOption = Annotated[
    str, typer.Option("--over", metavar="COMMAND", help='A device elsewhere, by a command such as "ssh orin".')
]
PythonOption = Annotated[
    str, typer.Option("--python", metavar="PYTHON", help="With --over: how Python is called there.")
]
InstallOption = Annotated[
    str,
    typer.Option(
        "--install", metavar="PACKAGES", help="With --over: lay libraries out there, as in onnxruntime,numpy."
    ),
]


def check_goes_with_over(over: str, python: str, install: str) -> None:
    if not over and (install or python != "python3"):
        raise UsageError("--python and --install go with --over")


def doctor_over(over: str, python: str, packages: Sequence[str], as_json: bool) -> None:
    """Write a row for each check; an error where nothing could be measured there."""
    from medn.remote.link import AgentLink, LinkLost

    link = AgentLink(over, python)
    try:
        if packages:
            _lay_out(link, packages)
            link = AgentLink(over, python)
        greeting = link.greet()
        lacking = link.lacking(greeting)
        checks = [*_greeted(link, greeting, lacking)]
        if not lacking:
            link.start(greeting)
            checks = [_round_trip(link), *checks, *_told(link, greeting)]
    except LinkLost as error:
        raise DeviceUnavailable(str(error)) from None
    finally:
        link.close()
    write_rows([asdict(check) for check in checks], as_json)
    if lacking:
        raise DeviceUnavailable(lacking)
    prefix = "device "
    ready = [
        check.name.removeprefix(prefix) for check in checks if check.name.startswith(prefix) and check.status == "ok"
    ]
    if not ready:
        raise DeviceUnavailable(f"{over}: no device is available there: {link.install_command(['onnxruntime'])}")
    advices = sum(check.status != "ok" for check in checks)
    say(f"{len(checks)} checks, {advices} with advice" if advices else f"{len(checks)} checks, all well")
    backend = "onnxruntime" if "onnxruntime" in ready else ready[0]
    there = "" if python == "python3" else f", python: {json.dumps(python)}"
    say(f"in a config: devices: [{{name: NAME, backend: {backend}, over: {json.dumps(over)}{there}}}]")


def _lay_out(link: AgentLink, packages: Sequence[str]) -> None:
    from medn.remote.wheels import libraries_for

    greeting = link.greet()
    archive = libraries_for(greeting, packages)
    say(f"sending {len(archive) / 1e6:.0f} MB of libraries for Python {greeting.python} on {greeting.machine}")
    link.lay_out(archive)
    link.close()
    say(f"they lie in {greeting.libraries} there, which medn alone uses; remove the folder to be rid of them")


def _greeted(link: AgentLink, greeting: Greeting, lacking: str) -> Iterator[Check]:
    found = f"{greeting.python} ({greeting.executable})"
    is_old = bool(lacking) and greeting.numpy
    yield Check("python", "missing" if is_old else "ok", found, lacking.partition(": ")[2] if is_old else "")
    if greeting.numpy:
        yield Check("numpy", "ok", "installed")
    else:
        yield Check("numpy", "missing", "not installed", _fix(link, ["numpy"]))


def _fix(link: AgentLink, packages: Sequence[str]) -> str:
    return f"{link.install_command(list(packages))}, or --install {','.join(packages)}"


def _round_trip(link: AgentLink) -> Check:
    times = []
    for _ in range(ROUND_TRIPS):
        began = time.perf_counter()
        link.ask({"do": "nothing"})
        times.append(time.perf_counter() - began)
    return Check("link", "ok", f"a round trip takes {min(times) * 1e3:.1f} ms")


def _told(link: AgentLink, greeting: Greeting) -> Iterator[Check]:
    """What the agent tells of its machine."""
    from medn.devices.backend import backends

    told: dict[str, Any] = link.ask({"do": "instruments"})
    yield from machine_checks(told["machine"])
    for name, reason in (("memory peak", told["memory_reason"]), ("energy", told["energy_reason"])):
        yield Check(name, "missing", reason) if reason else Check(name, "ok", "can be read")
    state = ", ".join(f"{name} {value:g}" for name, value in told["state"].items())
    yield Check("sensors", "ok", state) if state else Check("sensors", "missing", "neither clocks nor heat can be read")
    for name, found in told["backends"].items():
        if found["missing"]:
            packages = backends[name].packages_to_run if name in backends else ()
            fix = _fix(link, packages) if packages and "pip install" in found["missing"] else ""
            yield Check(f"device {name}", "missing", found["missing"].partition(": ")[0], fix)
        else:
            versions = ", ".join(f"{package} {version}" for package, version in found["versions"].items())
            yield Check(f"device {name}", "ok", versions)
