"""Whole models: the sum of their layers, what is not predicted, memory, energy, other batch sizes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from medn.capture.capture import capture
from medn.capture.captured_model import CapturedLayer, CapturedModel, Port
from medn.core.errors import UsageError
from medn.model.description import sentences
from medn.model.prediction import ModelPrediction, combined
from medn.model.prepared_model import PreparedModel, predict_model
from medn.model.schedule import peak_activation_bytes
from medn.predictor.predictor import Predictor


@pytest.fixture(scope="module")
def found(predictor: Predictor, captured: CapturedModel) -> ModelPrediction:
    return predict_model(predictor, captured)


def test_every_layer_has_a_row_in_its_order(found: ModelPrediction) -> None:
    assert [(row.name, row.kind) for row in found.rows] == [
        ("first", "linear"),
        ("second", "linear"),
        ("", "elementwise"),
        ("head.0", "activation"),
        ("head.1", "linear"),
    ]


def test_a_layer_costs_what_it_costs_alone(found: ModelPrediction, predictor: Predictor) -> None:
    alone = predictor.layer("linear", in_features=128, out_features=64, batch_size=2, dtype="fp32")
    row = found.rows[-1]
    assert (row.latency_s, row.low_s, row.high_s) == pytest.approx((alone.latency_s, alone.low_s, alone.high_s))
    assert row.in_range == alone.in_range


def test_the_whole_is_the_sum_of_the_layers(found: ModelPrediction) -> None:
    assert found.latency_s == pytest.approx(sum(row.latency_s for row in found.rows))
    assert sum(row.share for row in found.rows) == pytest.approx(1)


def test_the_interval_lies_between_that_of_independent_and_of_common_errors(found: ModelPrediction) -> None:
    errors = np.array([row.high_s - row.latency_s for row in found.rows])
    assert np.sqrt((errors**2).sum()) < found.high_s - found.latency_s < errors.sum()
    assert 0 < found.low_s < found.latency_s


def test_equal_layers_err_alike(predictor: Predictor) -> None:
    twice = capture(torch.nn.Sequential(*(torch.nn.Linear(128, 128) for _ in range(2))), torch.zeros(1, 128))
    found = predict_model(predictor, twice)
    assert found.high_s == pytest.approx(2 * found.rows[0].high_s)


def test_errors_of_one_layer_stay_as_they_are() -> None:
    assert combined(np.array([2.0])) == pytest.approx(2.0)


def test_what_the_bundle_does_not_predict_is_estimated_and_said(found: ModelPrediction) -> None:
    (unknown,) = found.unknown
    assert (unknown.operator, unknown.kind, unknown.layers) == ("aten.add", "elementwise", 1)
    assert 0 < unknown.time_share == pytest.approx(found.unknown_share)
    assert 0 < unknown.flops_share < 1
    assert 0 < unknown.bytes_share < 1
    row = found.rows[2]
    assert not row.known
    assert not row.in_range
    assert row.low_s < row.latency_s < row.high_s


def test_an_estimate_is_about_that_of_a_layer_that_moves_as_much(found: ModelPrediction, predictor: Predictor) -> None:
    alone = predictor.layer("activation", function="relu", elements=384, batch_size=1)
    assert alone.latency_s / 5 < found.rows[2].latency_s < 5 * alone.latency_s


def test_layers_unlike_those_measured_count_as_outside(predictor: Predictor) -> None:
    found = predict_model(predictor, capture(torch.nn.Linear(60_000, 3), torch.zeros(1, 60_000)))
    assert found.outside_share == pytest.approx(1)
    assert found.unknown_share == 0


def test_numbers_that_are_not_measured_in_are_estimated(predictor: Predictor) -> None:
    found = predict_model(predictor, capture(torch.nn.Linear(128, 128).double(), torch.zeros(1, 128).double()))
    assert not found.rows[0].known


def test_another_batch_size_is_the_model_captured_with_it(
    predictor: Predictor, captured: CapturedModel, small: torch.nn.Module
) -> None:
    scaled = predict_model(predictor, captured, batch_size=8)
    anew = predict_model(predictor, capture(small, torch.zeros(8, 128)))
    assert scaled.layers.latency_s == pytest.approx(anew.layers.latency_s)
    assert scaled.peak_activation_bytes == anew.peak_activation_bytes
    assert scaled.batch_size == 8


def test_utilization_is_a_condition_of_every_layer(predictor: Predictor, captured: CapturedModel) -> None:
    found = predict_model(predictor, captured, utilization=0.5)
    alone = predictor.layer("linear", in_features=128, out_features=64, batch_size=2, dtype="fp32", utilization=0.5)
    assert found.rows[-1].latency_s == pytest.approx(alone.latency_s)
    assert not found.rows[-1].in_range  # all was measured on an idle device


def test_what_was_told_is_told_again_only_for_the_same_question(predictor: Predictor, captured: CapturedModel) -> None:
    prepared = PreparedModel(predictor, captured)
    first = prepared.predict()
    assert prepared.predict(utilization=0.5) is not first
    assert prepared.predict() is first


@pytest.mark.parametrize(
    ("asked", "mistake"),
    [
        ({"batch_size": 0}, "batch_size: must be at least 1"),
        ({"utilization": 1.5}, "utilization: must be at most 0.95"),
    ],
)
def test_a_wrong_condition_is_one_sentence(
    asked: dict[str, float], mistake: str, predictor: Predictor, captured: CapturedModel
) -> None:
    with pytest.raises(UsageError, match=mistake):
        PreparedModel(predictor, captured).predict(**asked)  # type: ignore[arg-type]


def test_a_model_without_layers_takes_no_time(predictor: Predictor) -> None:
    found = predict_model(predictor, CapturedModel((), (), (), 0, 1, "by hand"))
    assert (found.latency_s, found.low_s, found.high_s, found.rows) == (0, 0, 0, ())


def made(*, inputs: tuple[int, ...], output_bytes: int, batch_size: int = 1) -> CapturedLayer:
    return CapturedLayer(
        "", "op", None, batch_size, "fp32", 1, 1, 0, output_bytes, inputs, (output_bytes,) * len(inputs)
    )


def test_memory_peaks_where_most_tensors_live() -> None:
    # 0 makes 100 bytes that 2 still reads; 1 makes 10, 2 makes 1 which is the result.
    layers = (
        made(inputs=(-1,), output_bytes=100),
        made(inputs=(0,), output_bytes=10),
        made(inputs=(0, 1), output_bytes=1),
    )
    ports = (Port("in", (1, 5), "fp32", 5),), (Port("out", (1, 1), "fp32", 1, (2,)),)
    model = CapturedModel(layers, *ports, parameter_bytes=0, batch_size=1, how="by hand")
    assert peak_activation_bytes(model, 1) == 111
    assert peak_activation_bytes(model, 3) == 333


def test_a_result_lives_to_the_end() -> None:
    layers = (made(inputs=(-1,), output_bytes=100), *(made(inputs=(-1,), output_bytes=7) for _ in range(2)))
    model = CapturedModel(layers, (Port("in", (1,), "fp32", 0),), (Port("out", (1,), "fp32", 100, (0,)),), 0, 1, "")
    assert peak_activation_bytes(model, 1) == 107


def test_what_does_not_grow_with_the_batch_stays() -> None:
    layers = (made(inputs=(), output_bytes=10, batch_size=1), made(inputs=(0,), output_bytes=100, batch_size=4))
    model = CapturedModel(layers, (), (Port("out", (4,), "fp32", 100, (1,)),), 0, batch_size=4, how="")
    assert peak_activation_bytes(model, 8) == 210


def test_weights_are_those_of_the_model(found: ModelPrediction, small: torch.nn.Module) -> None:
    assert found.weight_bytes == sum(each.numel() * 4 for each in small.parameters())
    assert found.memory_bytes == found.weight_bytes + found.peak_activation_bytes


def test_energy_is_not_made_up(found: ModelPrediction) -> None:
    assert found.energy_j is None
    assert found.rows[0].energy_j is None


def test_energy_of_all_layers_at_the_power_of_those_known(predictor: Predictor, captured: CapturedModel) -> None:
    entries = tuple(replace(each, further={"energy_j": each.latency}) for each in predictor.bundle.entries)
    metered = Predictor(replace(predictor.bundle, entries=entries))
    found = predict_model(metered, captured)
    # One watt: the made-up energy is that of the latency.
    assert found.energy_j == pytest.approx(found.latency_s)
    assert found.rows[0].energy_j == pytest.approx(found.rows[0].latency_s)
    assert found.rows[2].energy_j is None


def test_a_predictor_takes_modules_files_and_captures(
    predictor: Predictor, captured: CapturedModel, small: torch.nn.Module, found: ModelPrediction
) -> None:
    from_module = predictor.model(small, torch.zeros(1, 128), batch_size=2)
    assert from_module.latency_s == pytest.approx(found.latency_s)
    assert predictor.model(captured).latency_s == pytest.approx(found.latency_s)
    assert predictor.model(captured, batch_size=8).batch_size == 8


def test_the_json_is_the_prediction(found: ModelPrediction) -> None:
    written = found.as_json()
    assert written["latency_s"] == found.latency_s
    assert len(written["layers"]) == len(found.rows)
    assert written["unknown"][0]["operator"] == "aten.add"


def repeated(captured: CapturedModel, times: int) -> CapturedModel:
    return replace(captured, layers=tuple(replace(layer, repeats=times) for layer in captured.layers))


def test_what_runs_often_costs_as_often(predictor: Predictor, captured: CapturedModel) -> None:
    once, often = predict_model(predictor, captured), predict_model(predictor, repeated(captured, 1000))
    assert often.latency_s == pytest.approx(1000 * once.latency_s)
    assert often.layers.latency_s == pytest.approx(1000 * once.layers.latency_s)
    assert often.high_s == pytest.approx(1000 * once.high_s)
    assert often.unknown_share == pytest.approx(once.unknown_share)


def test_what_was_taken_for_granted_is_told(predictor: Predictor, captured: CapturedModel) -> None:
    found = predict_model(predictor, replace(captured, notes=("a loop was counted once",)))
    assert "a loop was counted once" in sentences(found)
    assert found.as_json()["notes"] == ["a loop was counted once"]
