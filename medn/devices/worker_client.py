"""The side of whoever measures: asks a worker, and survives whatever happens to it."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from medn.core.child import ChildFailed
from medn.devices.requests import START_S, Client, Json
from medn.devices.transport import Device


class WorkerClient(Client):
    """One worker of a device, with its own number of threads."""

    def __init__(self, device: Device, threads: int, onnx_cache: Path | None = None, trial: Path | None = None) -> None:
        """`trial` is the file of an exported layer that the backend is tried with, where torch is not there."""
        backend = device.backend
        arguments = (backend.name, str(threads), str(onnx_cache.absolute()) if onnx_cache else "")
        super().__init__(device.transport.process("medn.devices.worker", arguments, backend.environment(threads)))
        self.transport = device.transport
        self.start_request = {"do": "start", "exported": None if trial is None else str(trial)}
        self.has_own_load = False
        """Whether the load of this device runs in the worker; known once it is started."""
        self.layer_process: int | None = None
        """The process that runs the layers, by its number on the device's machine."""
        self.held = 0.0
        """The utilisation that the worker's own load holds."""

    def on_start(self, answer: Json) -> None:
        self.has_own_load, self.layer_process, self.held = answer["own_load"], answer["process"], 0.0

    def hold(self, utilization: float) -> Json:
        """Let its own load hold a utilisation."""
        self.held = utilization
        return self.ask({"do": "hold", "utilization": utilization}, START_S)

    def release(self) -> None:
        """End its own load, if it holds one."""
        if self.held > 0 and self.process_id is not None:
            with suppress(ChildFailed):  # then it is gone, and its load with it
                self.hold(0.0)
        self.held = 0.0
