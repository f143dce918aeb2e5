"""Conditions that never varied while layers were measured, asked for at another value."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from medn.bundle.bundle import Entry
from medn.capture.capture import capture
from medn.capture.captured_model import CapturedModel
from medn.deployed.candidate import deployed_of
from medn.model.composition import Composition
from medn.model.prepared_model import predict_model
from medn.model.unmeasured_conditions import BATCH_FACTOR
from medn.predictor.predictor import Predictor


def at_one_batch_size(entry: Entry) -> Entry:
    deployed = deployed_of(entry.latency)
    constants = {**deployed.constants, "batch_size": 1}
    return replace(entry, latency=replace(entry.latency, deployed=replace(deployed, constants=constants)))


@pytest.fixture(scope="module")
def narrow(predictor: Predictor) -> Predictor:
    """The same bundle, had every layer been measured with batches of one."""
    return Predictor(replace(predictor.bundle, entries=tuple(map(at_one_batch_size, predictor.bundle.entries))))


@pytest.fixture(scope="module")
def net() -> CapturedModel:
    return capture(torch.nn.Sequential(torch.nn.Linear(100, 800), torch.nn.ReLU()), torch.zeros(1, 100))


@pytest.mark.parametrize(("batch_size", "doublings"), [(1, 0), (2, 1), (8, 3)])
def test_each_doubling_of_the_batch_widens_the_interval_of_every_layer(
    narrow: Predictor, predictor: Predictor, net: CapturedModel, batch_size: int, doublings: int
) -> None:
    known, unknown = (predict_model(each, net, batch_size=batch_size) for each in (predictor, narrow))
    for inside, outside in zip(known.rows, unknown.rows, strict=True):
        assert outside.latency_s == inside.latency_s
        assert outside.high_s == pytest.approx(inside.high_s * BATCH_FACTOR**doublings)
        assert outside.low_s == pytest.approx(inside.low_s / BATCH_FACTOR**doublings)


def test_a_composition_does_not_hide_that_no_layer_was_measured_so(narrow: Predictor, net: CapturedModel) -> None:
    composition = Composition(error=0.05, largest_batch=16)
    measured, other = (predict_model(narrow, net, batch_size=size, composition=composition) for size in (1, 8))
    assert measured.high_s == pytest.approx(1.05 * measured.latency_s)
    assert other.high_s > 1.3 * other.latency_s


def test_a_busy_device_may_take_as_much_longer_as_others_hold_of_it(predictor: Predictor, net: CapturedModel) -> None:
    idle, busy = (predict_model(predictor, net, utilization=share) for share in (0.0, 0.75))
    assert busy.latency_s == idle.latency_s
    assert busy.rows[0].high_s == pytest.approx(4 * idle.rows[0].high_s)
    assert busy.rows[0].low_s == idle.rows[0].low_s
