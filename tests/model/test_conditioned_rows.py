"""Asking the same layers under other conditions: what does not matter to them is not computed again."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from medn.capture.captured_model import CapturedModel
from medn.estimator.estimator import Estimator
from medn.model.conditioned_rows import CACHE_SIZE, ConditionedRows, cached
from medn.model.prepared_model import PreparedModel, predict_model
from medn.predictor.predictor import Predictor


@pytest.fixture
def linear(predictor: Predictor) -> Estimator:
    return predictor.estimator("linear")


@pytest.fixture
def rows(linear: Estimator) -> ConditionedRows:
    return ConditionedRows(linear, linear.prepare({"in_features": np.array([64, 128]), "out_features": 100}, 2))


def test_values_of_a_condition_that_never_varied_share_an_answer(rows: ConditionedRows) -> None:
    assert rows.numbers({"utilization": 0.3}) is rows.numbers({"utilization": 0.4})


def test_what_was_measured_is_told_from_what_was_not(rows: ConditionedRows) -> None:
    idle, loaded = rows.under({"utilization": 0.0}), rows.under({"utilization": 0.4})
    assert idle.in_range.all()
    assert not loaded.in_range.any()
    assert np.array_equal(idle.latency_s, loaded.latency_s)


def test_a_condition_that_is_an_input_has_an_answer_for_each_value(rows: ConditionedRows, linear: Estimator) -> None:
    assert "batch_size" in linear.range.schema.names
    found = [rows.under({"batch_size": size, "utilization": 0.3}) for size in (1, 8)]
    fresh = linear.estimate(linear.under(rows.rows, {"batch_size": 8, "utilization": 0.3}))
    assert np.array_equal(found[1].latency_s, fresh.latency_s)
    assert not np.array_equal(found[0].latency_s, found[1].latency_s)


def test_only_wanted_quantities_are_computed(predictor: Predictor, rows: ConditionedRows) -> None:
    (entry,) = (each for each in predictor.bundle.entries if each.kind == "linear")
    both = replace(entry, further={"memory_bytes": entry.latency, "energy_j": entry.latency})
    metered = Estimator(both, predictor.device)
    found = ConditionedRows(metered, rows.rows, ("energy_j",)).under({"utilization": 0.0})
    assert list(found.further) == ["energy_j"]


def test_a_model_asked_again_is_as_one_asked_for_the_first_time(predictor: Predictor, captured: CapturedModel) -> None:
    prepared = PreparedModel(predictor, captured)
    for utilization in (0.0, 0.3, 0.31, 0.0):
        again, first = prepared.predict(None, utilization), predict_model(predictor, captured, utilization=utilization)
        assert np.array_equal(again.layers.latency_s, first.layers.latency_s)
        assert np.array_equal(again.layers.in_range, first.layers.in_range)
        assert (again.low_s, again.high_s, again.utilization) == (first.low_s, first.high_s, utilization)


def test_only_so_much_is_kept() -> None:
    cache: dict[int, int] = {}
    assert [cached(cache, key, lambda key=key: -key) for key in range(CACHE_SIZE + 1)][-1] == -CACHE_SIZE  # type: ignore[misc]
    assert cache == {CACHE_SIZE: -CACHE_SIZE}
