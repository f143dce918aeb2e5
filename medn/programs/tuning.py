"""How fast the layers of a model could be: of many schedules that are drawn, the one that is predicted fastest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from medn.capture.captured_model import CapturedModel
from medn.core.errors import DeviceUnavailable, UsageError, unknown
from medn.core.values import Condition, Layer, Measurement, Point
from medn.devices.backend import Unsupported, backends
from medn.devices.tensor_programs import task_of
from medn.devices.transport import Device
from medn.devices.visits import Visitor
from medn.programs.predictor import ProgramPredictor
from medn.programs.programs import TensorProgram, visited_s

FIRST_SCHEDULES = 64
VISITS = 2

Told = Callable[[str], None]


@dataclass(frozen=True)
class TunedLayer:
    """A layer of a model with the schedule that was found for it."""

    layer: Layer
    batch_size: int
    repeats: int
    """How often the model runs it."""
    schedule: int
    """Its number: `conditions: {schedule: N}` measures it."""
    predicted_s: float
    measured_s: dict[str, float] = field(default_factory=dict)
    """By device, where asked for: the schedule on its own device, and the layer as others run it."""


@dataclass(frozen=True)
class TunedModel:
    layers: tuple[TunedLayer, ...]
    left_out: dict[str, int]
    """Why layers could not be scheduled, and how many."""

    @property
    def predicted_s(self) -> float:
        """All layers that can be scheduled, one after the other."""
        return sum(each.repeats * each.predicted_s for each in self.layers)

    def measured_s(self, device: str) -> float | None:
        """The same as measured; None where a layer was not measured there."""
        if not all(device in each.measured_s for each in self.layers):
            return None
        return sum(each.repeats * each.measured_s[device] for each in self.layers)


@dataclass(frozen=True)
class _Timing:
    """What a visit needs to know."""

    visit_time_s: float = 0.05
    precision: float = 0.02
    timeout_s: float = 60.0


def tuned(
    model: CapturedModel,
    bundle: str | Path | ProgramPredictor,
    *,
    device: str = "",
    schedules: int = FIRST_SCHEDULES,
    measured_on: Sequence[str] = (),
    tell: Told = lambda sentence: None,
) -> TunedModel:
    """The best of the first `schedules` that can be drawn for every layer, as a predictor tells; the model is captured.

    With `measured_on`, the found schedules and the layers on these devices are measured too.
    """
    predictor = bundle if isinstance(bundle, ProgramPredictor) else ProgramPredictor.load(Path(bundle))
    name = device or predictor.devices[-1]
    if name not in predictor.devices:
        raise UsageError(unknown("device", name, predictor.devices))
    if schedules < 1:
        raise UsageError(f"schedules: must be at least 1 (got {schedules})")
    for wanted in (name, *measured_on):
        if wanted not in backends:
            raise UsageError(unknown("device", wanted, backends))
        if reason := backends[wanted].missing():
            raise DeviceUnavailable(reason)
    repeats: dict[tuple[Layer, int], int] = {}
    left_out: dict[str, int] = {}
    for captured in model.layers:
        if captured.layer is None or captured.dtype != "fp32":
            reason = "no known kind" if captured.layer is None else f"in {captured.dtype}"
            left_out[reason] = left_out.get(reason, 0) + captured.repeats
        else:
            key = captured.layer, captured.batch_size
            repeats[key] = repeats.get(key, 0) + captured.repeats
    found = []
    for (layer, batch_size), count in repeats.items():
        try:
            found.append(_best(layer, batch_size, count, predictor, name, schedules))
            tell(f"{layer}: schedule {found[-1].schedule}, {1e6 * found[-1].predicted_s:.0f} us")
        except Unsupported:
            left_out[f"{layer.kind} has no schedules"] = left_out.get(f"{layer.kind} has no schedules", 0) + count
    return TunedModel(tuple(_measured(found, name, measured_on) if measured_on else found), left_out)


def _best(
    layer: Layer, batch_size: int, repeats: int, predictor: ProgramPredictor, device: str, schedules: int
) -> TunedLayer:
    task = task_of(layer, batch_size, _processor(device), 1)
    drawn: dict[int, TensorProgram] = {}
    for number in range(1, schedules + 1):
        try:
            drawn[number] = TensorProgram.of_layer(layer, batch_size, device, task.program(number).record())
        except Unsupported:
            if number == 1:
                raise
    programs = list(drawn.values())
    best = int(predictor.rank_score(programs).argmax())
    predicted = float(predictor.latency_s(programs[best : best + 1])[0])
    return TunedLayer(layer, batch_size, repeats, list(drawn)[best], predicted)


def _processor(device: str) -> str:
    backend = backends[device]
    if not backend.draws_schedules:
        raise UsageError(f"{device} draws no schedules")
    return str(backend.processor)  # type: ignore[attr-defined]


def _measured(found: Sequence[TunedLayer], device: str, others: Sequence[str]) -> list[TunedLayer]:
    names = dict.fromkeys((device, *others))
    with Visitor({name: Device(backends[name]) for name in names}, _Timing()) as visitor:
        return [
            TunedLayer(
                **{**vars(each), "measured_s": {name: s for name in names if (s := _time(visitor, each, name, device))}}
            )
            for each in found
        ]


def _time(visitor: Visitor, tuned_layer: TunedLayer, name: str, scheduled: str) -> float | None:
    schedule = tuned_layer.schedule if name == scheduled else 0
    condition = Condition(batch_size=tuned_layer.batch_size, schedule=schedule)
    point = Point(tuned_layer.layer, condition, name)
    measured = Measurement(point, tuple(visitor.visit(point, number) for number in range(VISITS)))
    return visited_s(measured)[0] if measured.good_visits else None
