"""A child process that is asked and answers: whatever becomes of it, the parent gets an answer or a reason.

Messages are bytes with their length before them. The child ends, with all that it has started, when its parent does.
"""

from __future__ import annotations

import logging
import os
import queue
import selectors
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from medn.core.text import last_line
from medn.core.values import Status

_LOGGER = logging.getLogger(__name__)
_LENGTH = struct.Struct("=Q")
_BLOCK = 1 << 20

CLOSING_S = 5.0
"""How long a process may take to end once it has closed its pipe."""


class ChildFailed(Exception):
    """The child gave no good answer: what became of it, and why."""

    def __init__(self, status: Status, reason: str) -> None:
        super().__init__(reason)
        self.status: Status = status
        self.reason = reason


class ChildProcess:
    """The parent's side: `python -m MODULE ARGUMENTS`, whose main program calls `serve`."""

    def __init__(
        self, module: str, arguments: Sequence[str] = (), environment: Mapping[str, str] | None = None
    ) -> None:
        self.command = [sys.executable, "-m", module, *arguments]
        self.environment = dict(environment or {})
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def process_id(self) -> int | None:
        return self._process.pid if self._process else None

    def start(self) -> None:
        """Does nothing if it is up."""
        if self._process is not None:
            return
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed in stop)
        try:
            self._process = subprocess.Popen(
                self.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                # What this process can import, such as a user's own modules, the child can too.
                env={**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path)), **self.environment},
                # An interrupt at the keyboard ends the work in the parent, not the child midway.
                start_new_session=True,
            )
        except OSError as error:
            self._errors.close()
            reason = f"{self.command[0]} cannot be run: {error.strerror or error}"
            raise ChildFailed("crashed", reason) from None
        _LOGGER.debug("process %d: %s", self._process.pid, " ".join(self.command[1:]))
        # The end of the process itself: what it has started may hold its pipes open.
        self._ended = os.pidfd_open(self._process.pid) if hasattr(os, "pidfd_open") else None
        self._unread = b""

    def stop(self) -> None:
        """End the process and what it has started, whatever they are doing."""
        if self._process is None:
            return
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            if stream is not None:
                with suppress(BrokenPipeError):
                    stream.close()
        if self._ended is not None:
            os.close(self._ended)
        self._process = None

    def kill(self) -> None:
        """End it from another thread than the one that waits for it, which gets the reason."""
        process = self._process
        if process is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)

    def waited_for_processor_s(self) -> float:
        """How long its main thread could have run and did not, because others did; 0 where the system does not tell."""
        if self._process is None:
            return 0.0
        try:
            return 1e-9 * int(Path(f"/proc/{self._process.pid}/schedstat").read_text().split()[1])
        except (OSError, ValueError, IndexError):
            return 0.0

    def send(self, message: bytes) -> None:
        process = self._up()
        rest = memoryview(_LENGTH.pack(len(message)) + message)
        try:
            while rest:
                rest = rest[os.write(_file(process.stdin), rest) :]
        except BrokenPipeError:
            raise self._died(process) from None

    def receive(self, timeout_s: float) -> bytes:
        """The next message; stops the child and raises `ChildFailed` where there is none in time."""
        deadline = time.monotonic() + timeout_s
        while (message := self.poll()) is None:
            if not waited_for([self], deadline - time.monotonic()):
                self.stop()
                raise ChildFailed("timeout", f"no answer within {timeout_s:g} s")
        return message

    def poll(self) -> bytes | None:
        """The next message if it is there already. Raises `ChildFailed` if the process has ended instead."""
        process = self._up()
        while (message := self._whole_message()) is None:
            if not waited_for([self], 0.0):
                return None
            block = os.read(_file(process.stdout), _BLOCK) if _readable(process.stdout) else b""
            if not block:
                raise self._died(process)
            self._unread += block
        return message

    def files(self) -> list[int]:
        """What to wait on: there is something to read in one of them when the child answers or ends."""
        return [_file(self._up().stdout), *([] if self._ended is None else [self._ended])]

    def _up(self) -> subprocess.Popen[bytes]:
        self.start()
        assert self._process is not None, "start leaves a process"
        return self._process

    def _whole_message(self) -> bytes | None:
        if len(self._unread) < _LENGTH.size:
            return None
        end = _LENGTH.size + _LENGTH.unpack_from(self._unread)[0]
        if len(self._unread) < end:
            return None
        message, self._unread = self._unread[_LENGTH.size : end], self._unread[end:]
        return message

    def _died(self, process: subprocess.Popen[bytes]) -> ChildFailed:
        """Say how the process ended, with its last words."""
        try:
            code = process.wait(CLOSING_S)
        except subprocess.TimeoutExpired:
            self.stop()
            return ChildFailed("crashed", "the process closed its pipe and went on")
        self._errors.seek(0)
        words = self._errors.read().decode(errors="replace")
        self.stop()
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        last = f": {last_line(words)}" if words.strip() else ""
        if code == -signal.SIGKILL:
            return ChildFailed("out_of_memory", f"the process was killed ({how}), most likely for want of memory{last}")
        return ChildFailed("crashed", f"the process died ({how}){last}")


def waited_for(children: Sequence[ChildProcess], timeout_s: float) -> list[ChildProcess]:
    """The children that have something to say, or have ended, as soon as there is one; none after the timeout."""
    with selectors.DefaultSelector() as selector:
        for child in children:
            for file in child.files():
                selector.register(file, selectors.EVENT_READ, child)
        found = {id(key.data): key.data for key, _ in selector.select(max(0.0, timeout_s))}
    return list(found.values())


def _readable(stream: IO[bytes] | None) -> bool:
    with selectors.DefaultSelector() as selector:
        selector.register(_file(stream), selectors.EVENT_READ)
        return bool(selector.select(0.0))


def _file(stream: IO[bytes] | None) -> int:
    assert stream is not None, "the process is started with pipes"
    return stream.fileno()


Answer = Callable[[bytes], None]


def serve(work: Callable[[bytes, Answer], None]) -> None:
    """The child's side: `work` is called with every message and with what sends one back, until the parent is gone."""
    requests, answers = os.dup(0), os.dup(1)
    os.dup2(2, 1)  # libraries may print what they like: it must not land among the answers
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)  # nor may they read what is asked
    with suppress(OSError):
        # If the kernel must choose somebody to end for want of memory, it is this process, not its parent.
        Path("/proc/self/oom_score_adj").write_text("1000")
    process = os.getpid()

    def answer(message: bytes) -> None:
        if os.getpid() != process:
            os._exit(0)  # a copy that the work has left behind
        rest = memoryview(_LENGTH.pack(len(message)) + message)
        while rest:
            rest = rest[os.write(answers, rest) :]

    waiting: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_read_until_the_end, args=(requests, waiting), daemon=True).start()
    while True:
        work(waiting.get(), answer)


def _read_until_the_end(requests: int, waiting: queue.SimpleQueue[bytes]) -> None:
    """Beside the work, so that it ends at once with the parent and not when it is done."""
    for message in _messages(requests):
        waiting.put(message)
    if hasattr(os, "killpg") and os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(1)


def _messages(file: int) -> Iterator[bytes]:
    with os.fdopen(file, "rb") as stream:
        while len(length := stream.read(_LENGTH.size)) == _LENGTH.size:
            yield stream.read(_LENGTH.unpack(length)[0])
