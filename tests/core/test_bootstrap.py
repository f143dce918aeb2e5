"""How sure a mean is: as sure as its layers make it, and honest where they are a handful."""

from __future__ import annotations

import math

import numpy as np
import pytest

from medn.core.bootstrap import estimate, mean_of_few_layers, mean_of_layers
from medn.core.metrics import Scores, relative_errors, score, with_certainty


def names(count: int) -> np.ndarray:
    return np.array([f"layer {number}" for number in range(count)])


@pytest.mark.parametrize("layers", [5, 8, 30])
def test_the_interval_holds_the_true_mean_about_as_often_as_it_says(layers: int) -> None:
    random = np.random.default_rng(layers)
    held, plain = [], []
    for _ in range(300):
        errors = np.abs(random.normal(0, 0.1, layers))
        wide, narrow = mean_of_few_layers(errors, names(layers)), mean_of_layers(errors, names(layers))
        assert wide is not None
        held.append(wide.low <= 0.1 * np.sqrt(2 / np.pi) <= wide.high)
        plain.append(wide.high - wide.low >= narrow.high - narrow.low - 1e-12)
    assert 0.87 < np.mean(held) <= 1.0
    assert all(plain)


def test_rows_of_one_layer_count_as_one() -> None:
    random = np.random.default_rng(0)
    errors = random.uniform(0, 0.2, 20)
    once = mean_of_few_layers(errors, names(20))
    often = mean_of_few_layers(np.repeat(errors, 50), np.repeat(names(20), 50))
    assert once is not None
    assert often is not None
    assert (often.low, often.high) == pytest.approx((once.low, once.high))


def test_the_same_rows_have_the_same_interval() -> None:
    errors = np.random.default_rng(3).uniform(0, 0.2, 12)
    assert mean_of_few_layers(errors, names(12)) == mean_of_few_layers(errors, names(12))


def test_one_layer_says_nothing_of_others() -> None:
    assert mean_of_few_layers(np.array([0.1, 0.2]), np.array(["a", "a"])) is None
    scores = score(np.array([1.1, 2.0]), np.array([1.0, 2.0]))
    assert with_certainty(scores, np.array([1.1, 2.0]), np.array([1.0, 2.0]), np.array(["a", "a"])) == scores


def test_scores_keep_the_interval_and_earlier_ones_have_none() -> None:
    predicted, measured = np.array([1.1, 2.0, 3.3]), np.array([1.0, 2.0, 3.0])
    scores = score(predicted, measured)
    assert (scores.mape_low, scores.mape_high) == (None, None)
    found = with_certainty(scores, predicted, measured, names(3))
    assert found.mape_low is not None
    assert found.mape_high is not None
    assert found.mape_low <= relative_errors(predicted, measured).mean() <= found.mape_high
    assert Scores.from_json(found.as_json()) == found
    before = {name: value for name, value in scores.as_json().items() if not name.startswith("mape_")}
    assert Scores.from_json(before) == scores


@pytest.mark.filterwarnings("error")
def test_what_no_draw_can_tell_has_no_bounds_and_no_warning() -> None:
    found = estimate(np.array([0.5, np.nan, np.nan]))
    assert found.value == 0.5
    assert math.isnan(found.low)
    assert math.isnan(found.high)
