"""A sweep: every point is visited briefly in passes spread over the run, each visit committed as soon as it is made.

The plan follows from the config and the passes from the seed, so a sweep that was stopped, however it was stopped,
goes on by being started again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from medn.core.calm import calm_visits
from medn.core.errors import UsageError
from medn.core.store import Store
from medn.core.values import Point, Visit
from medn.devices.backend import backends
from medn.devices.transport import THIS_MACHINE, Device, Transport
from medn.layer_generators.plan import listed_layers, pass_order, plan_points
from medn.layer_generators.sweep import Measure, SweepConfig
from medn.measuring.agreement import COMPARED_POINTS
from medn.measuring.machines import Entrance, OnLink, open_machines
from medn.measuring.side_by_side import Pass
from medn.runs.folder import RunFolder
from medn.runs.measured import read_measured, record_target
from medn.runs.stated_dtypes import keep_dtypes

FINAL_STATUSES = ("unsupported", "failed", "wrong")
"""A second visit would say the same."""

MOST_FAILED_VISITS = 2
"""A crash, a hang or want of memory may be the machine's doing, so it gets one more try."""

NextPoints = Callable[[Store], Sequence[Point]]
"""Asked whenever every visit to the points so far is made: those to go on with, none to end."""

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
    given_up: Mapping[str, str] = field(default_factory=dict)
    """Machines that were left out because they could not be reached, or could not measure, and why."""
    apart: Mapping[str, str] = field(default_factory=dict)
    """Machines whose visits are kept apart, as they are not equal to others of the same device, and what differs."""


def find_devices(config: SweepConfig, transports: Mapping[str, Transport] | None = None) -> dict[str, Device]:
    """The devices of the config by name; those without a transport are on this machine."""
    found = {
        choice.name: Device(backends[choice.backend], (transports or {}).get(choice.name, THIS_MACHINE))
        for choice in config.devices
    }
    without = [name for name, device in found.items() if not device.backend.draws_schedules]
    if config.programs.schedules and without:
        able = ", ".join(name for name in backends if backends[name].draws_schedules)
        raise UsageError(f"programs.schedules: {', '.join(without)} draws no schedules; devices that do: {able}")
    return found


def run_sweep(
    config: SweepConfig,
    folder: RunFolder,
    *,
    seconds: float | None = None,
    mix_environments: bool = False,
    on_visit: OnVisit | None = None,
    on_link: OnLink | None = None,
    clock: Callable[[], float] = time.monotonic,
    transports: Mapping[str, Transport] | None = None,
    next_points: NextPoints | None = None,
) -> SweepOutcome:
    """Make or resume the run in `folder`. `seconds` bounds this call alone; `transports` lead to devices elsewhere.

    Measured is what the config plans, or what `next_points` says instead.
    """
    began = clock()
    next_points = next_points or _once(plan_points(config).points)
    visits, timed_s, finished = 0, 0.0, True
    with ExitStack() as stack:
        machines = open_machines(config, find_devices(config, transports), folder.onnx_cache, on_link, stack)
        reached = machines.connect()
        stack.enter_context(folder.locked())
        store = stack.enter_context(folder.store())
        journal = Entrance(config, store, mix_environments)
        machines.enter, machines.on_sheet = journal.enter, journal.keep_sheet
        machines.on_pass = lambda group: journal.compare(machines, group)
        for lane, manifests in reached.items():
            if lane.name in journal.known_apart():
                machines.set_apart(lane, journal.known_apart()[lane.name])
            else:
                journal.enter(lane, manifests)
        keep_dtypes(store, config.dtypes)
        kept = {"inputs": config.inputs, "drop": config.drop, "unstable_above": config.measure.unstable_above}
        named = {device.name: device.backend for device in config.devices}
        store.note("config", {"name": config.name, "seed": config.seed, "backends": named, **kept})
        before = 0
        points: Sequence[Point] = ()
        known_apart: set[str] = set(machines.apart)
        while finished and (points := points if known_apart < set(machines.apart) else next_points(store)):
            known_apart = set(machines.apart)  # visits of a machine that was found apart are to be made on another
            plans = [
                VisitPlan(config, [each for each in points if each.device in group.devices], store)
                for group in machines.groups
            ]
            for group, plan in zip(machines.groups, plans, strict=True):
                group.passes = plan.passes()
                group.compared = plan.compared() if len(group.lanes) > 1 else frozenset()
            made = machines.visits(
                lambda point: _worth_visiting(store.statuses(point.key)),
                lambda: seconds is not None and clock() - began >= seconds,
            )
            for pass_number, point, visit in made:
                store.record([(point, visit)])
                if visit.status == "lost":
                    continue
                visits += 1
                timed_s += visit.samples.total_s
                if on_visit:
                    on_visit(pass_number, visits, before + sum(plan.planned for plan in plans), point, visit)
            before += sum(plan.planned for plan in plans)
            finished = machines.is_finished()
        probe_reasons = {name: reason for lane in machines.lanes for name, reason in lane.probe_reasons.items()}
        if probe_reasons:
            store.note("probe_reasons", probe_reasons)
        _, target = read_measured(store)
        record_target(store, target)
    return SweepOutcome(visits, clock() - began, timed_s, finished, probe_reasons, machines.given_up, machines.apart)


def _once(points: Sequence[Point]) -> NextPoints:
    plans = iter([points])
    return lambda store: next(plans, ())


class VisitPlan:
    """The visits to points that are still to be made, pass after pass."""

    def __init__(self, config: SweepConfig, points: Sequence[Point], store: Store) -> None:
        self.config = config
        self.points = points
        self.store = store
        visited, listed = store.visited(), listed_layers(config)
        self._visited = visited
        self._planned_passes = [
            [
                point
                for point in pass_order(points, config.seed, number, listed)
                if number not in visited.get(point.key, {})
            ]
            for number in range(config.measure.visits)
        ]
        self.planned = sum(map(len, self._planned_passes))
        """How many visits there are in all, as far as is known."""

    def compared(self) -> frozenset[str]:
        """A handful of points of each device, by their keys."""
        order = pass_order(self.points, self.config.seed, 0, listed_layers(self.config))
        devices = {point.device for point in order}
        chosen = [[point.key for point in order if point.device == name][:COMPARED_POINTS] for name in devices]
        return frozenset(key for keys in chosen for key in keys)

    def passes(self) -> Iterator[Pass]:
        """After the planned passes come further ones, each first for the points that had too few calm visits, then
        for those that do not repeat well."""
        measure = self.config.measure
        yield from enumerate(self._planned_passes)
        for number in range(measure.visits, measure.max_visits):
            disturbed, unstable = wanting_points(self.store, measure)
            order = [
                point
                for wanting in (disturbed, unstable - disturbed)
                for point in pass_order(self.points, self.config.seed, number)
                if point.key in wanting
                and number not in self._visited.get(point.key, {})
                and _worth_visiting(self.store.statuses(point.key))
            ]
            self.planned += len(order)
            yield number, order


def _worth_visiting(statuses: Mapping[int, str]) -> bool:
    failures = [status for status in statuses.values() if status != "ok"]
    return len(failures) < MOST_FAILED_VISITS and not any(status in FINAL_STATUSES for status in failures)


def wanting_points(store: Store, measure: Measure) -> tuple[set[str], set[str]]:
    """Keys of the points that had too few calm visits, and of those whose halves differ by too much."""
    measurements, chosen = read_measured(store)
    disturbed, unstable = set(), set()
    for measurement in measurements:
        calm = calm_visits(measurement)
        if calm is not None and calm < measure.calm_visits:
            disturbed.add(measurement.point.key)
        if (chosen.target.split_half_difference(measurement) or 0.0) > measure.unstable_above:
            unstable.add(measurement.point.key)
    return disturbed, unstable
