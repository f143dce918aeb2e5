"""The agent: runs on a device, makes the visits that it is asked for with workers of its own, and sends back rows.

It tells a worker that died from a link that did, as the far side of a link cannot. It ends with its workers when its
input ends, or when nothing was heard for a while.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from medn.core.child import ChildFailed
from medn.core.errors import MednError, reason_of
from medn.core.values import Condition, Layer, Point, Visit, freeze
from medn.devices.backend import backends
from medn.devices.file_cache import keep
from medn.devices.machine_client import MachineClient, Machines
from medn.devices.transport import THIS_MACHINE, Device
from medn.devices.visits import Visitor
from medn.remote.frames import BEAT_S, PROTOCOL, SILENCE_S, BrokenFrame, Json, read_frame, write_frame
from medn.remote.rows import row_of

EXPORT_S = 600.0
"""How long a layer may take to be exported and sent."""


@dataclass(frozen=True)
class Settings:
    """What visits go by, as the far side says it."""

    visit_time_s: float
    precision: float
    timeout_s: float


@dataclass(frozen=True)
class SentProbe:
    name: str
    file: str | None
    scale: float


class Layers:
    """Exported layers that are kept on this device, those that are on their way, and why others do not come."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._asked: set[str] = set()
        self._refused: dict[str, tuple[str, str]] = {}
        self._changed = threading.Condition()

    def wanting(self, keys: list[str]) -> list[str]:
        """Those that are neither here nor on their way; they are, from now on."""
        wanted = [key for key in dict.fromkeys(keys) if key not in self._asked and not (self.folder / key).exists()]
        self._asked.update(wanted)
        return wanted

    def came(self, key: str, content: bytes, status: str, reason: str) -> None:
        if status == "ok":
            keep(self.folder, key, content)
        with self._changed:
            self._asked.discard(key)
            if status != "ok":
                self._refused[key] = (status, reason)
            self._changed.notify_all()

    def file(self, key: str) -> Path:
        """The file of a layer, once it is here. Raises `ChildFailed` where it cannot be exported."""
        file = self.folder / key
        with self._changed:
            if not self._changed.wait_for(lambda: key in self._refused or file.exists(), EXPORT_S):
                raise ChildFailed("failed", f"the exported layer did not come within {EXPORT_S:g} s")
            if key in self._refused:
                status, reason = self._refused.pop(key)
                raise ChildFailed(status, reason)  # type: ignore[arg-type]  # one that the other side knows
        return file


class Agent:
    """Answers frames until they end."""

    def __init__(self, requests: IO[bytes], answers: IO[bytes], cache: Path) -> None:
        self._requests = requests
        self._answers = answers
        self._sending = threading.Lock()
        self._heard_at = time.monotonic()
        self._waiting: queue.SimpleQueue[Json] = queue.SimpleQueue()
        self._dropped_below = 0
        self._cache = cache
        self._layers = Layers(cache / "layers")
        self._machines = Machines()
        self._visitor: Visitor | None = None

    def run(self) -> None:
        self._send({"protocol": PROTOCOL})
        threading.Thread(target=self._read, daemon=True).start()
        threading.Thread(target=self._beat, daemon=True).start()
        while True:
            self._answer(self._waiting.get())

    def _read(self) -> None:
        """Beside the visits, so that the end of the input ends them at once."""
        try:
            while (frame := read_frame(self._requests)) is not None:
                self._heard_at = time.monotonic()
                self._take(*frame)
        except BrokenFrame as error:
            sys.stderr.write(f"what came is no frame: {error}\n")
        finally:
            os._exit(0)  # workers and the machine's program end with their input, which ends now

    def _take(self, head: Json, content: bytes) -> None:
        if head["do"] == "layer":
            self._layers.came(head["key"], content, head["status"], head["reason"])
        elif head["do"] == "drop":
            self._dropped_below = head["below"]
        elif head["do"] != "beat":
            if head["do"] == "visits":
                keys = [each["exported"] for each in head["visits"] if each["exported"]]
                if wanted := self._layers.wanting([*filter(None, [head["trial"]]), *keys]):
                    self._send({"want": wanted})
            self._waiting.put(head)

    def _beat(self) -> None:
        while time.monotonic() - self._heard_at < SILENCE_S:
            self._send({"beat": True})
            time.sleep(BEAT_S)
        os._exit(1)  # whoever asked is out of reach, and may come back with another agent

    def _send(self, head: Json, content: bytes = b"") -> None:
        with self._sending:
            try:
                write_frame(self._answers, head, content)
            except (BrokenPipeError, OSError):
                os._exit(1)

    def _answer(self, head: Json) -> None:
        if head["do"] == "visits":
            for visit in head["visits"]:
                self._visit(visit, head["trial"])
            return
        try:
            told = self._ask_machine(head)
        except (ChildFailed, MednError) as error:
            told = {"failure": reason_of(error) if isinstance(error, MednError) else str(error)}
        self._send({"answer": head["number"], **told})

    def _ask_machine(self, head: Json) -> Json:
        machine: MachineClient = self._machines[THIS_MACHINE]
        if head["do"] == "begin":
            self._begin(head)
            return {}
        if head["do"] == "environment":
            missing = machine.missing(head["backend"], exported=True)
            return {
                "missing": missing,
                "manifest": None if missing else machine.environment(head["backend"], exported=True),
            }
        if head["do"] == "sheet":
            return {"sheet": dict(machine.cpu_sheet())}
        if head["do"] == "nothing":
            return {}
        if head["do"] == "instruments":
            return machine.instruments()
        raise MednError(f"this agent does not know what {head['do']!r} is")

    def _begin(self, head: Json) -> None:
        """What visits are to be made of, and how."""
        self._visitor = Visitor(
            {name: Device(backends[backend]) for name, backend in head["devices"].items()},
            Settings(**head["settings"]),
            probes=[SentProbe(**probe) for probe in head["probes"]],
            machines=self._machines,
            onnx_cache=self._cache / "forms",
        )

    def _visit(self, wanted: Json, trial: str | None) -> None:
        number = wanted["number"]
        if number < self._dropped_below:
            self._send({"row": number, "dropped": True})
            return
        assert self._visitor is not None, "begin comes first"
        point = Point(
            Layer(wanted["kind"], freeze(wanted["layer"])), Condition(**wanted["condition"]), wanted["device"]
        )
        try:
            if trial:
                self._visitor.trial = self._layers.file(trial)
            exported = self._layers.file(wanted["exported"]) if wanted["exported"] else None
            visit = self._visitor.visit(point, wanted["pass_number"], exported)
        except ChildFailed as failure:
            visit = Visit(point.key, wanted["pass_number"], "", 0.0, failure.status, failure.reason)
        except MednError as error:  # the device cannot run anything at all
            self._send({"row": number, "unavailable": reason_of(error)})
            return
        head, content = row_of(visit)
        self._send({"row": number, **head, "probe_reasons": self._visitor.probe_reasons}, content)


def main(requests: IO[bytes], cache: str) -> None:
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # libraries may print what they like: it must not land among the answers
    Agent(requests, answers, Path(cache)).run()
