"""Intervals cover what they promise, and are narrow where the regressor is sure."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from medn.core.intervals import LEVEL, Coverage, Interval, Spread, calibrate, coverage, fit_spread, log_errors
from medn.core.table import Array

CONSTANT = Spread(0.0, 1.0, (0.0, 0.0, 0.0, 0.0), 0.0, 0.0)


def made_up(rows: int, seed: int) -> tuple[Array, Array, Array]:
    """Predictions and measurements that differ ten times as much for short latencies and far from the training data."""
    random = np.random.default_rng(seed)
    predicted_s = np.exp(random.uniform(-12, -4, rows))
    distance = random.uniform(0, 1, rows)
    spread = np.where(predicted_s < 1e-4, 0.2, 0.02) * (1 + distance)
    return predicted_s, predicted_s * np.exp(spread * random.normal(size=rows)), distance


def tried(interval: Interval, predicted_s: Array, measured_s: Array, distance: Array) -> Coverage:
    return coverage(interval.level, predicted_s, *interval.bounds(predicted_s, distance), measured_s)


def calibrated(rows: int, seed: int, level: float = LEVEL) -> Interval:
    return calibrate(fit_spread(*made_up(rows, seed)), *made_up(rows, seed + 1), level)


def test_coverage_is_what_was_promised_over_many_draws() -> None:
    shares = [tried(calibrated(60, 10 * seed), *made_up(400, 10 * seed + 5)).covered for seed in range(60)]
    # The coverage of one calibration varies like a beta distribution; over 60 of them its mean hardly does.
    deviation = math.sqrt(LEVEL * (1 - LEVEL) / (60 + 2) / 60)
    assert LEVEL - 4 * deviation < np.mean(shares) < LEVEL + 1 / 61 + 4 * deviation


@pytest.mark.parametrize("level", [0.5, 0.8, 0.95])
def test_every_level_is_covered_within_binomial_bounds(level: float) -> None:
    found = tried(calibrated(4000, 3, level), *made_up(4000, 7))
    assert abs(found.covered - level) < 4 * math.sqrt(2 * level * (1 - level) / 4000)
    assert (found.level, found.rows) == (level, 4000)


def test_adaptive_intervals_are_narrower_than_constant_ones() -> None:
    adaptive = calibrated(500, 1)
    constant = calibrate(CONSTANT, *made_up(500, 2))
    test = made_up(2000, 5)
    assert tried(adaptive, *test).mean_width < 0.9 * tried(constant, *test).mean_width


def test_few_rows_are_not_believed_that_errors_far_away_are_hardly_larger() -> None:
    """Rows near and far that err alike: the fewer there are, the more the far ones are doubted."""
    ratios = []
    for rows in (60, 6000):
        random = np.random.default_rng(0)
        predicted, distance = np.ones(rows), np.tile([0.0, 1.0], rows // 2)
        measured = np.exp(np.repeat(random.normal(0, 0.1, rows // 2), 2))
        near, far = fit_spread(predicted, measured, distance).at(np.zeros(2), np.array([0.0, 1.0]))
        ratios.append(far / near)
    few, many = ratios
    assert few > 1.25 * many > 1.25


def test_few_validation_rows_do_not_break_the_spread() -> None:
    for rows in (1, 2, 5):
        low, high = calibrated(rows, 4).bounds(np.array([1e-6, 1.0]), np.array([0.0, 50.0]))
        assert np.isfinite(low).all()
        assert (low <= high).all()


def test_perfect_predictions_give_finite_bounds() -> None:
    predicted_s = np.array([1e-3, 2e-3, 3e-3])
    interval = calibrate(fit_spread(predicted_s, predicted_s, np.zeros(3)), predicted_s, predicted_s, np.zeros(3))
    low, high = interval.bounds(predicted_s, np.zeros(3))
    np.testing.assert_allclose(low, high)


def test_the_quantile_counts_the_row_to_come() -> None:
    predicted_s, measured_s, distance = np.ones(9), np.exp(np.arange(1.0, 10.0)), np.zeros(9)
    assert calibrate(CONSTANT, predicted_s, measured_s, distance, 0.8).quantile == pytest.approx(8)
    assert calibrate(CONSTANT, predicted_s, measured_s, distance, 0.9).quantile == pytest.approx(9)


def test_too_few_rows_promise_less() -> None:
    assert calibrated(4, 0).guaranteed_level == pytest.approx(0.8)
    assert calibrated(100, 0).guaranteed_level == LEVEL


def test_an_interval_survives_json() -> None:
    interval = calibrated(50, 0)
    assert Interval.from_json(json.loads(json.dumps(interval.as_json()))) == interval


def test_errors_are_the_same_up_and_down() -> None:
    np.testing.assert_allclose(log_errors(np.array([1.0, 1.0]), np.array([2.0, 0.5])), math.log(2))


def with_wild_far_rows(rows: int, seed: int) -> tuple[Array, Array, Array]:
    """Errors whose median is about the same everywhere, with the heavy tails of far rows."""
    random = np.random.default_rng(seed)
    predicted_s, distance = np.exp(random.uniform(-12, -4, rows)), random.uniform(0, 1, rows)
    errors = np.where(distance > 0.8, random.standard_t(2, rows), random.normal(size=rows))
    return predicted_s, predicted_s * np.exp(0.05 * errors), distance


def test_far_rows_that_err_more_wildly_are_covered_too() -> None:
    shares = []
    for seed in range(0, 400, 10):
        interval = calibrate(fit_spread(*with_wild_far_rows(160, seed)), *with_wild_far_rows(160, seed + 1))
        predicted, measured, distance = with_wild_far_rows(1000, seed + 2)
        far = distance > 0.8
        shares.append(tried(interval, predicted[far], measured[far], distance[far]).covered)
    assert np.mean(shares) > 0.85
