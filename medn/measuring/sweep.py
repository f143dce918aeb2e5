"""A sweep: every point is visited briefly in passes spread over the run, each visit committed as soon as it is made.

The plan follows from the config and the passes from the seed, so a sweep that was stopped, however it was stopped,
goes on by being started again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field

from medn.core.child import ChildFailed
from medn.core.data_sheet import NO_SHEET, Sheet, Sheets
from medn.core.environment import Manifest
from medn.core.errors import DeviceUnavailable
from medn.core.store import Store
from medn.core.values import Point, Visit
from medn.devices.backend import backends
from medn.devices.machine_client import Machines
from medn.devices.transport import THIS_MACHINE, Device, Transport
from medn.layer_generators.plan import listed_layers, pass_order, plan_points
from medn.layer_generators.sweep import SweepConfig
from medn.measuring.environments import enter_environments
from medn.measuring.visits import Visitor, device_answers
from medn.runs.folder import RunFolder
from medn.runs.measured import read_measured, record_target
from medn.runs.stated_dtypes import keep_dtypes
from medn.runs.tables import SHEETS_NOTE

FINAL_STATUSES = ("unsupported", "failed", "wrong")
"""A second visit would say the same."""

MOST_FAILED_VISITS = 2
"""A crash, a hang or want of memory may be the machine's doing, so it gets one more try."""

OnVisit = Callable[[int, int, int, Point, Visit], None]
"""Called after each visit: pass number, visits done and visits planned in this run so far, the point, the visit."""


@dataclass(frozen=True)
class SweepOutcome:
    """What one call of `run_sweep` did; what the run holds is told by its summary."""

    visits: int
    elapsed_s: float
    timed_s: float
    finished: bool
    """False where time ran out before every planned visit was made."""
    probe_reasons: Mapping[str, str] = field(default_factory=dict)
    """Probes that gave no number, and why."""


def find_devices(config: SweepConfig, transports: Mapping[str, Transport] | None = None) -> dict[str, Device]:
    """The devices of the config by name; those without a transport are on this machine."""
    return {
        choice.name: Device(backends[choice.backend], (transports or {}).get(choice.name, THIS_MACHINE))
        for choice in config.devices
    }


def device_environments(devices: Mapping[str, Device], machines: Machines) -> dict[str, Manifest]:
    """The environment of every device as its machine tells it, or one error that names all that is missing."""
    manifests: dict[str, Manifest] = {}
    reasons: list[str] = []
    for name, device in devices.items():
        machine = machines[device.transport]
        try:
            if missing := machine.missing(device.backend.name):
                reasons.append(missing)
            else:
                manifests[name] = machine.environment(device.backend.name)
        except ChildFailed as failure:
            reasons.append(f"device {name} does not start: {failure.reason}")
    if reasons:
        raise DeviceUnavailable("; ".join(dict.fromkeys(reasons)))
    return manifests


def run_sweep(
    config: SweepConfig,
    folder: RunFolder,
    *,
    seconds: float | None = None,
    mix_environments: bool = False,
    on_visit: OnVisit | None = None,
    clock: Callable[[], float] = time.monotonic,
    transports: Mapping[str, Transport] | None = None,
) -> SweepOutcome:
    """Make or resume the run in `folder`. `seconds` bounds this call alone; `transports` lead to devices elsewhere."""
    began = clock()
    devices = find_devices(config, transports)
    points = plan_points(config).points
    visits, timed_s = 0, 0.0
    with Machines() as machines, ExitStack() as stack:
        manifests = device_environments(devices, machines)
        stack.enter_context(folder.locked())
        store = stack.enter_context(folder.store())
        environments = enter_environments(store, manifests, mix_environments)
        keep_dtypes(store, config.dtypes)
        kept = {"inputs": config.inputs, "drop": config.drop, "unstable_above": config.measure.unstable_above}
        named = {device.name: device.backend for device in config.devices}
        store.note(SHEETS_NOTE, _sheets(config, devices, store.read_note(SHEETS_NOTE) or {}, machines))
        store.note("config", {"name": config.name, "seed": config.seed, "backends": named, **kept})
        visitor = Visitor(
            devices,
            config.measure,
            probes=config.probes,
            environments=environments,
            machines=machines,
            onnx_cache=folder.onnx_cache,
        )
        with visitor:
            due = _visits_due(config, points, store)
            finished = True
            for pass_number, planned, point in due:
                if seconds is not None and clock() - began >= seconds:
                    finished = False
                    break
                visit = visitor.visit(point, pass_number)
                store.record([(point, visit)])
                visits += 1
                timed_s += visit.samples.total_s
                if on_visit:
                    on_visit(pass_number, visits, planned, point, visit)
        if visitor.probe_reasons:
            store.note("probe_reasons", visitor.probe_reasons)
        _, target = read_measured(store)
        record_target(store, target)
    return SweepOutcome(visits, clock() - began, timed_s, finished, visitor.probe_reasons)


def _sheets(config: SweepConfig, devices: Mapping[str, Device], kept: Sheets, machines: Machines) -> Sheets:
    """The data sheet of every device: as the config says, as it was measured before, or measured now for a CPU."""
    sheets = {device.name: device.sheet.numbers or kept.get(device.name, NO_SHEET) for device in config.devices}
    measured: dict[Transport, Sheet] = {}
    for name, device in devices.items():
        if sheets[name] or device.backend.torch_device != "cpu":
            continue
        if device.transport not in measured:
            with device_answers(name):
                measured[device.transport] = machines[device.transport].cpu_sheet()
        sheets[name] = measured[device.transport]
    return {**kept, **sheets}


def _visits_due(config: SweepConfig, points: list[Point], store: Store) -> Iterator[tuple[int, int, Point]]:
    """Every visit that is still to be made, with its pass and how many are planned in all.

    After the planned passes come further ones for the points that do not repeat well.
    """
    measure = config.measure
    visited, listed = store.visited(), listed_layers(config)
    todo = [
        [point for point in pass_order(points, config.seed, number, listed) if number not in visited.get(point.key, {})]
        for number in range(measure.visits)
    ]
    planned = sum(len(order) for order in todo)
    for number, order in enumerate(todo):
        for point in order:
            if _worth_visiting(store.statuses(point.key)):
                yield number, planned, point
    for number in range(measure.visits, measure.max_visits):
        unstable = unstable_points(store, measure.unstable_above)
        order = [
            point
            for point in pass_order(points, config.seed, number)
            if point.key in unstable and number not in visited.get(point.key, {})
        ]
        planned += len(order)
        for point in order:
            yield number, planned, point


def _worth_visiting(statuses: Mapping[int, str]) -> bool:
    failures = [status for status in statuses.values() if status != "ok"]
    return len(failures) < MOST_FAILED_VISITS and not any(status in FINAL_STATUSES for status in failures)


def unstable_points(store: Store, threshold: float) -> set[str]:
    """Keys of the points whose halves differ by more than the threshold."""
    measurements, chosen = read_measured(store)
    differences = ((measurement, chosen.target.split_half_difference(measurement)) for measurement in measurements)
    return {measurement.point.key for measurement, difference in differences if difference and difference > threshold}
