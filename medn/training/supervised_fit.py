"""A fit in a child process that is watched: whatever becomes of it, there is an outcome or a reason.

This is what an executor is given, in a thread of this process or on another machine: plain data in, plain data out.
"""

from __future__ import annotations

import os
import pickle
import platform
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import medn
from medn.core.child import ChildFailed, ChildProcess, waited_for
from medn.core.plugins import PLUGINS
from medn.core.units import format_duration
from medn.regressors.regressor import regressors
from medn.training.fit_process import PROGRAM, Fit, Load, Loaded
from medn.training.job import Job
from medn.training.timetable import GRACE_S
from medn.training.train_regressor import Outcome, Request

LOAD_TIMEOUT_S = 180.0
"""Importing a library takes seconds on a slow disk; a minute more only delays the answer that it hangs."""

LATEST = 4.0
"""A fit is stopped after so many times its limit, however long it had to wait for a processor."""

LOOK_EVERY_S = 0.5

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")


@dataclass(frozen=True, eq=False)
class PackedFit:
    """What travels to whoever fits."""

    version: str
    """Of medn and of Python."""
    plugins: str
    regressor: str
    module: str
    job: bytes
    """Its tables are arrays, and nothing of the run folder goes along."""
    request: Request
    granted_s: float
    """The time of the job, as its owner knows it."""
    limit_s: float
    """How long the fit may take, without waiting for a processor, before it is stopped."""


@dataclass(frozen=True, eq=False)
class FitResult:
    """What comes back: an outcome, or why there is none."""

    outcome: Outcome | None = None
    failure: str = ""
    """The process died or was stopped: this is the fault of the fit."""
    unavailable: str = ""
    """The family cannot be fitted there: this costs nothing, so that every training tries it again."""
    problem: str = ""
    """Nothing at all can be fitted there: this ends the training."""
    loading_s: float = 0.0
    worked_s: float = 0.0
    waited_s: float = 0.0
    """Of what it worked, for a processor."""


def version_here() -> str:
    return f"medn {medn.__version__} on Python {'.'.join(platform.python_version_tuple()[:2])}"


def pack_job(job: Job) -> bytes:
    return pickle.dumps(replace(job, root=Path()))


def packed_fit(job: Job, packed_job: bytes, request: Request, limit_s: float) -> PackedFit:
    module = type(regressors[job.regressor]).__module__
    plugins = os.environ.get(PLUGINS, "")
    return PackedFit(version_here(), plugins, job.regressor, module, packed_job, request, job.seconds, limit_s)


def fit_supervised(packed: PackedFit) -> FitResult:
    """Runs where the executor runs it: fit in a child process, which ends with this one however that ends."""
    if packed.version != version_here():  # which may read and fit otherwise
        told = f"a worker has {version_here()}, here is {packed.version}: install the same on all machines"
        return FitResult(problem=told)
    return children_of_this_thread().child(packed.plugins).fit(packed)


@dataclass
class SupervisedChild:
    """One process, and what it has loaded."""

    process: ChildProcess
    loaded: set[str] = field(default_factory=set)

    def fit(self, packed: PackedFit) -> FitResult:
        loading_s = 0.0
        try:
            if packed.regressor not in self.loaded:
                began = time.monotonic()
                problem = self._load(packed)
                loading_s = time.monotonic() - began
                if problem:
                    return FitResult(unavailable=problem, loading_s=loading_s)
            return replace(self._fit(packed), loading_s=loading_s)
        except ChildFailed as failure:
            self.loaded.clear()  # its process is gone, and the next one begins anew
            return FitResult(failure=failure.reason, loading_s=loading_s)

    def _load(self, packed: PackedFit) -> str:
        self.process.send(pickle.dumps(Load(packed.regressor, packed.module)))
        try:
            answer: Loaded = pickle.loads(self.process.receive(LOAD_TIMEOUT_S))
        except ChildFailed as failure:
            if failure.status != "timeout":
                raise
            limit = format_duration(LOAD_TIMEOUT_S)
            raise ChildFailed("timeout", f"its libraries were not loaded within {limit}") from None
        if not answer.problem:
            self.loaded.add(packed.regressor)
        return answer.problem

    def _fit(self, packed: PackedFit) -> FitResult:
        began, waited_before = time.monotonic(), self.process.waited_for_processor_s()
        latest_s = LATEST * packed.limit_s
        self.process.send(pickle.dumps(Fit(packed.job, packed.request, latest_s + 2 * GRACE_S)))
        while True:
            message = self.process.poll()
            worked_s = time.monotonic() - began
            waited_s = min(self.process.waited_for_processor_s() - waited_before, worked_s)
            if message is not None:
                return FitResult(pickle.loads(message), worked_s=worked_s, waited_s=waited_s)
            own_s = worked_s - waited_s
            if own_s >= packed.limit_s or worked_s >= latest_s:
                self.process.stop()
                taken, granted = format_duration(worked_s), format_duration(packed.granted_s)
                busy = f", {format_duration(waited_s)} of them waiting for a processor" if waited_s >= 1 else ""
                raise ChildFailed("timeout", f"stopped after {taken}{busy}: it had {granted}")
            waited_for([self.process], min(LOOK_EVERY_S, packed.limit_s - own_s, latest_s - worked_s))


class Children:
    """The child processes of one thread, which keep the libraries that they have loaded from fit to fit."""

    def __init__(self) -> None:
        self._children: dict[str, SupervisedChild] = {}

    def child(self, plugins: str) -> SupervisedChild:
        """The one that knows these plug-ins."""
        if plugins not in self._children:
            environment: Mapping[str, str] = {**ONE_THREAD, PLUGINS: plugins}
            self._children[plugins] = SupervisedChild(ChildProcess(PROGRAM, environment=environment))
        return self._children[plugins]

    def kill(self) -> None:
        """From another thread: whoever waits for them notices."""
        for child in list(self._children.values()):
            child.process.kill()

    def stop(self) -> None:
        for child in self._children.values():
            child.process.stop()


_of_thread = threading.local()


def children_of_this_thread() -> Children:
    if not hasattr(_of_thread, "children"):
        _of_thread.children = Children()
    found: Children = _of_thread.children
    return found
