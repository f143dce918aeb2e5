"""A sweep: every point is visited briefly in passes spread over the run, each visit committed as soon as it is made.

The plan follows from the config and the passes from the seed, so a sweep that was stopped, however it was stopped,
goes on by being started again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from medn.core.data_sheet import NO_SHEET, Sheets
from medn.core.environment import differences, environment_id, environment_manifest
from medn.core.errors import DeviceUnavailable, StoreError
from medn.core.store import Store
from medn.core.values import Point, Visit
from medn.devices.backend import Backend, backends
from medn.devices.cpu_sheet import cpu_sheet
from medn.devices.probe import FileProbe, ReadsNumber, probes
from medn.layer_generators.plan import pass_order, plan_points
from medn.layer_generators.sweep import SweepConfig
from medn.measuring.visits import Visitor
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


def find_devices(config: SweepConfig) -> dict[str, Backend]:
    """The backend of every device of the config, or one error that names all that are missing."""
    found = {device.name: backends[device.backend] for device in config.devices}
    missing = [reason for backend in found.values() if (reason := backend.missing())]
    if missing:
        raise DeviceUnavailable("; ".join(dict.fromkeys(missing)))
    return found


def find_probes(config: SweepConfig) -> list[ReadsNumber]:
    """The probes of the config, shipped ones by name and files as declared."""
    return [
        FileProbe(chosen.name, Path(chosen.file), chosen.scale) if chosen.file else probes[chosen.name]
        for chosen in config.probes
    ]


def run_sweep(
    config: SweepConfig,
    folder: RunFolder,
    *,
    seconds: float | None = None,
    mix_environments: bool = False,
    on_visit: OnVisit | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> SweepOutcome:
    """Make or resume the run in `folder`. `seconds` bounds this call alone."""
    began = clock()
    devices = find_devices(config)
    points = plan_points(config).points
    visits, timed_s = 0, 0.0
    with folder.locked(), folder.store() as store:
        environment = _enter_environment(store, devices, mix_environments)
        keep_dtypes(store, config.dtypes)
        kept = {"inputs": config.inputs, "drop": config.drop, "unstable_above": config.measure.unstable_above}
        named = {device.name: device.backend for device in config.devices}
        store.note(SHEETS_NOTE, _sheets(config, devices, store.read_note(SHEETS_NOTE) or {}))
        store.note("config", {"name": config.name, "seed": config.seed, "backends": named, **kept})
        with Visitor(devices, config.measure, find_probes(config), environment, folder.onnx_cache) as visitor:
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


def _sheets(config: SweepConfig, devices: Mapping[str, Backend], kept: Sheets) -> Sheets:
    """The data sheet of every device: as the config says, as it was measured before, or measured now for a CPU."""
    sheets = {device.name: device.sheet.numbers or kept.get(device.name, NO_SHEET) for device in config.devices}
    silent = [name for name, sheet in sheets.items() if not sheet and devices[name].torch_device == "cpu"]
    measured = cpu_sheet() if silent else NO_SHEET
    return {**kept, **sheets, **dict.fromkeys(silent, measured)}


def _enter_environment(store: Store, devices: Mapping[str, Backend], mix_environments: bool) -> str:
    """This machine's environment, refused where the run was measured in another one."""
    versions = {name: version for backend in devices.values() for name, version in backend.versions().items()}
    manifest = environment_manifest(versions)
    environment = environment_id(manifest)
    others = {key: other for key, other in store.environments().items() if key != environment}
    if others and not mix_environments:
        other = next(iter(others.values()))
        words = f"imported from {other['source']}" if "source" in other else "; ".join(differences(manifest, other))
        raise StoreError(
            f"{store.path.parent} was measured in another environment ({words}). Choose another folder with --run, "
            "or pass --mix-environments to keep both, each row marked with its own"
        )
    store.add_environment(environment, manifest)
    return environment


def _visits_due(config: SweepConfig, points: list[Point], store: Store) -> Iterator[tuple[int, int, Point]]:
    """Every visit that is still to be made, with its pass and how many are planned in all.

    After the planned passes come further ones for the points that do not repeat well.
    """
    measure = config.measure
    visited = store.visited()
    todo = [
        [point for point in pass_order(points, config.seed, number) if number not in visited.get(point.key, {})]
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
    found = ((measurement, chosen.target.split_half_difference(measurement)) for measurement in measurements)
    return {measurement.point.key for measurement, difference in found if difference and difference > threshold}
