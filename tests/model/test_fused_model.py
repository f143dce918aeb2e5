"""Models as a backend runs them: what it fuses is predicted as one layer."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from medn.capture.capture import capture
from medn.model.fused_model import executed_model
from medn.model.prepared_model import PreparedModel
from medn.predictor.predictor import Predictor


@pytest.fixture(scope="module")
def compiled(predictor: Predictor) -> Predictor:
    """The same measurements, had they been made on a backend that fuses, under a name of the user's own."""
    bundle = predictor.bundle
    return Predictor(replace(bundle, backends=dict.fromkeys(bundle.devices, "onnxruntime")))


def model() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Tanh(), torch.nn.Linear(64, 32))


def test_eager_torch_fuses_nothing(predictor: Predictor) -> None:
    captured = capture(model(), torch.zeros(2, 64))
    assert executed_model(predictor, captured) is captured


def test_a_fused_group_is_one_layer_with_one_time(compiled: Predictor) -> None:
    found = PreparedModel(compiled, capture(model(), torch.zeros(2, 64))).predict()
    assert [row.what for row in found.rows] == ["linear+tanh", "linear"]
    assert found.latency_s == pytest.approx(sum(row.latency_s for row in found.rows))


def test_a_group_that_was_not_measured_is_taken_for_its_head(compiled: Predictor) -> None:
    found = PreparedModel(compiled, capture(model(), torch.zeros(2, 64))).predict()
    head = compiled.layer("linear", in_features=64, out_features=64, batch_size=2, dtype="fp32")
    assert (found.rows[0].kind, found.rows[0].known) == ("linear", True)
    assert found.rows[0].latency_s == pytest.approx(head.latency_s)


def test_without_fusion_every_layer_stays(compiled: Predictor) -> None:
    found = PreparedModel(compiled, capture(model(), torch.zeros(2, 64)), fused=False).predict()
    assert [row.kind for row in found.rows] == ["linear", "activation", "linear"]
