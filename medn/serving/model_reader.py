"""ONNX files are read in a process of its own: what takes too long, or too much memory, ends that process alone."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import threading
from contextlib import suppress
from pathlib import Path

from medn.capture.captured_model import CapturedModel, parse_captured
from medn.core.child import Answer, ChildFailed, ChildProcess, serve
from medn.core.errors import MednError, UsageError, reason_of
from medn.core.packages import need

NAME = "model.onnx"
READY = b"0"
GOOD, BAD = b"+", b"-"
START_S = 180.0
"""Importing the ONNX library takes seconds on a slow disk."""


class ModelReader:
    """Captures the models in ONNX files, one at a time."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._folder = tempfile.TemporaryDirectory(prefix="medn-serve-")
        self._process = ChildProcess("medn.serving.model_reader", [self._folder.name])
        self._lock = threading.Lock()
        self._is_stopped = False

    def read(self, content: bytes | bytearray, batch_size: int | None) -> CapturedModel:
        """The model; one sentence where it is none, or where finding out takes too long."""
        need("reading ONNX files", "onnx")
        with self._lock:
            if self._is_stopped:
                raise MednError("the server is stopping")
            file = Path(self._folder.name) / NAME
            try:
                if self._process.process_id is None:
                    self._ask(READY, START_S)
                file.write_bytes(content)
                captured = self._ask(str(batch_size or 0).encode(), self.seconds)
            except ChildFailed as failure:
                raise MednError(f"the model cannot be read: {failure.reason}") from None
            finally:
                file.unlink(missing_ok=True)
        return parse_captured(captured, "the model")

    def stop(self) -> None:
        """End it, with whatever is being read."""
        self._is_stopped = True
        reading = self._process.process_id
        if reading is not None:
            with suppress(ProcessLookupError):
                os.kill(reading, signal.SIGKILL)
        with self._lock:
            self._process.stop()
            self._folder.cleanup()

    def _ask(self, request: bytes, seconds: float) -> bytes:
        self._process.send(request)
        answer = self._process.receive(seconds)
        if answer.startswith(BAD):
            raise UsageError(f"the model: {answer[1:].decode()}")
        return answer[1:]


def _answer(request: bytes, reply: Answer) -> None:
    """The process's side: the file becomes a captured model or a sentence."""
    try:
        from medn.capture.onnx_capture import capture_onnx

        if not Path(NAME).exists():  # the first request, which waits for the import above
            reply(GOOD)
            return
        reply(GOOD + capture_onnx(Path(NAME), None, int(request) or None).to_json())
    except Exception as error:  # a hostile file breaks its reader in ways that nobody has seen
        reply(BAD + reason_of(error).removeprefix(f"{NAME}: ").encode())


if __name__ == "__main__":
    os.chdir(sys.argv[1])
    serve(_answer)
