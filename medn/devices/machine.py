"""The program on a device's machine beside the workers: `python -m medn.devices.machine`.

It tells what the machine is, reads probes and holds the load. It has no thread settings of its own and runs no layer:
neither does a layer take the load along, nor a probe a layer.
"""

from __future__ import annotations

from pathlib import Path

from medn.core.environment import environment_manifest
from medn.devices.backend import backends
from medn.devices.cpu_load import CpuLoad
from medn.devices.cpu_sheet import cpu_sheet
from medn.devices.energy import cpu_energy_meter
from medn.devices.held_utilization import HeldUtilization
from medn.devices.memory import PeakMemory
from medn.devices.probe import FileProbe, probes, reading
from medn.devices.requests import Json, answer_requests
from medn.devices.state import MachineState


class Machine:
    """Answers for the machine that it runs on, with a load that lasts between requests."""

    def __init__(self, load: CpuLoad) -> None:
        self._load = load
        self._utilization = HeldUtilization(load)
        self._before = load.reading()
        self._state = MachineState()

    def start(self, request: Json) -> Json:
        """Import what is registered, the user's own modules too, so that no probe pays for that."""
        return {"backends": list(backends), "probes": list(probes)}

    def missing(self, request: Json) -> Json:
        backend = backends[request["backend"]]
        return {"missing": backend.missing_to_run() if request.get("exported") else backend.missing()}

    def environment(self, request: Json) -> Json:
        backend = backends[request["backend"]]
        exported = request.get("exported")
        return {"manifest": environment_manifest(backend.versions_to_run() if exported else backend.versions())}

    def instruments(self, request: Json) -> Json:
        """What each backend needs here or the versions of its libraries, and what can be read beside the time."""
        with PeakMemory() as peak:
            pass
        found = {
            each.name: {"missing": each.missing_to_run(), "versions": each.versions_to_run()}
            for each in backends.values()
        }
        return {
            "backends": found,
            "machine": environment_manifest({}),
            "memory_reason": peak.reason,
            "energy_reason": cpu_energy_meter()[1],
            "state": self._state.read(),
        }

    def sheet(self, request: Json) -> Json:
        return {"sheet": dict(cpu_sheet())}

    def probe(self, request: Json) -> Json:
        name, file = request["name"], request["file"]
        number, reason = reading(FileProbe(name, Path(file), request["scale"]) if file else probes[name])
        return {"number": number, "reason": reason}

    def hold(self, request: Json) -> Json:
        """Hold a utilisation beside the layer of a worker, whose own use does not count; a hot machine rests before."""
        rested_s = self._state.rest()
        self._load.watch(request["layer_process"])
        held = self._utilization.hold(request["utilization"])
        self._before = self._load.reading()
        return {
            "utilization_measured": held,
            "state": self._state.read() | ({"rested_s": rested_s} if rested_s else {}),
        }

    def during(self, request: Json) -> Json:
        """The share that everybody but the layer got since the utilisation was last asked for."""
        return {"utilization_during": self._load.utilization_between(self._before, self._load.reading())}


def main() -> None:
    with CpuLoad() as load:
        machine = Machine(load)
        answer_requests(
            {
                "start": machine.start,
                "missing": machine.missing,
                "environment": machine.environment,
                "instruments": machine.instruments,
                "sheet": machine.sheet,
                "probe": machine.probe,
                "hold": machine.hold,
                "during": machine.during,
            }
        )


if __name__ == "__main__":
    main()
