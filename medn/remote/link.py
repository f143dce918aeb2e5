"""The host's end of a pipe: starts the agent on a device through any command that gives its input and output.

The command, such as `ssh orin`, is run without a terminal: what it would ask a person ends it instead, with a sentence.
"""

from __future__ import annotations

import json
import queue
import shlex
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from medn.core.errors import DeviceUnavailable
from medn.core.plugins import PLUGINS
from medn.core.text import first_line
from medn.remote import bootstrap
from medn.remote.agent_code import agent_code, own_plugins
from medn.remote.frames import BEAT_S, PROTOCOL, SILENCE_S, BrokenFrame, Json, read_frame, write_frame

CONNECT_S = 60.0
"""How long a device may take to greet."""
ASK_S = 180.0
LEAST_PYTHON = (3, 10)
"""Boards come with old ones: what is copied there keeps to what this one understands."""
KEPT_LINES = 20
"""Of what the command says on its standard error."""
ENDING_S = 2.0
"""How long a command may take to end once its pipes are closed."""


class LinkLost(Exception):
    """The device cannot be reached, or not any more. It may be later."""


@dataclass(frozen=True)
class Greeting:
    """What is there, as the first program on the device says."""

    python: str
    executable: str
    machine: str
    system: str
    libc: list[str]
    numpy: bool
    pip: bool
    has_code: bool
    libraries: str

    @property
    def python_version(self) -> tuple[int, ...]:
        return tuple(int(part) for part in self.python.split(".")[:2])


class AgentLink:
    """One started agent. Frames that come are handed to `on_frame` by a thread; `on_lost` is called once at its end."""

    def __init__(
        self,
        over: str,
        python: str = "python3",
        on_frame: Callable[[Json, bytes], None] | None = None,
        on_lost: Callable[[str], None] | None = None,
    ) -> None:
        self.over = over
        self.python = python
        self._on_frame = on_frame
        self._on_lost = on_lost
        self._errors: deque[str] = deque(maxlen=KEPT_LINES)
        self._outgoing: queue.SimpleQueue[tuple[Json, bytes] | None] = queue.SimpleQueue()
        self._answers: dict[int, queue.SimpleQueue[Json | None]] = {}
        self._asking = threading.Lock()
        self._asked = 0
        self._heard_at = 0.0
        self._closed = False
        self._reason = ""
        self._process: subprocess.Popen[bytes] | None = None
        self.was_silent = False
        """Whether it was lost for want of any sign of life: then the agent may still be there for a while."""

    def greet(self) -> Greeting:
        """Start the command and read what the device says of itself."""
        try:
            self._process = subprocess.Popen(
                [*shlex.split(self.over), "sh"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                # Neither a question of ssh nor an interrupt at the keyboard reaches it.
                start_new_session=True,
            )
        except OSError as error:
            raise LinkLost(f"{self.over} cannot be run: {error.strerror or error}") from None
        self._drain = threading.Thread(target=self._keep_errors, daemon=True)
        self._drain.start()
        self._code_name, _ = agent_code(own_plugins())
        with self._bounded():
            found: dict[str, Any] = json.loads(self._greeting_line())
        return Greeting(**found)

    @contextmanager
    def _bounded(self) -> Iterator[None]:
        """Whatever is waited for comes in time, or the command is ended."""
        watch = threading.Timer(CONNECT_S, self._end_process)
        watch.start()
        try:
            yield
        finally:
            watch.cancel()

    def _greeting_line(self) -> str:
        """What a login shell prints before is passed over."""
        text = Path(bootstrap.__file__).read_text(encoding="utf-8")
        program = f"exec {self.python} -c {shlex.quote(text)} {self._code_name}\n"
        try:
            self._input.write(program.encode())
            self._input.flush()
            for line in self._output:
                if line.startswith(bootstrap.GREETING.encode()):
                    return line.decode()[len(bootstrap.GREETING) :]
        except OSError:
            pass
        raise LinkLost(self._ended())

    def open(self) -> Greeting:
        """Start the agent, copying medn's code first where the device does not have it.

        Raises `LinkLost` where the device cannot be reached, `DeviceUnavailable` where it lacks something.
        """
        greeting = self.greet()
        if lacking := self.lacking(greeting):
            self.close()
            raise DeviceUnavailable(lacking)
        self.start(greeting)
        return greeting

    def lacking(self, greeting: Greeting) -> str:
        """What keeps the agent from running there, and the fix; empty if nothing does."""
        if greeting.python_version < LEAST_PYTHON:
            needed = ".".join(map(str, LEAST_PYTHON))
            return (
                f"{self.over}: {greeting.executable} is Python {greeting.python}, medn needs {needed} there; "
                "name another one with python: in the device's entry, or with --python"
            )
        if not greeting.numpy:
            return (
                f"{self.over}: Python there has no numpy. Install it: {self.install_command(['numpy'])}; "
                f"or lay it out from here: medn doctor --over {shlex.quote(self.over)} --install numpy"
            )
        return ""

    def install_command(self, packages: list[str]) -> str:
        return f"{self.over} {self.python} -m pip install {' '.join(packages)}"

    def start(self, greeting: Greeting) -> None:
        """Have the agent run, with threads that read and write its frames."""
        _, code = agent_code(own_plugins())
        try:
            if not greeting.has_code:
                write_frame(self._input, {"do": "code"}, code)
            write_frame(self._input, {"do": "run", "environment": {PLUGINS: own_plugins()}})
            with self._bounded():
                first = read_frame(self._output)
        except (OSError, BrokenFrame):
            first = None
        if first is None:
            raise LinkLost(self._ended())
        if (spoken := first[0].get("protocol")) != PROTOCOL:
            self.close()
            folder = f"code/{self._code_name} in the cache folder of medn there"
            raise DeviceUnavailable(f"{self.over}: its agent speaks protocol {spoken}, not {PROTOCOL}; remove {folder}")
        self._heard_at = time.monotonic()
        for work in (self._read, self._write):
            threading.Thread(target=work, daemon=True).start()

    def lay_out(self, archive: bytes) -> None:
        """Unpack an archive of libraries where the device's Python finds them; before `start`."""
        try:
            write_frame(self._input, {"do": "libraries"}, archive)
            answer = self._output.readline()
        except OSError:
            answer = b""
        if b"unpacked" not in answer:
            raise LinkLost(self._ended())

    def send(self, head: Json, content: bytes = b"") -> None:
        """Never waits: frames are written by a thread, as a link may stall."""
        self._outgoing.put((head, content))

    def ask(self, request: Json, timeout_s: float = ASK_S) -> Json:
        """Send a request and wait for its answer. What the device says it cannot do is `DeviceUnavailable`."""
        with self._asking:
            self._asked += 1
            number, answers = self._asked, queue.SimpleQueue[Json | None]()
            self._answers[number] = answers
        if self._closed:
            answers.put(None)
        self.send({**request, "number": number})
        try:
            answer = answers.get(timeout=timeout_s)
        except queue.Empty:
            self._lose(f"no answer within {timeout_s:g} s")
            answer = None
        if answer is None:
            raise LinkLost(self._reason)
        if "failure" in answer:
            raise DeviceUnavailable(f"{self.over}: {answer['failure']}")
        return answer

    def close(self) -> None:
        """End the command, and the agent with its input."""
        self._on_lost = None
        self._lose("it was closed")

    def _read(self) -> None:
        try:
            while (frame := read_frame(self._output)) is not None:
                head, content = frame
                self._heard_at = time.monotonic()
                if "answer" in head:
                    self._answers.pop(head["answer"]).put(head)
                elif "beat" not in head and self._on_frame:
                    self._on_frame(head, content)
        except BrokenFrame as error:
            self._lose(f"what came is no frame: {error}")
        except (OSError, ValueError):  # the pipe is closed, by us perhaps
            pass
        self._lose(None)

    def _write(self) -> None:
        beat = {"do": "beat"}
        while not self._closed:
            try:
                frame = self._outgoing.get(timeout=BEAT_S)
            except queue.Empty:
                frame = (beat, b"")
            if frame is None:
                return
            if time.monotonic() - self._heard_at > SILENCE_S:
                self.was_silent = True
                self._lose(f"no sign of life for {SILENCE_S:g} s")
                return
            with suppress(OSError, ValueError):  # the reader notices, and says why
                write_frame(self._input, *frame)

    def _lose(self, reason: str | None) -> None:
        with self._asking:
            if self._closed:
                return
            self._closed = True
        self._reason = f"{self.over}: {reason}" if reason else self._ended()
        self._end_process()
        self._outgoing.put(None)
        for answers in list(self._answers.values()):
            answers.put(None)
        if self._on_lost:
            self._on_lost(self._reason)

    def _ended(self) -> str:
        """How the command ended, with its last words."""
        with suppress(OSError):
            self._input.close()
        try:
            code = self._process.wait(ENDING_S) if self._process else None
        except subprocess.TimeoutExpired:
            code = None
        self._end_process()
        self._drain.join(ENDING_S)
        how = "no greeting within a minute" if code is None else f"the command ended with {_exit(code)}"
        words = next((line for line in reversed(self._errors) if line.strip()), "")
        return f"{self.over}: {how}" + (f": {first_line(words.strip())}" if words else "")

    def _end_process(self) -> None:
        if self._process is None:
            return
        self._process.kill()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(ENDING_S)
        for stream in (self._input, self._output):
            with suppress(OSError, ValueError):
                stream.close()

    def _keep_errors(self) -> None:
        """Read what the command says beside, so that it never waits for anybody who reads it."""
        assert self._process is not None, "it is started"
        stream = self._process.stderr
        assert stream is not None, "started with pipes"
        with suppress(OSError, ValueError):
            for line in stream:
                self._errors.append(line.decode(errors="replace"))

    @property
    def _input(self) -> IO[bytes]:
        assert self._process is not None, "it is started"
        assert self._process.stdin is not None, "started with pipes"
        return self._process.stdin

    @property
    def _output(self) -> IO[bytes]:
        assert self._process is not None, "it is started"
        assert self._process.stdout is not None, "started with pipes"
        return self._process.stdout


def _exit(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"
