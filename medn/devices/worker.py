"""The program that runs layers of one backend: `python -m medn.devices.worker BACKEND THREADS ONNX_CACHE`.

A layer that crashes, hangs or runs out of memory takes this process with it, never the sweep.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from medn.core.environment import last_level_cache_bytes
from medn.core.values import Condition, Layer, freeze
from medn.devices.backend import Backend, Runner, backends
from medn.devices.cache import cache_flusher
from medn.devices.counters import Counter, counters, growth, readings
from medn.devices.exported import ExportedWorkload
from medn.devices.held_utilization import HeldUtilization
from medn.devices.memory import PeakMemory, limit_memory
from medn.devices.reference import ReferenceKernels, Runs
from medn.devices.requests import Json, answer_requests
from medn.devices.take_samples import VisitOptions, process_resources, take_samples
from medn.devices.workload import Workload, make_workload

TRIAL_LAYER = Layer("linear", freeze({"in_features": 8, "out_features": 8, "rows": 1, "bias": True}))


class Worker:
    """Prepares one layer at a time and times it on request."""

    def __init__(self, backend: Backend, threads: int, onnx_cache: Path | None) -> None:
        self.backend = backend
        self.threads = threads
        self.onnx_cache = onnx_cache
        self._runner: Runner | None = None
        self._cache_state = "hot"
        self._flush: Callable[[], None] | None = None
        self._reference = ReferenceKernels()
        self._counters: dict[str, Counter] = {}
        self._silent: dict[str, str] = {}
        """Why quantities that are counted cannot be, by name."""
        self._utilization: HeldUtilization | None = None
        """Held by a load of the device's own, where the processes of its machine do not keep it busy."""

    def start(self, request: Json) -> Json:
        """Load the backend's libraries with a trial layer, so that no point pays for that or is weighed with it."""
        self.backend.configure(self.threads)
        self._build(TRIAL_LAYER, Condition(threads=self.threads), request.get("exported"))
        limit_memory()
        self._counters, self._silent = counters(*self.backend.energy_meter())
        load = self.backend.device_load()
        self._utilization = None if load is None else HeldUtilization(load)
        return {"own_load": load is not None, "process": os.getpid()}

    def hold(self, request: Json) -> Json:
        """Hold a utilisation on the device itself."""
        if self._utilization is None:
            raise RuntimeError(f"{self.backend.name} has no load of its own")
        return {"utilization_measured": self._utilization.hold(request["utilization"])}

    def prepare(self, request: Json) -> Json:
        """Build the layer and run it once; on its first visit also weigh it and compare its outputs with torch's."""
        self._runner = None
        layer = Layer(request["kind"], freeze(request["layer"]))
        condition, exported = Condition(**request["condition"]), request.get("exported")
        self._cache_state = condition.cache
        answer: Json = {"quantities": {"memory_bytes": "weighed at the first visit only"}, "output_error": None}
        if not request["first"]:
            self._runner, _ = self._build(layer, condition, exported)
            return answer
        if self.backend.runs_module:
            with self._weighed(answer):
                self._runner, workload = self._build(layer, condition, exported)
        else:
            _, workload = self._build(
                layer, condition, exported
            )  # converts; what is weighed is the converted layer alone
            with self._weighed(answer):
                self._runner = self._load(workload)
        answer["program"] = self._runner.program()
        if not self.backend.is_reference:
            answer["output_error"] = workload.output_error(self._runner.outputs())
        return answer

    def _build(self, layer: Layer, condition: Condition, exported: str | None) -> tuple[Runner, Workload]:
        workload = self._exported(layer, condition, Path(exported)) if exported else self._made(layer, condition)
        return self._load(workload), workload

    def _made(self, layer: Layer, condition: Condition) -> Workload:
        return make_workload(layer, condition, self.onnx_cache, self.backend.torch_device)

    def _exported(self, layer: Layer, condition: Condition, file: Path) -> Workload:
        """A layer that torch has made elsewhere."""
        return ExportedWorkload(file.read_bytes(), layer, condition, self.onnx_cache, file.name)

    def _load(self, workload: Workload) -> Runner:
        runner = self.backend.prepare(workload)
        with runner.context():
            runner.run()
        return runner

    @contextmanager
    def _weighed(self, answer: Json) -> Iterator[None]:
        self.backend.reset_peak_memory()
        with PeakMemory() as peak:
            yield
        own = self.backend.peak_memory_bytes()
        weighed = peak.bytes if own is None else own
        answer["quantities"] = {"memory_bytes": peak.reason if weighed is None else weighed}

    def measure(self, request: Json) -> Json:
        """Time the prepared layer for one visit."""
        if self._runner is None:
            raise RuntimeError("nothing is prepared")
        options = VisitOptions(request["seconds"], request["precision"], request["quantile"])
        before = self._cold_maker() if self._cache_state == "cold" else None
        kept = 1 - self._runner.conversion_share() if self._cache_state == "inside" else 1.0
        runs: Runs = {}
        beside = partial(self._reference.time, runs) if request.get("reference") and self._on_host else None
        counted_before = readings(self._counters)
        with self._runner.context():
            samples = take_samples(
                self._runner.run,
                self.backend.timer(),
                process_resources(self.threads),
                options,
                before_sample=before,
                beside=beside,
            )
        counted = growth(counted_before, readings(self._counters), len(samples) * samples.calls_per_sample, kept)
        return {
            "wall_s": (kept * samples.wall_s).tolist(),
            "cpu_s": (kept * samples.cpu_s).tolist(),
            "preempted": samples.preempted.tolist(),
            "calls_per_sample": samples.calls_per_sample,
            "reference_s": min(runs["compute"]) if runs else None,
            "reference_runs": runs,
            "quantities": {**self._silent, **counted},
        }

    def _cold_maker(self) -> Callable[[], None]:
        if self._flush is None:
            self._flush = cache_flusher(last_level_cache_bytes())
        return self._flush

    @property
    def _on_host(self) -> bool:
        """Whether what slows this process slows the layer."""
        return self.backend.runs_on_host and self._utilization is None


def main(backend_name: str, threads: int, onnx_cache: str) -> None:
    worker = Worker(backends[backend_name], threads, Path(onnx_cache) if onnx_cache else None)
    answer_requests({"start": worker.start, "prepare": worker.prepare, "hold": worker.hold, "measure": worker.measure})


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
