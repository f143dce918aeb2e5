"""How a device is reached: what starts medn's own programs where the device is, and carries questions and answers.

Everything that is measured or read comes from programs that a transport has started: workers that run layers
(`medn/devices/worker.py`), and one that answers for their machine and holds the load (`medn/devices/machine.py`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from medn.core.child import ChildProcess
from medn.devices.backend import Backend


class Process(Protocol):
    """A program on the device's side. Whatever becomes of it, `ChildFailed` says so."""

    @property
    def process_id(self) -> int | None:
        """None where it is not up."""

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def send(self, message: bytes) -> None: ...

    def receive(self, timeout_s: float) -> bytes: ...


class Transport(ABC):
    """One way to one machine. Devices with the same transport lie on the same machine and never run at once."""

    @abstractmethod
    def process(self, module: str, arguments: Sequence[str], environment: Mapping[str, str]) -> Process:
        """`python -m MODULE ARGUMENTS` with these environment variables, on the device's side and not started yet.

        It ends, with all that it has started, when this process does.
        """


class ThisMachine(Transport):
    """Child processes of this one."""

    def process(self, module: str, arguments: Sequence[str], environment: Mapping[str, str]) -> Process:
        return ChildProcess(module, arguments, environment)


THIS_MACHINE = ThisMachine()


@dataclass(frozen=True)
class Device:
    """Something layers are timed on: a backend, and the way to the machine that it runs on."""

    backend: Backend
    transport: Transport = THIS_MACHINE
