"""One visit to one point: its worker asked to build, hold a utilisation and measure, and the probes read beside."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from medn.core.child import ChildFailed
from medn.core.errors import DeviceUnavailable
from medn.core.values import Point, Samples, Visit, wrong_output
from medn.devices.machine_client import MachineClient, Machines
from medn.devices.take_samples import IDLE_QUANTILE, LOADED_QUANTILE
from medn.devices.transport import Device
from medn.devices.worker_client import WorkerClient
from medn.layer_generators.sweep import Measure, ProbeChoice

ANSWERED = (
    "status",
    "reason",
    "utilization_measured",
    "utilization_during",
    "reference_s",
    "output_error",
)
"""What a visit takes over from the worker's answers as it is."""


class Visitor:
    """Makes visits, keeping one worker per device and number of threads."""

    def __init__(
        self,
        devices: Mapping[str, Device],
        options: Measure,
        *,
        probes: Sequence[ProbeChoice] = (),
        environments: Mapping[str, str] | None = None,
        machines: Machines | None = None,
        onnx_cache: Path | None = None,
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
        self._workers: dict[tuple[str, int], WorkerClient] = {}

    def __enter__(self) -> Visitor:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers.values():
            worker.stop()
        self.machines.stop()

    def visit(self, point: Point, pass_number: int) -> Visit:
        """Measure a point once. What goes wrong with the layer is a status in the result, not an exception."""
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
            answers |= worker.ask(self._prepare_request(point, pass_number), self.options.timeout_s)
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
            self._workers[place] = WorkerClient(self.devices[point.device], point.condition.threads, self.onnx_cache)
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
        return worker.hold(asked) if worker.has_own_load else held

    def _prepare_request(self, point: Point, pass_number: int) -> dict[str, Any]:
        return {
            "do": "prepare",
            "kind": point.layer.kind,
            "layer": point.layer.values,
            "condition": point.condition.values,
            "first": pass_number == 0,
        }

    def _measure_request(self, point: Point) -> dict[str, Any]:
        return {
            "do": "measure",
            "seconds": self.options.visit_time_s,
            "precision": self.options.precision,
            "quantile": LOADED_QUANTILE if point.condition.utilization > 0 else IDLE_QUANTILE,
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
