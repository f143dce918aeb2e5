"""A prediction that is not in range says which values lie outside, and where the edge is."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import medn
from medn.model.description import sentences
from medn.predictor.predictor import Predictor
from medn.program.engines import C, engine

LINEAR: dict[str, Any] = {"in_features": 100, "out_features": 200, "batch_size": 8}


@pytest.fixture(scope="module")
def predictor(bundle_path: Path) -> Predictor:
    return medn.load(bundle_path)


def test_nothing_of_a_layer_in_range_lies_outside(predictor: Predictor) -> None:
    assert predictor.layer("linear", **LINEAR).outside == ()


@pytest.mark.parametrize(
    ("contradiction", "measured"), [({"threads": 2}, 1), ({"utilization": 0.5}, 0.0), ({"dtype": "bf16"}, "fp32")]
)
def test_a_value_that_never_varied_is_told_with_the_one_that_was_measured(
    predictor: Predictor, contradiction: dict[str, Any], measured: Any
) -> None:
    ((name, value),) = contradiction.items()
    for _ in range(2):  # the second time goes the fast way
        found = predictor.estimator("linear").layer({**LINEAR, **contradiction}).outside[0]
        assert (found.name, found.value, found.known) == (name, value, (measured,))


@pytest.mark.skipif(engine() != C, reason="NumPy has one way for all")
def test_a_layer_that_contradicts_what_never_varied_is_answered_the_fast_way_too(bundle_path: Path) -> None:
    estimator = medn.load(bundle_path).estimator("linear")
    first = estimator.layer({**LINEAR, "threads": 2})
    again = estimator.answering.one({**LINEAR, "threads": 2})
    assert again is not None
    assert again[:3] == pytest.approx(first[:3])
    assert not again.in_range


def test_a_number_beyond_the_edge_is_told_with_the_edge(predictor: Predictor) -> None:
    found = predictor.layer("linear", **{**LINEAR, "in_features": 90_000}).outside
    first = found[0]
    assert (first.name, first.value) == ("in_features", 90_000)
    assert first.high is not None
    assert (
        predictor.layer("linear", **{**LINEAR, "in_features": round(first.high * 1.01)}).outside[0].name == first.name
    )
    below = predictor.layer("linear", **{**LINEAR, "in_features": int(first.high * 0.99)}).outside
    assert "in_features" not in [each.name for each in below]


def test_a_number_below_the_edge_says_the_lower_edge(predictor: Predictor) -> None:
    first = predictor.layer("linear", **{**LINEAR, "out_features": 1}).outside[0]
    assert str(first) == f"out_features=1 (edge: {first.low:.4g})"


def test_a_category_that_was_not_measured_is_told_with_those_that_were(predictor: Predictor) -> None:
    first = predictor.layer("activation", function="gelu", elements=5000).outside[0]
    assert str(first) == "function=gelu (measured: relu, tanh)"


def test_rows_of_a_table_say_the_same_as_single_layers(predictor: Predictor) -> None:
    table = {**LINEAR, "threads": np.array([1, 2]), "in_features": np.array([100, 90_000])}
    found = predictor.predict(table, "linear")
    alone = predictor.layer("linear", **{**LINEAR, "threads": 2, "in_features": 90_000})
    assert [each.name for each in found[1].outside] == [each.name for each in alone.outside]
    assert found[0].outside == ()


def test_rows_of_several_kinds_leave_out_what_is_not_theirs(predictor: Predictor) -> None:
    rows = [{"kind": "linear", **LINEAR}, {"kind": "activation", "function": "gelu", "elements": 5000}]
    assert predictor.predict(rows)[1].outside[0].name == "function"


def test_every_layer_out_of_range_says_why(predictor: Predictor) -> None:
    random = np.random.default_rng(0)
    sizes = {name: np.exp(random.uniform(0, 10, 200)).astype(int) + 1 for name in ("in_features", "out_features")}
    found = predictor.predict({**sizes, "batch_size": random.choice([1, 3, 8, 64], 200)}, "linear")
    assert [bool(each.outside) for each in found] == (~found.in_range).tolist()


def test_a_prediction_out_of_range_survives_pickling_with_its_reasons(predictor: Predictor) -> None:
    found = predictor.layer("linear", **LINEAR, threads=2)
    again = pickle.loads(pickle.dumps(found))
    assert (again, again.outside) == (found, found.outside)


def test_a_pickled_table_keeps_its_numbers(predictor: Predictor) -> None:
    found = predictor.predict({**LINEAR, "threads": [1, 2]}, "linear")
    assert pickle.loads(pickle.dumps(found)).latency_s.tolist() == found.latency_s.tolist()


def test_what_lies_outside_is_part_of_the_json(predictor: Predictor) -> None:
    (found,) = json.loads(json.dumps(predictor.layer("linear", **LINEAR, threads=2).as_json()))["outside"]
    assert found["sentence"] == "threads=2 (measured: 1)"


def test_a_layer_of_a_model_says_the_same_as_by_itself(convolution_bundle: Path) -> None:
    torch = pytest.importorskip("torch")
    predictor = medn.load(convolution_bundle)
    net = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 4096))
    found = predictor.model(net, torch.zeros(8, 64))
    for place, wide in ((0, 64), (2, 4096)):
        alone = predictor.layer("linear", in_features=64, out_features=wide, batch_size=8)
        assert [str(each) for each in found.layers[place].outside] == [str(each) for each in alone.outside]
    assert any("2 takes most of it: out_features=4096 (edge: " in sentence for sentence in sentences(found))
