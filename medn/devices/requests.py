"""Requests in JSON to a program on the device's side: how they are asked, and how they are answered there."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from medn.core.child import ChildFailed, serve
from medn.core.text import first_line
from medn.devices.backend import Unsupported
from medn.devices.transport import Process

if TYPE_CHECKING:
    from typing import Self  # which Python 3.10 on a device does not know

Json = dict[str, Any]
START_S = 180.0
"""Importing a backend takes seconds on a slow disk; a minute more only delays the answer that it hangs. It is the limit
of whatever else takes a moment, too."""

Actions = Mapping[str, Callable[[Json], Json]]
"""What a program can be asked to do, by the word after "do". Each is first asked to "start"."""


class Client:
    """Asks one program, which is started when first asked and again after it has died."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self.start_request: Json = {"do": "start"}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def process_id(self) -> int | None:
        return self._process.process_id

    def start(self) -> None:
        """Start the program and wait until it is ready. Does nothing if it is up."""
        if self.process_id is not None:
            return
        self._process.start()
        try:
            self.on_start(self.ask(self.start_request, START_S))
        except ChildFailed:
            self.stop()
            raise

    def on_start(self, answer: Json) -> None:
        """What a program says when it is ready."""

    def stop(self) -> None:
        self._process.stop()

    def ask(self, request: Json, timeout_s: float) -> Json:
        """Send a request and wait for its answer. Raises `ChildFailed` for everything but a good one."""
        self.start()
        self._process.send(json.dumps(request).encode())
        answer: Json = json.loads(self._process.receive(timeout_s))
        if answer["status"] != "ok":
            raise ChildFailed(answer["status"], answer["reason"])
        return answer


def answer_requests(actions: Actions) -> None:
    """The main program on the device's side: answers until whoever asks is gone."""
    serve(lambda request, answer: answer(json.dumps(answered(actions, json.loads(request))).encode()))


def answered(actions: Actions, request: Json) -> Json:
    """Do what is asked; what goes wrong becomes a status and a reason."""
    try:
        return {"status": "ok", **actions[request["do"]](request)}
    except Unsupported as error:
        return {"status": "unsupported", "reason": str(error)}
    except MemoryError:
        return {"status": "out_of_memory", "reason": "the layer does not fit into the memory that is free"}
    except Exception as error:
        # Whatever a backend raises about a layer is a fact about that layer, and the sweep goes on.
        said = first_line(error)
        out_of_memory = "alloc" in said.lower() and "memory" in said.lower()
        return {"status": "out_of_memory" if out_of_memory else "failed", "reason": said}
