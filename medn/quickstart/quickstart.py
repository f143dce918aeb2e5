"""The whole flow on this machine in two minutes: what is measured, how the time is shared out, and a fresh check."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files

from medn.core.errors import NothingMeasured
from medn.core.values import Condition, Measurement, Point
from medn.devices.backend import backends
from medn.devices.probe import probes
from medn.estimator.prediction import Prediction
from medn.layer_generators.kind import layer_kinds
from medn.layer_generators.sweep import SweepConfig, parse_sweep
from medn.measuring.sweep import find_devices
from medn.measuring.visits import Visitor
from medn.predictor.predictor import Predictor
from medn.runs.folder import RunFolder
from medn.runs.measured import read_measured

FAMILIES = ("roofline", "gaussian_process", "lightgbm_on_roofline", "xgboost_on_roofline", "medn_on_roofline")
"""A few of different sorts: with seconds for each, all of them would learn little."""

SHORTEST_S = 40.0
SWEEP_SHARE = 0.43
TRAIN_SHARE = 0.33
"""Of the time; the rest is for choosing, the bundle, the report and the fresh measurement."""

FRESH_VISITS = 6


def quick_config() -> SweepConfig:
    text = files("medn.quickstart").joinpath("quickstart.yaml").read_text(encoding="utf-8")
    return parse_sweep(text, list(backends), list(probes))


@dataclass(frozen=True)
class FreshLayerCheck:
    """A layer that was not in the sweep: what the bundle says of it, and what it takes."""

    point: Point
    prediction: Prediction
    measured_s: float

    @property
    def difference(self) -> float:
        return self.prediction.latency_s / self.measured_s - 1

    @property
    def is_inside(self) -> bool:
        """Whether the measurement lies in the interval that was promised."""
        return self.prediction.low_s <= self.measured_s <= self.prediction.high_s


def check_fresh_layer(folder: RunFolder, config: SweepConfig, predictor: Predictor) -> FreshLayerCheck:
    """Predict a convolution, then measure it."""
    with folder.store(must_exist=True) as store:
        measurements, chosen = read_measured(store)
    known = {measurement.point.key for measurement in measurements}
    point = next(point for point in _convolutions(predictor.device) if point.key not in known)
    prediction = predictor.layer(point.layer.kind, **point.layer.values, batch_size=point.condition.batch_size)
    with Visitor(find_devices(config), config.measure) as visitor:
        visits = tuple(visitor.visit(point, number) for number in range(FRESH_VISITS))
    measurement = Measurement(point, visits)
    if not measurement.good_visits:
        raise NothingMeasured(f"{point} could not be measured: {measurement.reason}")
    return FreshLayerCheck(point, prediction, chosen.target.latency_s(measurement))


def _convolutions(device: str) -> Iterator[Point]:
    """Ordinary ones; the first that the sweep did not draw is taken."""
    for in_channels in (48, 40, 56, 72):
        for out_channels in (96, 80, 112):
            sizes = {"in_channels": in_channels, "out_channels": out_channels, "in_size": 28, "kernel_size": 3}
            layer = layer_kinds["conv2d"].layer(**sizes, same_padding=True)
            yield Point(layer, Condition(batch_size=2), device)
