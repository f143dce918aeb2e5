"""The law of a learning curve and what it forecasts."""

from __future__ import annotations

import numpy as np
import pytest

from medn.adaptive.cross_validation import GrowingErrors
from medn.adaptive.curve import LearningCurve, fit_laws, learning_curve

SIZES = np.array([30.0, 60.0, 120.0])


def of_errors(errors: list[float], sizes: tuple[int, ...] = (30, 60, 120), spread: float = 0.3) -> GrowingErrors:
    """As if 160 layers of one row each erred like this on average."""
    random = np.random.default_rng(0)
    luck = random.lognormal(0, spread, (160, 1))
    return GrowingErrors(160, sizes, np.array(errors) * luck / luck.mean(), np.ones(160, dtype=int))


def curve_of(errors: list[float], noise: float | None = None) -> LearningCurve:
    return learning_curve(of_errors(errors), noise, seed=1)


def test_errors_that_follow_the_law_give_it_back() -> None:
    errors = 0.02 + 0.5 * SIZES**-0.2
    ((scale, slope),) = fit_laws(SIZES, errors[None, :], 0.02, np.random.default_rng(0))
    assert (scale, slope) == (pytest.approx(0.5, rel=0.02), pytest.approx(0.2, abs=0.02))


def test_more_layers_are_forecast_to_err_less_and_never_less_than_noise() -> None:
    curve = curve_of([0.2, 0.15, 0.12], noise=0.06)
    expected = [curve.forecast(layers).error for layers in (160, 320, 640, 1e9)]
    assert expected == sorted(expected, reverse=True)
    assert expected[-1] >= curve.floor == pytest.approx(0.036)


def test_a_forecast_lies_between_its_bounds() -> None:
    told = curve_of([0.2, 0.15, 0.12]).forecast(320)
    assert told.low < told.error < told.high


def test_layers_that_err_very_differently_leave_more_doubt() -> None:
    widths = []
    for spread in (0.1, 1.5):
        told = learning_curve(of_errors([0.2, 0.15, 0.12], spread=spread), None, seed=1).forecast(320)
        widths.append(told.high / told.low)
    assert widths[0] < widths[1]


def test_two_sizes_make_no_forecast() -> None:
    curve = learning_curve(of_errors([0.2, 0.15], sizes=(14, 27)), None, seed=1)
    assert not curve.has_forecast
    assert curve.errors == (pytest.approx(0.2), pytest.approx(0.15))


def test_a_curve_that_rises_is_not_forecast_to_fall_fast() -> None:
    curve = curve_of([0.1, 0.11, 0.12])
    assert curve.forecast(320).error > 0.09


def test_an_error_at_the_noise_stays_there() -> None:
    curve = curve_of([0.051, 0.05, 0.05], noise=0.08)
    assert curve.forecast(640).error == pytest.approx(0.05, abs=0.01)


def test_errors_of_zero_are_no_curve() -> None:
    assert not learning_curve(of_errors([0.0, 0.0, 0.0]), None, seed=1).has_forecast
