"""Layers whose data fit into no cache are no faster than memory."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from medn.capture.capture import capture
from medn.capture.captured_model import CapturedModel
from medn.core.environment import DEFAULT_CACHE_BYTES
from medn.model.composition import Composition
from medn.model.description import sentences
from medn.model.prepared_model import predict_model
from medn.predictor.predictor import Predictor

RATE = 1e9
LARGE_BYTES = 4 * (40_000 * 1000 + 1000 + 40_000)


def reading_at(predictor: Predictor, bytes_per_s: float) -> Predictor:
    return Predictor(replace(predictor.bundle, streaming=dict.fromkeys(predictor.devices, bytes_per_s)))


@pytest.fixture(scope="module")
def large() -> CapturedModel:
    """A layer of 160 MB behind a small one."""
    layers = torch.nn.Linear(100, 40_000, bias=False), torch.nn.Linear(40_000, 1000)
    return capture(torch.nn.Sequential(*layers), torch.zeros(1, 100))


def test_large_weights_are_read_no_faster_than_memory_gives_them(predictor: Predictor, large: CapturedModel) -> None:
    found = predict_model(reading_at(predictor, RATE), large)
    floor_s = (LARGE_BYTES - DEFAULT_CACHE_BYTES) / RATE
    assert predict_model(predictor, large).rows[1].latency_s < floor_s
    assert found.rows[1].latency_s == pytest.approx(floor_s)
    assert found.rows[1].low_s < floor_s < found.rows[1].high_s


def test_that_a_layer_waits_for_memory_is_told(predictor: Predictor, large: CapturedModel) -> None:
    found = predict_model(reading_at(predictor, RATE), large)
    assert [row.streaming for row in found.rows] == [False, True]
    assert found.streaming_share == pytest.approx(found.rows[1].share)
    assert found.as_json()["streaming_share"] == found.streaming_share
    assert any("in layers that read more than the caches hold" in each for each in sentences(found))


def test_weights_that_fit_into_a_cache_may_be_found_there(predictor: Predictor) -> None:
    small = capture(torch.nn.Linear(500, 500), torch.zeros(1, 500))
    slow, known = predict_model(reading_at(predictor, 1.0), small), predict_model(predictor, small)
    assert slow.latency_s == known.latency_s
    assert not slow.rows[0].streaming


def test_a_layer_that_is_slower_anyway_stays_as_it_is(predictor: Predictor, large: CapturedModel) -> None:
    fast, known = predict_model(reading_at(predictor, 1e15), large), predict_model(predictor, large)
    assert fast.latency_s == known.latency_s
    assert fast.streaming_share == 0


def test_the_composition_comes_on_top(predictor: Predictor, large: CapturedModel) -> None:
    slow = reading_at(predictor, RATE)
    plain, stretched = (
        predict_model(slow, large, composition=each) for each in (Composition(), Composition(stretch=1.5))
    )
    assert stretched.latency_s == pytest.approx(1.5 * plain.latency_s)
