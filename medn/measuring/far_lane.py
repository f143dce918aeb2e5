"""A machine at the other end of a link: visits are sent ahead, and rows come back one by one."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence

from medn.core.environment import Manifest
from medn.core.errors import DeviceUnavailable, MednError, reason_of
from medn.core.values import Condition, Visit
from medn.devices.transport import Device
from medn.devices.worker import TRIAL_LAYER
from medn.layer_generators.sweep import Measure, ProbeChoice
from medn.measuring.lane import (
    Connected,
    DueVisit,
    Event,
    Events,
    Lane,
    LaneLost,
    SheetTold,
    Unavailable,
    VisitDropped,
    VisitMade,
)
from medn.remote.frames import Json
from medn.remote.link import AgentLink, LinkLost
from medn.remote.rows import visit_of
from medn.remote.supply import Supply


class FarLane(Lane):
    window = 8
    """Enough for a link that is slow to answer to have something to do meanwhile, and for layers to be sent ahead."""

    def __init__(
        self,
        over: str,
        python: str,
        devices: Mapping[str, Device],
        events: Events,
        measure: Measure,
        probes: Sequence[ProbeChoice],
        supply: Supply | None,
    ) -> None:
        """Layers come from `supply`, unless every device builds them itself."""
        super().__init__(devices, events)
        self.name = over
        self._python = python
        self._measure = measure
        self._probes = probes
        self._supply = supply
        self._link: AgentLink | None = None
        self._is_closed = False

    def connect(self) -> None:
        threading.Thread(target=self._connect, daemon=True).start()

    def _connect(self) -> None:
        link = AgentLink(self.name, self._python, self._take, self._lose)
        told: Event
        try:
            link.open()
            manifests: dict[str, Manifest] = {}
            for name, device in self.devices.items():
                answer = link.ask({"do": "environment", "backend": device.backend.name})
                if answer["missing"]:
                    packages = list(device.backend.packages_to_run)
                    fix = f"install it: {link.install_command(packages)}"
                    raise DeviceUnavailable(f"device {name} ({self.name}): {answer['missing']} there; {fix}")
                manifests[name] = answer["manifest"]
            link.ask({"do": "begin", **self._settings()})
            self._link = link
            told = Connected(self, manifests)
        except LinkLost as error:
            told = LaneLost(self, str(error), link.was_silent)
        except MednError as error:
            told = Unavailable(self, str(error))
        except Exception as error:  # told by the thread that waits for it, instead of by none
            told = Unavailable(self, f"{self.name}: {reason_of(error)}")
        self.events.put(told)
        if not isinstance(told, Connected) or self._is_closed:
            link.close()

    def _settings(self) -> Json:
        return {
            "devices": {name: device.backend.name for name, device in self.devices.items()},
            "settings": {
                "visit_time_s": self._measure.visit_time_s,
                "precision": self._measure.precision,
                "timeout_s": self._measure.timeout_s,
            },
            "probes": [{"name": probe.name, "file": probe.file, "scale": probe.scale} for probe in self._probes],
        }

    def measure_sheet(self) -> None:
        threading.Thread(target=self._ask_sheet, daemon=True).start()

    def _ask_sheet(self) -> None:
        try:
            if (link := self._link) is not None:
                self.events.put(SheetTold(self, link.ask({"do": "sheet"})["sheet"]))
        except (LinkLost, MednError):
            return  # a lost link is told by itself; a sheet is no reason to end a sweep

    def submit(self, jobs: Sequence[DueVisit]) -> None:
        self.under_way |= {job.number: job for job in jobs}
        link = self._link  # the thread of the link takes it away when it is lost
        if link is None:
            self.events.put(LaneLost(self, f"{self.name}: the link was lost"))
            return
        trial = self._supply.key_of(TRIAL_LAYER, Condition()) if self._supply else None
        link.send({"do": "visits", "trial": trial, "visits": [self._wanted(job) for job in jobs]})

    def _wanted(self, job: DueVisit) -> Json:
        point = job.point
        builds = self.devices[point.device].backend.builds_layers
        exported = None if builds or self._supply is None else self._supply.key_of(point.layer, point.condition)
        return {
            "number": job.number,
            "pass_number": job.pass_number,
            "device": point.device,
            "kind": point.layer.kind,
            "layer": point.layer.values,
            "condition": point.condition.values,
            "exported": exported,
        }

    def drop(self) -> None:
        link = self._link
        if link is not None and self.under_way:
            link.send({"do": "drop", "below": max(self.under_way) + 1})

    def close(self) -> None:
        self._is_closed = True
        link, self._link = self._link, None
        if link is not None:
            link.close()

    def _take(self, head: Json, content: bytes) -> None:
        """A frame that came, in the thread of the link."""
        if "want" in head:
            for key in head["want"]:
                self._want(key)
        elif "unavailable" in head:
            self.events.put(Unavailable(self, head["unavailable"]))
        elif (job := self.under_way.get(head["row"])) is None:
            return  # of a link that was lost before
        elif head.get("dropped"):
            self.events.put(VisitDropped(self, job))
        else:
            self.probe_reasons.update(head["probe_reasons"])
            self.events.put(VisitMade(self, job, self._visit_of(job, head, content)))

    def _visit_of(self, job: DueVisit, head: Json, content: bytes) -> Visit:
        planned = Visit(job.point.key, job.pass_number, self.environments[job.point.device], 0.0, "ok")
        visit = visit_of(head, content, planned)
        # By the clock of this side alone: that of the device may say anything.
        object.__setattr__(visit, "started_at", time.time() - visit.elapsed_s)
        return visit

    def _want(self, key: str) -> None:
        link, supply = self._link, self._supply
        if link is None or supply is None:
            return

        def deliver(key: str, content: bytes, status: str, reason: str) -> None:
            link.send({"do": "layer", "key": key, "status": status, "reason": reason}, content)

        supply.want(key, deliver)

    def _lose(self, reason: str) -> None:
        link, self._link = self._link, None
        if link is not None:
            self.events.put(LaneLost(self, reason, link.was_silent))
