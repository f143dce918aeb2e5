"""What is observed of layers is held against their intervals, and a change is told."""

from __future__ import annotations

import json
import math
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import medn
from medn.core.errors import UsageError
from medn.core.sequential import promised_spread
from medn.core.values import Condition
from medn.estimator.prediction import Prediction
from medn.layer_generators.kind import layer_kinds
from medn.predictor.observed import KEPT
from medn.predictor.predictor import Predictor

LINEAR: dict[str, Any] = {"kind": "linear", "in_features": 100, "out_features": 200, "batch_size": 8}


@pytest.fixture
def predictor(bundle_path: Path) -> Predictor:
    return medn.load(bundle_path)


def observe_many(predictor: Predictor, factor: float, count: int = 300) -> None:
    random = np.random.default_rng(0)
    predicted = predictor.layer("linear", **{name: value for name, value in LINEAR.items() if name != "kind"})
    spread = promised_spread(predicted.low_s, predicted.high_s, predicted.level)
    for _ in range(count):
        predictor.observe(LINEAR, factor * predicted.latency_s * math.exp(spread * random.standard_t(4)))


def test_nothing_observed_is_said_so(predictor: Predictor) -> None:
    assert repr(predictor.drift) == "<Drift: nothing was observed yet>"
    assert not predictor.drift.should_adapt


def test_observations_that_fit_are_said_to_fit(predictor: Predictor) -> None:
    observe_many(predictor, 1.0)
    (linear,) = predictor.drift.kinds
    assert (linear.kind, linear.observations, linear.change) == ("linear", 300, "")
    assert linear.covered == pytest.approx(linear.promised, abs=0.06)
    assert linear.factor == pytest.approx(1.0, abs=0.1)
    assert repr(predictor.drift) == "<Drift: 300 observations fit what is predicted>"


def test_a_machine_that_became_slower_is_to_be_adapted_to(predictor: Predictor) -> None:
    observe_many(predictor, 1.0)
    observe_many(predictor, 2.0)
    assert predictor.drift.should_adapt
    (reason,) = predictor.drift.reasons
    assert reason.startswith("linear: ")
    assert repr(predictor.drift).startswith("<Drift: adapt, as linear: ")
    assert "linear" in predictor.drift._repr_html_()


def test_an_observation_gives_what_was_predicted(predictor: Predictor) -> None:
    values = {name: value for name, value in LINEAR.items() if name != "kind"}
    assert predictor.observe(LINEAR, 1e-3) == predictor.layer("linear", **values)


def test_layers_are_given_as_rows_of_tables_are(predictor: Predictor) -> None:
    layer = layer_kinds["linear"].layer(in_features=100, out_features=200)
    predictor.observe(layer, 1e-3)
    predictor.observe((layer, Condition(batch_size=8)), np.float64(1e-3))
    assert predictor.drift.kinds[0].observations == 2


def test_what_lies_outside_is_counted_and_not_judged(predictor: Predictor) -> None:
    for _ in range(100):
        predictor.observe({**LINEAR, "in_features": 200_000}, 100.0)
    (linear,) = predictor.drift.kinds
    assert (linear.observations, linear.outside, linear.change) == (0, 100, "")


def test_what_is_kept_does_not_grow(predictor: Predictor) -> None:
    observe_many(predictor, 1.0, 3 * KEPT)
    assert len(predictor._observed._kinds["linear"].last) == KEPT
    assert predictor.drift.kinds[0].observations == 3 * KEPT


def test_threads_lose_no_observation(predictor: Predictor) -> None:
    threads = [threading.Thread(target=observe_many, args=(predictor, 1.0, 200)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert predictor.drift.kinds[0].observations == 1600


@pytest.mark.parametrize("measured", [0, -1.0, math.nan, math.inf, "fast", None, True, [1.0]])
def test_what_are_no_seconds_is_refused(predictor: Predictor, measured: Any) -> None:
    with pytest.raises(UsageError, match="measured_s: must be seconds"):
        predictor.observe(LINEAR, measured)
    assert predictor.drift.kinds == ()


@pytest.mark.parametrize("layer", ["linear", None, {"in_features": 8}, ("linear", {}), 3])
def test_what_is_no_layer_is_refused(predictor: Predictor, layer: Any) -> None:
    with pytest.raises(UsageError, match="a layer is a dict with its kind"):
        predictor.observe(layer, 1e-3)


def test_a_report_is_ready_for_json(predictor: Predictor) -> None:
    observe_many(predictor, 3.0)
    told = json.loads(json.dumps(predictor.drift.as_json()))
    assert told["should_adapt"] is True
    assert told["kinds"][0]["kind"] == "linear"


def test_a_layer_is_worth_measuring_where_its_interval_is_wide_or_it_lies_outside() -> None:
    assert not Prediction(1.0, 1 / 1.2, 1.2, 0.9, True).should_measure
    assert Prediction(1.0, 1 / 1.3, 1.3, 0.9, True).should_measure
    assert Prediction(1.0, 1 / 1.2, 1.2, 0.9, False).should_measure
    assert Prediction(1.0, 1 / 1.2, 1.2, 0.9, True).uncertainty == pytest.approx(0.2)


def test_tables_say_the_same_of_each_row(predictor: Predictor) -> None:
    table = predictor.predict({"kind": "linear", "in_features": [100, 200_000], "out_features": 200, "batch_size": 8})
    assert table.should_measure.tolist() == [row.should_measure for row in table]
    assert table.uncertainty.tolist() == pytest.approx([row.uncertainty for row in table])
    assert table.should_measure[1]
