"""The parent's side of a worker: starts it, asks it, and survives whatever happens to it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from medn.core.child import ChildFailed, ChildProcess
from medn.devices.backend import Backend

SETTLING_S = 0.15
START_TIMEOUT_S = 180.0
"""Importing a backend takes seconds on a slow disk; a minute more only delays the answer that it hangs."""


class Child:
    """One worker process with its own thread settings, started when first asked and again after it has died."""

    def __init__(self, backend: Backend, threads: int, onnx_cache: Path | None = None) -> None:
        self.backend = backend
        self.has_own_load = False
        """Whether the load of this device runs in the child; known once it is started."""
        self.held = 0.0
        """The utilisation that the child's own load holds."""
        arguments = (backend.name, str(threads), str(onnx_cache or ""))
        self._process = ChildProcess("medn.devices.worker", arguments, backend.environment(threads))

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def process_id(self) -> int | None:
        return self._process.process_id

    def start(self) -> None:
        """Start the process and wait until its libraries are loaded. Does nothing if it is up."""
        if self.process_id is not None:
            return
        self._process.start()
        self.held = 0.0
        self.has_own_load = self.ask({"do": "start"}, START_TIMEOUT_S)["own_load"]

    def stop(self) -> None:
        self._process.stop()

    def hold(self, utilization: float, window_s: float) -> float:
        """Let the child's own load hold a utilisation; the one that was seen in a window without the layer."""
        settle_s = SETTLING_S if utilization != self.held else 0.0
        request = {"do": "hold", "utilization": utilization, "settle_s": settle_s, "window_s": window_s}
        self.held = utilization
        return float(self.ask(request, START_TIMEOUT_S)["utilization"])

    def ask(self, request: dict[str, Any], timeout_s: float) -> dict[str, Any]:
        """Send a request and wait for its answer. Raises `ChildFailed` for everything but a good one."""
        self.start()
        self._process.send(json.dumps(request).encode())
        answer: dict[str, Any] = json.loads(self._process.receive(timeout_s))
        if answer["status"] != "ok":
            raise ChildFailed(answer["status"], answer["reason"])
        return answer
