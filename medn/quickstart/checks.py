"""Predictions beside measurements that are made after them: a layer that was not in the sweep, and whole networks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from medn.core.errors import NothingMeasured
from medn.core.values import Condition, Measurement, Point
from medn.devices.visits import Visitor
from medn.estimator.prediction import Prediction
from medn.layer_generators.kind import layer_kinds
from medn.layer_generators.sweep import SweepConfig
from medn.measuring.sweep import find_devices
from medn.predictor.predictor import Predictor
from medn.runs.folder import RunFolder
from medn.runs.measured import read_measured

if TYPE_CHECKING:
    from medn.model.composition import Composition
    from medn.model.fit_composition import Coefficient
    from medn.model.prediction import ModelPrediction

FRESH_VISITS = 6
ROUNDS = 3
ROUND_S = 0.3
"""How often, and for how long each time, a whole network is timed."""
COEFFICIENTS: tuple[Coefficient, ...] = ("stretch", "small_share", "large_share")
"""What is fitted to four networks; more could not be told."""


@dataclass(frozen=True)
class LayerCheck:
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


@dataclass(frozen=True)
class NetworkCheck:
    """A whole network: what its layers say, and what it takes."""

    name: str
    prediction: ModelPrediction
    measured_s: float

    @property
    def difference(self) -> float:
        return self.prediction.latency_s / self.measured_s - 1

    @property
    def in_range(self) -> float:
        """The share of its time in layers like those that were measured."""
        return 1 - self.prediction.outside_share - self.prediction.unknown_share


def check_layer(folder: RunFolder, config: SweepConfig, predictor: Predictor) -> LayerCheck:
    """Predict a convolution, then measure it."""
    with folder.store(must_exist=True) as store:
        measurements, chosen = read_measured(store)
    known = {measurement.point.layer for measurement in measurements}
    point = next(point for point in _convolutions(predictor.device) if point.layer not in known)
    prediction = predictor.layer(point.layer.kind, **point.layer.values, batch_size=point.condition.batch_size)
    with Visitor(find_devices(config), config.measure) as visitor:
        visits = tuple(visitor.visit(point, number) for number in range(FRESH_VISITS))
    measurement = Measurement(point, visits)
    if not measurement.good_visits:
        raise NothingMeasured(f"{point} could not be measured: {measurement.reason}")
    return LayerCheck(point, prediction, chosen.target.latency_s(measurement))


def _convolutions(device: str) -> Iterator[Point]:
    """Between those of ResNet-18; the first that the sweep did not draw is taken."""
    for in_channels in (96, 88, 104):
        for out_channels in (160, 144, 176, 152):
            sizes = {"in_channels": in_channels, "out_channels": out_channels, "in_size": 28, "kernel_size": 3}
            layer = layer_kinds["conv2d"].layer(**sizes, padding=1, bias=False)
            yield Point(layer, Condition(), device)


def check_networks(predictor: Predictor) -> tuple[tuple[NetworkCheck, ...], Composition]:
    """Predict whole networks from their layers, which compose as other networks say that are timed beside them."""
    from medn.capture.capture import capture
    from medn.model.fit_composition import fit_composition
    from medn.model.measured_models import Timeable, measure_models, plain, usable_backend
    from medn.model.prepared_model import PreparedModel
    from medn.quickstart.networks import OTHERS, PREDICTED

    made = {name: make() for name, make in {**PREDICTED, **OTHERS}.items()}
    prepared = {name: PreparedModel(predictor, capture(*network)) for name, network in made.items()}
    backend = usable_backend(predictor.bundle.backend(predictor.device))
    runnable: dict[str, partial[Timeable]] = {name: partial(plain, *network) for name, network in made.items()}
    measured = measure_models(backend, runnable, rounds=ROUNDS, visit_s=ROUND_S)
    others = [(prepared[name], measured[name].seconds) for name in OTHERS]
    composition = fit_composition(predictor, others, coefficients=COEFFICIENTS)
    checks = (
        NetworkCheck(name, prepared[name].predict(composition=composition), measured[name].seconds)
        for name in PREDICTED
    )
    return tuple(checks), composition
