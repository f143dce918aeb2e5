"""What exports layers for devices elsewhere, one after the other, while they measure others."""

from __future__ import annotations

import os
import queue
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from medn.core.child import ChildFailed
from medn.core.packages import need
from medn.core.values import Condition, Layer
from medn.devices.exported import export_key
from medn.devices.requests import Client
from medn.devices.transport import THIS_MACHINE

EXPORT_S = 300.0
Deliver = Callable[[str, bytes, str, str], None]
"""Called with the key of a layer, its content, a status and a reason."""


class Supply:
    """Exports in a process of its own; what was exported before comes from the cache of the run."""

    def __init__(self, cache: Path) -> None:
        need("exporting layers for a device elsewhere", "torch", "onnx")
        self._client = Client(THIS_MACHINE.process("medn.devices.exporter", (str(cache.absolute()),), {}))
        self._layers: dict[str, tuple[Layer, Condition]] = {}
        self._wanted: queue.SimpleQueue[tuple[str, Deliver] | None] = queue.SimpleQueue()
        self._is_stopping = False
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def key_of(self, layer: Layer, condition: Condition) -> str:
        """The name under which a device asks for a layer."""
        key = export_key(layer, condition)
        self._layers[key] = (layer, condition)
        return key

    def want(self, key: str, deliver: Deliver) -> None:
        self._wanted.put((key, deliver))

    def stop(self) -> None:
        """At once, in the middle of an export too."""
        self._is_stopping = True
        self._wanted.put(None)
        if (process := self._client.process_id) is not None:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)  # the thread that waits for it notices, and ends
        self._thread.join()

    def _work(self) -> None:
        while (wanted := self._wanted.get()) is not None and not self._is_stopping:
            key, deliver = wanted
            layer, condition = self._layers[key]
            request = {"do": "export", "kind": layer.kind, "layer": layer.values, "condition": condition.values}
            try:
                file = Path(self._client.ask(request, EXPORT_S)["file"])
                deliver(key, file.read_bytes(), "ok", "")
            except ChildFailed as failure:
                deliver(key, b"", failure.status, failure.reason)
        self._client.stop()
