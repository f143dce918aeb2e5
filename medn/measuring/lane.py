"""What makes visits on one machine: this one, or one at the other end of a link. What it has to say comes as events."""

from __future__ import annotations

import queue
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from medn.core.child import ChildFailed
from medn.core.data_sheet import Sheet
from medn.core.environment import Manifest
from medn.core.errors import DeviceUnavailable, reason_of
from medn.core.values import Point, Visit
from medn.devices.machine_client import Machines
from medn.devices.transport import Device
from medn.devices.visits import Visitor, device_answers


@dataclass(frozen=True)
class DueVisit:
    """One visit that is to be made. Numbers are given once in a sweep."""

    number: int
    pass_number: int
    point: Point


@dataclass(frozen=True)
class Connected:
    """The machine answers, and tells the environment of each of its devices."""

    lane: Lane
    manifests: Mapping[str, Manifest]


@dataclass(frozen=True)
class VisitMade:
    lane: Lane
    job: DueVisit
    visit: Visit


@dataclass(frozen=True)
class VisitDropped:
    """A visit that was not begun any more."""

    lane: Lane
    job: DueVisit


@dataclass(frozen=True)
class SheetTold:
    lane: Lane
    sheet: Sheet


@dataclass(frozen=True)
class LaneLost:
    """The machine cannot be reached now, and may be later."""

    lane: Lane
    reason: str
    was_silent: bool = False


@dataclass(frozen=True)
class Unavailable:
    """The machine answers, but something there has to be mended first."""

    lane: Lane
    reason: str


Event = Connected | VisitMade | VisitDropped | SheetTold | LaneLost | Unavailable
Events = queue.SimpleQueue[Event]
"""What all lanes of a sweep tell, in the order in which it happened."""


class Lane(ABC):
    """One machine of a sweep, with the devices on it."""

    name: str
    window: int = 1
    """How many visits it is given at a time."""

    def __init__(self, devices: Mapping[str, Device], events: Events) -> None:
        self.devices = devices
        self.events = events
        self.environments: Mapping[str, str] = {}
        """The id of each device's environment, set once it is connected."""
        self.probe_reasons: dict[str, str] = {}
        self.under_way: dict[int, DueVisit] = {}
        """Visits that were submitted, by number; whoever handles the events takes them out."""

    @abstractmethod
    def connect(self) -> None:
        """Reach the machine; `Connected`, `LaneLost` or `Unavailable` follows."""

    @abstractmethod
    def submit(self, jobs: Sequence[DueVisit]) -> None:
        """Have visits made; `VisitMade` or `VisitDropped` follows for each, or `LaneLost` for all under way."""

    @abstractmethod
    def measure_sheet(self) -> None:
        """Have the data sheet of its CPU measured before any further visit; `SheetTold` follows."""

    def drop(self) -> None:
        """Begin none of the visits that are submitted and not begun."""

    @abstractmethod
    def close(self) -> None: ...


class LocalLane(Lane):
    """Devices that programs of this machine reach, or those of a transport."""

    name = "this machine"

    def __init__(
        self, devices: Mapping[str, Device], events: Events, visitor: Visitor, machines: Machines, alone: bool
    ) -> None:
        """`alone` makes visits at once in the calling thread; beside other lanes they need one of their own."""
        super().__init__(devices, events)
        self._visitor = visitor
        self._machines = machines
        self._jobs: queue.SimpleQueue[DueVisit | None] | None = None if alone else queue.SimpleQueue()
        if self._jobs is not None:
            self._thread = threading.Thread(target=self._work, args=(self._jobs,), daemon=True)
            self._thread.start()

    def connect(self) -> None:
        manifests: dict[str, Manifest] = {}
        reasons: list[str] = []
        for name, device in self.devices.items():
            machine = self._machines[device.transport]
            try:
                if missing := machine.missing(device.backend.name):
                    reasons.append(missing)
                else:
                    manifests[name] = machine.environment(device.backend.name)
            except ChildFailed as failure:
                reasons.append(f"device {name} does not start: {failure.reason}")
        told = "; ".join(dict.fromkeys(reasons))
        self.events.put(Unavailable(self, told) if told else Connected(self, manifests))

    def submit(self, jobs: Sequence[DueVisit]) -> None:
        self.under_way |= {job.number: job for job in jobs}
        for job in jobs:
            if self._jobs is None:
                self._visit(job)
            else:
                self._jobs.put(job)

    def measure_sheet(self) -> None:
        raise NotImplementedError("several transports may lead to this lane's devices: see sheet_of")

    def sheet_of(self, device: str) -> Sheet:
        """The data sheet of the CPU of one device's machine."""
        with device_answers(device):
            return self._machines[self.devices[device].transport].cpu_sheet()

    def close(self) -> None:
        if self._jobs is not None:
            self._jobs.put(None)
            self._thread.join()
        self._visitor.__exit__()

    def _work(self, jobs: queue.SimpleQueue[DueVisit | None]) -> None:
        while (job := jobs.get()) is not None:
            try:
                self._visit(job)
            except Exception as error:  # told by the thread that waits for it, instead of by none
                self.events.put(Unavailable(self, reason_of(error)))

    def _visit(self, job: DueVisit) -> None:
        self._visitor.environments = self.environments
        try:
            visit = self._visitor.visit(job.point, job.pass_number)
        except DeviceUnavailable as error:
            self.events.put(Unavailable(self, str(error)))
            return
        self.probe_reasons.update(self._visitor.probe_reasons)
        self.events.put(VisitMade(self, job, visit))
