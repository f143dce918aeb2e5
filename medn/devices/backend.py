"""What a backend is: something that runs a layer. Each runs in a child process of its own."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from medn.core.packages import is_installed, missing
from medn.core.registry import Registry
from medn.core.values import Layer
from medn.devices.device_load import DeviceLoad
from medn.devices.energy import EnergyMeter, cpu_energy_meter

if TYPE_CHECKING:
    from medn.devices.workload import Workload


NodeGroups = Sequence[Sequence[str]]
"""Names of the nodes of an ONNX model that run as one, as a backend's own graph tells them."""

FUSION_RULES = Path(__file__).parent / "fusion_rules"
"""Where the rules of medn's own backends lie."""


class Unsupported(Exception):
    """This backend cannot run this layer under this condition; the message says why. Not a failure of either."""


class Timer(Protocol):
    """Measures what lies between `start` and `stop`, in seconds, on the clock that is right for the device."""

    def start(self) -> None: ...

    def stop(self) -> float: ...


class HostTimer:
    """The host's own clock, for everything that has finished when its call returns."""

    def __init__(self) -> None:
        self._started = 0.0

    def start(self) -> None:
        self._started = time.perf_counter()

    def stop(self) -> float:
        return time.perf_counter() - self._started


class Runner(ABC):
    """One layer, built and ready to be called again and again."""

    def context(self) -> AbstractContextManager[object]:
        """Held open around any number of runs, for a mode that would cost time to enter at each of them."""
        return nullcontext()

    @abstractmethod
    def run(self) -> None:
        """One forward pass; the outputs are kept inside."""

    @abstractmethod
    def outputs(self) -> list[NDArray[np.float32]]:
        """What the last run gave, on the host."""

    def forget(self) -> None:
        """Let go of the outputs, as a model does of what its layers pass on."""

    def conversion_share(self) -> float:
        """Which share of a run converts data from and to the layout of tensors outside: none where there is no other.

        Within a model the layers pass data on in the backend's own layout.
        """
        return 0.0

    def program(self) -> dict[str, Any]:
        """What is kept of the tensor program that runs; nothing where the backend does not tell."""
        return {}


class Backend(ABC):
    """A device layers are timed on. One subclass in one file, with `@backends.register` above it."""

    name: ClassVar[str]
    description: ClassVar[str]
    packages: ClassVar[tuple[str, ...]]
    """The libraries that decide the latency; their import names are their names on the package index too."""
    extra: ClassVar[str] = "train"
    """The extra of medn that installs them."""
    requirement: ClassVar[str] = ""
    """What pip installs them by instead, where medn has no extra for them."""
    fusion_rules: ClassVar[Path | None] = None
    """The file that says which layers it runs as one (docs/fusion.md); None where it runs every layer by itself."""
    tells_conversions: ClassVar[bool] = False
    """True where it has a layout of its own and tells the time of converting to it: layers can be timed as `inside`."""
    dtypes: ClassVar[tuple[str, ...]] = ("fp32",)
    is_reference: ClassVar[bool] = False
    """True for torch itself: its outputs are the ones that the others are compared with."""
    runs_module: ClassVar[bool] = False
    """True where torch's module itself runs, so that its weights are the layer's memory; others convert it first."""
    takes_module: ClassVar[bool] = False
    """True where it converts torch's module itself, with no ONNX file between: like one that runs it, it needs torch
    where it runs."""
    torch_device: ClassVar[str] = "cpu"
    """Where torch makes the module and the inputs that this backend is handed."""
    draws_schedules: ClassVar[bool] = False
    """True where it runs a layer as any of the schedules that can be drawn for its tensor program."""
    runs_on_host: ClassVar[bool] = True
    """False where layers run elsewhere than on the processor of the worker: what slows that says nothing of them."""

    def missing(self) -> str | None:
        """Why this backend cannot be used here and what to install, in one sentence; None if it can.

        Called while listing devices, so it imports nothing heavy.
        """
        return missing(self.name, self.packages, self.extra, self.requirement)

    def versions(self) -> dict[str, str]:
        """The libraries that decide the latency, with their versions, read without importing them."""
        return {name: importlib.metadata.version(name) for name in self.packages if is_installed(name)}

    @property
    def builds_layers(self) -> bool:
        """Whether its layers are built where it runs; for others they may be exported elsewhere."""
        return self.runs_module or self.takes_module

    @property
    def packages_to_run(self) -> tuple[str, ...]:
        """Those of the packages that a layer needs which torch has exported elsewhere."""
        return self.packages if self.builds_layers else tuple(name for name in self.packages if name != "torch")

    def missing_to_run(self) -> str | None:
        """What `missing` says where layers come exported, if they can."""
        if self.builds_layers:
            return self.missing()
        absent = [name for name in self.packages_to_run if not is_installed(name)]
        return f"{self.name} needs {' and '.join(absent)}: pip install {' '.join(absent)}" if absent else None

    def versions_to_run(self) -> dict[str, str]:
        """What `versions` says, of the packages that an exported layer needs."""
        return {name: version for name, version in self.versions().items() if name in self.packages_to_run}

    def environment(self, threads: int) -> dict[str, str]:
        """Environment variables the child process must start with."""
        count = str(threads)
        return {"OMP_NUM_THREADS": count, "MKL_NUM_THREADS": count, "OPENBLAS_NUM_THREADS": count}

    def configure(self, threads: int) -> None:
        """Called once in the child, before anything is prepared."""

    def prepare(self, workload: Workload) -> Runner:
        """The layer, ready to run with as many threads as its condition says, or `Unsupported` with the reason."""
        dtype = workload.condition.dtype
        if dtype not in self.dtypes:
            raise Unsupported(f"{self.name} does not run layers in {dtype}, only in {' and '.join(self.dtypes)}")
        if workload.condition.schedule and not self.draws_schedules:
            raise Unsupported(f"{self.name} runs a layer in one way and draws no schedules for it")
        return self.load(workload)

    @abstractmethod
    def load(self, workload: Workload) -> Runner:
        """What `prepare` does once the condition is known to be possible."""

    def scratch_bytes(self, layer: Layer, batch_size: int, element_bytes: float, threads: int) -> float:
        """The memory that it takes for itself while it runs a layer, beside inputs, weights and outputs."""
        return 0.0

    def fused_groups(self, model: bytes) -> NodeGroups:
        """The nodes of an ONNX model in groups that run as one; `Unsupported` where the backend does not tell."""
        raise Unsupported(f"{self.name} does not tell which nodes it runs as one")

    def timer(self) -> Timer:
        return HostTimer()

    def peak_memory_bytes(self) -> int | None:
        """Peak of the device's own memory since `reset_peak_memory`; None where the device shares the host's memory."""
        return None

    def reset_peak_memory(self) -> None:
        """Start a new peak."""

    def device_load(self) -> DeviceLoad | None:
        """A load of the device's own; None where the processes of the host keep it busy."""
        return None

    def energy_meter(self) -> tuple[EnergyMeter | None, str]:
        """The counter of what runs the layer, or None and why it cannot be read."""
        return cpu_energy_meter()


backends: Registry[Backend] = Registry("device backend", package="medn.devices.backends")
