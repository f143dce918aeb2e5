"""One visit to one point: its worker asked to build, hold a utilisation and measure, and the probes read beside."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from medn.core.child import ChildFailed
from medn.core.errors import DeviceUnavailable
from medn.core.values import Point, Samples, Visit, wrong_output
from medn.devices.machine_client import MachineClient, Machines, ReadProbe
from medn.devices.take_samples import IDLE_QUANTILE, LOADED_QUANTILE
from medn.devices.transport import Device
from medn.devices.worker_client import WorkerClient

ANSWERED = (
    "status",
    "reason",
    "utilization_measured",
    "utilization_during",
    "reference_s",
    "reference_runs",
    "output_error",
    "state",
    "program",
)
"""What a visit takes over from the answers of worker and machine as it is."""


class VisitSettings(Protocol):
    """How long a visit lasts, how sure it wants to be, and when it has taken too long."""

    @property
    def visit_time_s(self) -> float: ...

    @property
    def precision(self) -> float: ...

    @property
    def timeout_s(self) -> float: ...


class Visitor:
    """Makes visits, keeping one worker per device and number of threads."""

    def __init__(
        self,
        devices: Mapping[str, Device],
        options: VisitSettings,
        *,
        probes: Sequence[ReadProbe] = (),
        environments: Mapping[str, str] | None = None,
        machines: Machines | None = None,
        onnx_cache: Path | None = None,
        trial: Path | None = None,
    ) -> None:
        self.devices = devices
        self.options = options
        self.probes = probes
        self.probe_reasons: dict[str, str] = {}
        """Why a probe gave no number, as it said last."""
        self.environments = environments or {}
        """The id of each device's environment; visits that are not kept need none."""
        self.machines = machines or Machines()
        self.onnx_cache = onnx_cache
        self.trial = trial
        """The file of an exported layer that backends are tried with, where layers come exported."""
        self._workers: dict[tuple[str, int], WorkerClient] = {}

    def __enter__(self) -> Visitor:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers.values():
            worker.stop()
        self.machines.stop()

    def visit(self, point: Point, pass_number: int, exported: Path | None = None) -> Visit:
        """Measure a point once, of the exported layer in a file if there is one.

        What goes wrong with the layer is a status in the result, not an exception.
        """
        began = time.perf_counter()
        started_at = time.time()
        machine = self.machines[self.devices[point.device].transport]
        with device_answers(point.device):
            readings = {probe.name: machine.read(probe) for probe in self.probes}
            worker = self._worker_for(point)
        self.probe_reasons.update({name: reason for name, (_, reason) in readings.items() if reason})
        answers: dict[str, Any] = {}
        quantities: dict[str, float | str] = {}
        try:
            answers |= worker.ask(self._prepare_request(point, pass_number, exported), self.options.timeout_s)
            quantities |= answers["quantities"]
            answers |= self._hold(worker, machine, point)
            answers |= worker.ask(self._measure_request(point), self.options.timeout_s)
            quantities |= answers["quantities"]
            if not worker.has_own_load:
                answers |= machine.during()
        except ChildFailed as failure:
            answers, quantities = {"status": failure.status, "reason": failure.reason}, {}
        if wrong := wrong_output(point.condition.dtype, answers.get("output_error")):
            answers |= {"status": "wrong", "reason": wrong}
        return Visit(
            point_key=point.key,
            pass_number=pass_number,
            environment_id=self.environments.get(point.device, ""),
            started_at=started_at,
            samples=_samples_from(answers),
            probes={name: number for name, (number, _) in readings.items()},
            quantities=quantities,
            elapsed_s=time.perf_counter() - began,
            **{name: answers[name] for name in ANSWERED if name in answers},
        )

    def _worker_for(self, point: Point) -> WorkerClient:
        place = (point.device, point.condition.threads)
        if place not in self._workers:
            device = self.devices[point.device]
            trial = None if device.backend.builds_layers else self.trial
            self._workers[place] = WorkerClient(device, point.condition.threads, self.onnx_cache, trial)
        self._workers[place].start()
        return self._workers[place]

    def _hold(self, worker: WorkerClient, machine: MachineClient, point: Point) -> dict[str, Any]:
        """Hold the asked utilisation by the load of this device alone, and tell the one that is held."""
        for other in self._workers.values():
            if other is not worker and other.transport is worker.transport:
                other.release()
        with device_answers(point.device):
            asked = point.condition.utilization
            held = machine.hold(0.0 if worker.has_own_load else asked, worker.layer_process)
        return {**held, **worker.hold(asked)} if worker.has_own_load else held

    def _prepare_request(self, point: Point, pass_number: int, exported: Path | None) -> dict[str, Any]:
        return {
            "do": "prepare",
            "kind": point.layer.kind,
            "layer": point.layer.values,
            "condition": point.condition.values,
            "first": pass_number == 0,
            "exported": None if exported is None else str(exported),
        }

    def _measure_request(self, point: Point) -> dict[str, Any]:
        loaded = point.condition.utilization > 0
        return {
            "do": "measure",
            "seconds": self.options.visit_time_s,
            "precision": self.options.precision,
            "quantile": LOADED_QUANTILE if loaded else IDLE_QUANTILE,
            "reference": not loaded,  # a load that is held slows the reference as it is meant to slow the layer
        }


@contextmanager
def device_answers(device: str) -> Iterator[None]:
    """Whatever keeps a device from answering is said in one sentence; nothing can be measured on it."""
    try:
        yield
    except ChildFailed as failure:
        raise DeviceUnavailable(f"device {device} does not start: {failure.reason}") from None


def _samples_from(answers: Mapping[str, Any]) -> Samples:
    return Samples(
        np.array(answers.get("wall_s", ()), dtype=np.float64),
        np.array(answers.get("cpu_s", ()), dtype=np.float64),
        np.array(answers.get("preempted", ()), dtype=np.bool_),
        answers.get("calls_per_sample", 1),
    )
