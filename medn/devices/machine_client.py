"""The side of whoever measures: asks a device's machine for environment, data sheet, probes and load."""

from __future__ import annotations

from typing import Protocol

from medn.core.child import ChildFailed
from medn.core.data_sheet import Sheet
from medn.core.environment import Manifest
from medn.devices.requests import START_S, Client, Json
from medn.devices.transport import Transport

PROBE_S = 5.0
"""A probe that takes longer would take more of a sweep than its layers do."""


class ReadProbe(Protocol):
    """Which probe is read: one of the registry by its name, or a number in a file."""

    @property
    def name(self) -> str: ...

    @property
    def file(self) -> str | None: ...

    @property
    def scale(self) -> float: ...


class MachineClient(Client):
    """The machine of one transport. Its program is asked once more where it has died."""

    def __init__(self, transport: Transport) -> None:
        super().__init__(transport.process("medn.devices.machine", (), {}))
        self._silent_probes: dict[str, str] = {}
        """Probes that hung or took the program with them, and what they did: they are not read again."""

    def missing(self, backend: str, exported: bool = False) -> str | None:
        """What a backend needs there before it can run layers, in one sentence; less where they come exported."""
        missing: str | None = self._ask_twice({"do": "missing", "backend": backend, "exported": exported})["missing"]
        return missing

    def environment(self, backend: str, exported: bool = False) -> Manifest:
        """The machine, with the libraries of a backend that misses nothing; no torch where layers come exported."""
        request = {"do": "environment", "backend": backend, "exported": exported}
        manifest: Manifest = self._ask_twice(request)["manifest"]
        return manifest

    def instruments(self) -> Json:
        """The backends there with what they miss, and what can be read beside the time."""
        return self._ask_twice({"do": "instruments"})

    def cpu_sheet(self) -> Sheet:
        sheet: Sheet = self._ask_twice({"do": "sheet"})["sheet"]
        return sheet

    def read(self, probe: ReadProbe) -> tuple[float | None, str]:
        """What a probe says now, or None and why it says nothing."""
        if probe.name in self._silent_probes:
            return None, self._silent_probes[probe.name]
        request = {"do": "probe", "name": probe.name, "file": probe.file, "scale": probe.scale}
        try:
            answer = self._ask_twice(request, PROBE_S)
        except ChildFailed as failure:
            self._silent_probes[probe.name] = f"{failure.reason}; it is not read again"
            return None, self._silent_probes[probe.name]
        return answer["number"], answer["reason"]

    def hold(self, utilization: float, layer_process: int | None) -> Json:
        """Hold a utilisation beside a layer's process; the one that is held without the layer."""
        return self._ask_twice({"do": "hold", "utilization": utilization, "layer_process": layer_process})

    def during(self) -> Json:
        """What everybody but the layer got since `hold`; nothing where the program that would know has died."""
        try:
            return self.ask({"do": "during"}, START_S) if self.process_id is not None else {}
        except ChildFailed:
            return {}

    def _ask_twice(self, request: Json, timeout_s: float = START_S) -> Json:
        try:
            return self.ask(request, timeout_s)
        except ChildFailed:
            if self.process_id is not None:  # it is well, and says that it cannot
                raise
            return self.ask(request, timeout_s)


class Machines:
    """One machine for each transport, asked when first needed."""

    def __init__(self) -> None:
        self._machines: dict[Transport, MachineClient] = {}

    def __enter__(self) -> Machines:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __getitem__(self, transport: Transport) -> MachineClient:
        if transport not in self._machines:
            self._machines[transport] = MachineClient(transport)
        return self._machines[transport]

    def stop(self) -> None:
        for machine in self._machines.values():
            machine.stop()
