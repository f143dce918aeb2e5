"""One visit to one point: child process, background load and readings brought together."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from medn.core.child import ChildFailed
from medn.core.errors import DeviceUnavailable
from medn.core.values import Point, Samples, Visit, wrong_output
from medn.devices.backend import Backend
from medn.devices.load import BackgroundLoad
from medn.devices.measuring import IDLE_QUANTILE, LOADED_QUANTILE
from medn.devices.probe import ReadsNumber, reading
from medn.devices.worker_client import Child
from medn.layer_generators.sweep import Measure

UTILIZATION_WINDOW_S = 0.1
UTILIZATION_EVERY_S = 1.0
"""Under load the layers pause this often, for one window, so that the utilisation without them can be read."""


ANSWERED = (
    "status",
    "reason",
    "utilization_measured",
    "utilization_during",
    "reference_s",
    "output_error",
)
"""What a visit takes over from the child's answers as it is."""


class Visitor:
    """Makes visits, keeping one child per device and number of threads, and the load between visits."""

    def __init__(
        self,
        devices: Mapping[str, Backend],
        options: Measure,
        probes: Sequence[ReadsNumber],
        environment_id: str,
        onnx_cache: Path | None = None,
    ) -> None:
        self.devices = devices
        self.options = options
        self.probes = probes
        self.probe_reasons: dict[str, str] = {}
        """Why a probe gave no number, as it said last."""
        self.environment_id = environment_id
        self.onnx_cache = onnx_cache
        self._children: dict[tuple[str, int], Child] = {}
        self._load = BackgroundLoad()
        self._held = 0.0
        self._read_at = -UTILIZATION_EVERY_S

    def __enter__(self) -> Visitor:
        self._load.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for child in self._children.values():
            child.stop()
        self._load.__exit__(kind, error, traceback)

    def visit(self, point: Point, pass_number: int) -> Visit:
        """Measure a point once. What goes wrong with the layer is a status in the result, not an exception."""
        began = time.perf_counter()
        started_at = time.time()
        readings = {probe.name: reading(probe) for probe in self.probes}
        self.probe_reasons.update({name: reason for name, (_, reason) in readings.items() if reason})
        child = self._child_for(point)
        seen: dict[str, Any] = {}
        quantities: dict[str, float | str] = {}
        try:
            seen |= child.ask(self._prepare_request(point, pass_number), self.options.timeout_s)
            quantities |= seen["quantities"]
            seen["utilization_measured"] = self._hold(child, point.condition.utilization)
            before = self._load.reading()
            seen |= child.ask(self._measure_request(point), self.options.timeout_s)
            quantities |= seen["quantities"]
            if not child.has_own_load:
                seen["utilization_during"] = self._load.utilization_between(before, self._load.reading())
        except ChildFailed as failure:
            seen, quantities = {"status": failure.status, "reason": failure.reason}, {}
        if wrong := wrong_output(point.condition.dtype, seen.get("output_error")):
            seen |= {"status": "wrong", "reason": wrong}
        return Visit(
            point_key=point.key,
            pass_number=pass_number,
            environment_id=self.environment_id,
            started_at=started_at,
            samples=_samples_from(seen),
            probes={name: number for name, (number, _) in readings.items()},
            quantities=quantities,
            elapsed_s=time.perf_counter() - began,
            **{name: seen[name] for name in ANSWERED if name in seen},
        )

    def _child_for(self, point: Point) -> Child:
        place = (point.device, point.condition.threads)
        if place not in self._children:
            self._children[place] = Child(self.devices[point.device], point.condition.threads, self.onnx_cache)
        child = self._children[place]
        try:
            child.start()
        except ChildFailed as failure:
            raise DeviceUnavailable(f"device {point.device} does not start: {failure.reason}") from None
        self._load.watch(child.process_id)
        return child

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

    def _hold(self, child: Child, asked: float) -> float:
        """Hold the asked utilisation and tell the one that is held, read at most a second ago."""
        for other in self._children.values():
            if other is not child and other.held > 0:
                other.hold(0.0, window_s=0.0)
        host_share = 0.0 if child.has_own_load else asked
        changed = asked != child.held if child.has_own_load else host_share != self._load.asked
        self._load.hold(host_share)
        if asked == 0:
            if child.held > 0:
                child.hold(0.0, window_s=0.0)
            self._load.correct()
            return 0.0 if child.has_own_load else self._load.others
        if changed or time.monotonic() - self._read_at > UTILIZATION_EVERY_S:
            window = UTILIZATION_WINDOW_S
            self._held = child.hold(asked, window) if child.has_own_load else self._load.utilization_now(window)
            self._read_at = time.monotonic()
        return self._held


def _samples_from(seen: Mapping[str, Any]) -> Samples:
    return Samples(
        np.array(seen.get("wall_s", ()), dtype=np.float64),
        np.array(seen.get("cpu_s", ()), dtype=np.float64),
        np.array(seen.get("preempted", ()), dtype=np.bool_),
        seen.get("calls_per_sample", 1),
    )
