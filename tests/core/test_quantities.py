"""The table of quantities: what a declaration may say, and how predictions and counters read it."""

from __future__ import annotations

import copy
import math
import pickle

import numpy as np
import pytest

from medn.core.errors import UsageError
from medn.core.quantities import FIRST, FURTHER, LATENCY, Quantities, Quantity, from_learned, measured_columns
from medn.devices.counters import counters, growth, readings
from medn.estimator.prediction import Prediction, Predictions

FOUND = Prediction(2e-3, 1e-3, 3e-3, 0.9, True, {"memory_bytes": 4096.0})


def misses(name: str = "cache_misses", **said: object) -> Quantity:
    return Quantity(name, "misses", "lines that are not found in the cache", **said)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["memory_bytes", "latency_s", "batch_size", "status", "further", "energy_reason"])
def test_a_name_that_means_something_already_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match=f"a column '{name}' already"):
        Quantities(*FURTHER.values()).declare(misses(name))


@pytest.mark.parametrize("name", ["", "cache misses", "_misses", "1st"])
def test_a_name_that_is_no_column_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="named like a column"):
        misses(name)


def test_a_quantity_that_another_is_never_below_must_be_declared_before() -> None:
    with pytest.raises(UsageError, match=r"no quantity named 'latency_p95_s'\. Did you mean 'latency_p9"):
        Quantities(*FURTHER.values()).declare(misses(over_latency=True, at_least="latency_p95_s"))


def test_columns_have_names_of_their_own() -> None:
    assert len(set(measured_columns())) == len(measured_columns())
    assert {LATENCY.name, *FIRST, "memory_reason", "energy_reason"} <= set(measured_columns())


@pytest.mark.parametrize("value", [0, -1.0, math.inf, math.nan, True, "many", None])
def test_what_cannot_be_measured_is_a_mistake(value: object) -> None:
    assert "must be a number above 0" in (FURTHER["energy_j"].mistake(value) or "")


def test_a_limit_is_told() -> None:
    assert misses(high=10.0).mistake(11) == "must be a number above 0 and at most 10 (got 11)"


def test_a_multiple_of_the_latency_is_not_below_the_one_it_is_measured_by() -> None:
    learned = {"latency_p90_s": np.array([0.5, 3.0]), "latency_p99_s": np.array([2.0, 2.0])}
    found = from_learned(np.array([1.0, 1.0]), learned)
    assert {name: values.tolist() for name, values in found.items()} == {
        "latency_p90_s": [1.0, 3.0],
        "latency_p99_s": [2.0, 3.0],
    }


def test_a_quantity_is_an_attribute_that_is_none_where_it_is_not_predicted() -> None:
    assert (FOUND.memory_bytes, FOUND.energy_j, FOUND.latency_p90_s) == (4096.0, None, None)
    assert {"memory_bytes", "energy_j", "latency_s"} <= set(dir(FOUND))


def test_what_is_no_quantity_is_no_attribute() -> None:
    for found in (FOUND, Predictions.empty(1, ["memory_bytes"])):
        with pytest.raises(AttributeError, match=r"no attribute 'memory_byte'\. Did you mean 'memory_bytes'"):
            found.memory_byte  # noqa: B018
        assert not hasattr(found, "__array__")


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))])
def test_predictions_are_copied_and_pickled(again: object) -> None:
    assert again(FOUND) == FOUND  # type: ignore[operator]
    assert hash(again(FOUND)) == hash(FOUND)  # type: ignore[operator]
    table = Predictions.empty(2, ["memory_bytes"])
    assert again(table).further.keys() == {"memory_bytes"}  # type: ignore[operator]


def test_a_prediction_is_written_with_everything_side_by_side() -> None:
    assert list(FOUND._asdict()) == ["latency_s", "low_s", "high_s", "level", "in_range", *FURTHER]


def test_a_counter_that_fails_or_runs_backwards_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> float:
        raise OSError("no such counter")

    steps = iter((5.0, 3.0))
    monkeypatch.setitem(FURTHER, "broken", misses("broken", counter=broken))
    monkeypatch.setitem(FURTHER, "backwards", misses("backwards", counter=lambda: next(steps)))
    known, silent = counters(None, "no meter")
    found = growth(readings(known), readings(known), calls=2, kept=1.0)
    assert silent == {"energy_j": "no meter"}
    assert "no such counter" in str(found["broken"])
    assert found["backwards"] == "it read -1, which is not from 0 to inf"
