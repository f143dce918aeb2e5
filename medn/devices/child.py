"""The parent's side of a worker: starts it, asks it, and survives whatever happens to it."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO, Any

from medn.core.values import Status
from medn.devices.backend import Backend

SETTLING_S = 0.15
START_TIMEOUT_S = 180.0
"""Importing a backend takes seconds on a slow disk; a minute more only delays the answer that it hangs."""


class ChildFailed(Exception):
    """The child gave no good answer: what became of it, and why."""

    def __init__(self, status: Status, reason: str) -> None:
        super().__init__(reason)
        self.status: Status = status
        self.reason = reason


class Child:
    """One worker process with its own thread settings, started when first asked and again after it has died."""

    def __init__(self, backend: Backend, threads: int, onnx_cache: Path | None = None) -> None:
        self.backend = backend
        self.threads = threads
        self.onnx_cache = onnx_cache
        self.has_own_load = False
        """Whether the load of this device runs in the child; known once it is started."""
        self.held = 0.0
        """The utilisation that the child's own load holds."""
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def process_id(self) -> int | None:
        return self._process.pid if self._process else None

    def start(self) -> None:
        """Start the process and wait until its libraries are loaded. Does nothing if it is up."""
        if self._process is not None:
            return
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed in stop)
        command = [sys.executable, "-m", "medn.devices.worker", self.backend.name, str(self.threads)]
        self._process = subprocess.Popen(
            [*command, str(self.onnx_cache or "")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env={**os.environ, **self.backend.environment(self.threads)},
            start_new_session=True,  # an interrupt at the keyboard ends the visit in the parent, not the child midway
        )
        self._unread = b""
        self.held = 0.0
        self.has_own_load = self.ask({"do": "start"}, START_TIMEOUT_S)["own_load"]

    def stop(self) -> None:
        if self._process is None:
            return
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            if stream is not None:
                stream.close()
        self._process = None

    def hold(self, utilization: float, window_s: float) -> float:
        """Let the child's own load hold a utilisation; the one that was seen in a window without the layer."""
        settle_s = SETTLING_S if utilization != self.held else 0.0
        request = {"do": "hold", "utilization": utilization, "settle_s": settle_s, "window_s": window_s}
        self.held = utilization
        return float(self.ask(request, START_TIMEOUT_S)["utilization"])

    def ask(self, request: dict[str, Any], timeout_s: float) -> dict[str, Any]:
        """Send a request and wait for its answer. Raises `ChildFailed` for everything but a good one."""
        self.start()
        process = self._process
        assert process is not None, "start leaves a process"
        try:
            os.write(_file(process.stdin), json.dumps(request).encode() + b"\n")
        except BrokenPipeError:
            raise self._died(process) from None
        answer: dict[str, Any] = json.loads(self._read_line(process, timeout_s))
        if answer["status"] != "ok":
            raise ChildFailed(answer["status"], answer["reason"])
        return answer

    def _read_line(self, process: subprocess.Popen[bytes], timeout_s: float) -> bytes:
        answers = _file(process.stdout)
        deadline = time.monotonic() + timeout_s
        with selectors.DefaultSelector() as selector:
            selector.register(answers, selectors.EVENT_READ)
            while b"\n" not in self._unread:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    self.stop()
                    raise ChildFailed("timeout", f"no answer within {timeout_s:g} s")
                block = os.read(answers, 1 << 20)
                if not block:
                    raise self._died(process)
                self._unread += block
        line, self._unread = self._unread.split(b"\n", 1)
        return line

    def _died(self, process: subprocess.Popen[bytes]) -> ChildFailed:
        """Say how the process ended, with its last words."""
        code = process.wait()
        self._errors.seek(0)
        words = self._errors.read().decode(errors="replace").strip().splitlines()
        self.stop()
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        last = f": {words[-1][:300]}" if words else ""
        if code == -9:
            return ChildFailed("out_of_memory", f"the process was killed ({how}), most likely for want of memory{last}")
        return ChildFailed("crashed", f"the process died ({how}){last}")


def _file(stream: IO[bytes] | None) -> int:
    assert stream is not None, "the process is started with pipes"
    return stream.fileno()
