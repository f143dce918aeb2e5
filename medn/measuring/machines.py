"""The machines of a sweep: what reaches them, and what is written down before anything is measured on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from medn.core.data_sheet import NO_SHEET, Sheet, Sheets
from medn.core.environment import Manifest, disagreements
from medn.core.errors import StoreError
from medn.core.store import Store
from medn.devices.machine_client import Machines
from medn.devices.transport import Device, Transport
from medn.devices.visits import Visitor
from medn.layer_generators.sweep import DeviceChoice, SweepConfig
from medn.measuring.agreement import Difference, difference, name_apart, sentence
from medn.measuring.environments import enter_environments
from medn.measuring.far_lane import FarLane
from medn.measuring.lane import Events, Lane, LocalLane
from medn.measuring.side_by_side import Group, SideBySide
from medn.remote.supply import Supply
from medn.runs.tables import SHEETS_NOTE

APART_NOTE = "apart"

OnLink = Callable[[str, str], None]
"""Called with the name of a machine and a sentence, when the link to it was lost or is there again."""


def open_machines(
    config: SweepConfig, devices: Mapping[str, Device], onnx_cache: Path, on_link: OnLink | None, stack: ExitStack
) -> SideBySide:
    """The devices of a config in groups that are measured side by side; whatever is started ends with the stack."""
    events: Events = Events()
    ways: dict[tuple[str, ...], list[DeviceChoice]] = {}
    for choice in config.devices:
        ways.setdefault(tuple(choice.over), []).append(choice)
    far = [devices[choice.name] for choice in config.devices if choice.over]
    supply = Supply(onnx_cache) if any(not device.backend.builds_layers for device in far) else None
    if supply is not None:
        stack.callback(supply.stop)
    groups: list[Group] = []
    for commands, choices in ways.items():
        found = {choice.name: devices[choice.name] for choice in choices}
        lanes: Sequence[Lane] = [
            FarLane(over, choices[0].python, found, events, config.measure, config.probes, supply) for over in commands
        ] or [_local_lane(config, found, events, onnx_cache, alone=len(ways) == 1)]
        groups.append(Group(lanes, frozenset(found)))
    machines = SideBySide(
        groups,
        events,
        patience_s=config.measure.patience_s,
        on_link=lambda lane, sentence: on_link(lane.name, sentence) if on_link else None,
    )
    stack.callback(machines.close)
    return machines


def _local_lane(
    config: SweepConfig, devices: Mapping[str, Device], events: Events, onnx_cache: Path, alone: bool
) -> Lane:
    machines = Machines()
    visitor = Visitor(devices, config.measure, probes=config.probes, machines=machines, onnx_cache=onnx_cache)
    return LocalLane(devices, events, visitor, machines, alone)


class Entrance:
    """Keeps environment and data sheet of every device in the journal, and refuses what does not belong there."""

    def __init__(self, config: SweepConfig, store: Store, mix_environments: bool) -> None:
        self._config = config
        self._store = store
        self._mix_environments = mix_environments
        self._first_of: dict[str, tuple[str, Manifest]] = {}
        self._sheets: Sheets = store.read_note(SHEETS_NOTE) or {}
        stated = {device.name: device.sheet.numbers for device in config.devices if device.sheet.numbers}
        self._keep({**self._sheets, **stated})

    def enter(self, lane: Lane, manifests: Mapping[str, Manifest]) -> None:
        """A machine that answers: visits are marked with its environment, once that is the one they belong to."""
        if isinstance(lane, LocalLane):
            elsewhere = {device.name for device in self._config.devices if device.over}
        else:  # it is no other machine of the run, so only what was measured on it before counts
            elsewhere = {*self._known_devices(), *manifests}
            if len(self._commands(lane)) > 1:
                self._check_equal(lane, manifests)
                manifests = {name: {**manifest, "reached_over": lane.name} for name, manifest in manifests.items()}
        lane.environments = enter_environments(self._store, manifests, self._mix_environments, elsewhere)
        wanting = [name for name in manifests if self._wants_sheet(lane, name)]
        if isinstance(lane, LocalLane):
            measured: dict[Transport, Sheet] = {}
            for name in wanting:
                transport = lane.devices[name].transport
                if transport not in measured:
                    measured[transport] = lane.sheet_of(name)
                self._keep({**self._sheets, name: measured[transport]})
        elif wanting:
            lane.measure_sheet()

    def _commands(self, lane: Lane) -> list[str]:
        return next(device.over for device in self._config.devices if device.name in lane.devices)

    def _check_equal(self, lane: Lane, manifests: Mapping[str, Manifest]) -> None:
        """Machines that serve one device must be alike as far as they tell."""
        for name, manifest in manifests.items():
            first, known = self._first_of.setdefault(name, (lane.name, manifest))
            if found := disagreements(manifest, known):
                told = "; ".join(found).replace(" in the run", f" on {first}")
                raise StoreError(f"{lane.name} is no machine like {first} ({told}): give it a device of its own")

    def compare(self, machines: SideBySide, group: Group) -> None:
        """After a pass: keep machines apart that take longer or less than the first for the same points."""
        lanes = [lane for lane in group.lanes if lane.environments and lane.name not in machines.apart]
        if len(lanes) < 2:
            return
        measurements = [each for each in self._store.measurements() if each.point.key in group.compared]
        for lane in lanes[1:]:
            for device in lane.devices:
                of_device = [each for each in measurements if each.point.device == device]
                found = difference(of_device, lanes[0].environments[device], lane.environments[device])
                if found is not None and found.is_beyond_noise:
                    self._keep_apart(machines, lane, lanes[0], found)
                    break

    def _keep_apart(self, machines: SideBySide, lane: Lane, first: Lane, found: Difference) -> None:
        names = {name: name_apart(name, self._commands(lane), lane.name) for name in lane.devices}
        told = sentence(lane.name, first.name, found, names)
        for name, apart in names.items():
            self._store.move_visits(lane.environments[name], name, apart)
        self._store.note(APART_NOTE, {**(self._store.read_note(APART_NOTE) or {}), lane.name: told})
        machines.set_apart(lane, told)
        self._sheets = {**self._sheets, **{names[name]: self._sheets.get(name, NO_SHEET) for name in names}}
        self._keep(self._sheets)

    def known_apart(self) -> Mapping[str, str]:
        """Machines that an earlier call has found to be unequal."""
        return self._store.read_note(APART_NOTE) or {}

    def keep_sheet(self, lane: Lane, sheet: Sheet) -> None:
        self._keep({**self._sheets, **{name: sheet for name in lane.devices if self._wants_sheet(lane, name)}})

    def _known_devices(self) -> set[str]:
        return {device for devices in self._store.devices_by_environment().values() for device in devices}

    def _wants_sheet(self, lane: Lane, device: str) -> bool:
        """A CPU of which neither the config nor an earlier measurement tells one."""
        return not self._sheets.get(device) and lane.devices[device].backend.torch_device == "cpu"

    def _keep(self, sheets: Sheets) -> None:
        names = {device.name: NO_SHEET for device in self._config.devices}
        self._sheets = {name: dict(sheet) for name, sheet in {**names, **sheets}.items()}
        self._store.note(SHEETS_NOTE, self._sheets)
