"""Scores on the real scale, against numbers worked out by hand and by scipy."""

from __future__ import annotations

import numpy as np
import pytest

from medn.core.metrics import best_constant, has_learned, relative_errors, score

MEASURED = np.array([1.0, 2.0, 4.0, 5.0])


def test_a_perfect_prediction_has_no_error() -> None:
    found = score(MEASURED, MEASURED)
    assert (found.mape, found.median, found.p90) == (0, 0, 0)
    assert (found.within_5, found.within_10, found.r2, found.r2_log) == (1, 1, 1, 1)
    assert found.spearman == pytest.approx(1)
    assert found.accuracy == 1


def test_errors_are_relative_to_what_was_measured() -> None:
    assert relative_errors(np.array([2.0, 1.0]), np.array([1.0, 2.0])).tolist() == [1.0, 0.5]


def test_scores_worked_out_by_hand() -> None:
    found = score(np.array([1.1, 2.0, 3.0, 5.2]), MEASURED)
    assert found.mape == pytest.approx((0.1 + 0 + 0.25 + 0.04) / 4)
    assert found.median == pytest.approx(0.07)
    assert (found.within_5, found.within_10) == (0.5, pytest.approx(0.75, abs=0.25))
    assert found.r2 == pytest.approx(1 - (0.01 + 1 + 0.04) / 10)


def test_ranks_with_ties_agree_with_scipy() -> None:
    from scipy.stats import spearmanr

    random = np.random.default_rng(0)
    predicted, measured = random.integers(1, 9, 50).astype(float), random.integers(1, 9, 50).astype(float)
    assert score(predicted, measured).spearman == pytest.approx(spearmanr(predicted, measured).statistic)


def test_one_row_has_no_correlation() -> None:
    found = score(np.array([1.0]), np.array([2.0]))
    assert (found.spearman, found.r2) == (None, None)


def test_scores_in_json_name_the_accuracy() -> None:
    assert score(1.2 * MEASURED, MEASURED).as_json()["accuracy"] == pytest.approx(0.8)


def test_the_best_constant_has_the_smallest_mean_relative_error() -> None:
    measured_s = np.exp(np.random.default_rng(0).normal(size=50) * 2)
    found = relative_errors(np.full(50, best_constant(measured_s)), measured_s).mean()
    assert found <= min(relative_errors(np.full(50, each), measured_s).mean() for each in measured_s)


@pytest.mark.parametrize(
    ("predicted_s", "learned"),
    [
        ([1.0, 1.0, 1.0, 1.0], True),  # the constant itself
        ([3.0, 5.0, 20.0, 40.0], False),  # worse for every row
        ([1.0, 2.0, 4.0, 8.0], True),
        ([50.0, 2.0, 4.0, 8.0], True),  # one row spoils the mean
    ],
)
def test_who_is_worse_than_one_number_has_learned_nothing(predicted_s: list[float], learned: bool) -> None:
    assert has_learned(np.array(predicted_s), np.array([1.0, 2.0, 4.0, 8.0]), 1.0) is learned
