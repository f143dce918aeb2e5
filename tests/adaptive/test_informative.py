"""Which points tell most about others."""

from __future__ import annotations

import numpy as np
import pytest

from medn.adaptive.informative import Knowledge, most_informative
from medn.adaptive.quick_fit import QuickFit
from medn.core.table import Schema, Table

EVEN = np.ones(1)
"""All candidates take as long."""


def table_of(values: list[float]) -> Table:
    inputs = np.array(values, dtype=np.float64)[:, None]
    targets = np.exp(np.sin(inputs[:, 0]))
    return Table(Schema(("size",)), inputs, targets, np.array([str(value) for value in values]))


@pytest.fixture(scope="module")
def fitted() -> QuickFit:
    """Of a function of one input, measured between 1 and 3 alone."""
    return QuickFit.of(table_of(np.linspace(1, 3, 12).tolist()), seed=0)


def knowledge(fitted: QuickFit, candidates: list[float], population: list[float]) -> Knowledge:
    return Knowledge(fitted.process, np.array(candidates)[:, None], np.array(population)[:, None])


def test_a_point_among_those_to_predict_tells_more_than_one_where_all_is_known(fitted: QuickFit) -> None:
    known = knowledge(fitted, [2.0, 6.0], np.linspace(5, 7, 20).tolist())
    assert most_informative([known], EVEN, 1) == [1]


def test_a_point_far_from_all_that_is_to_be_predicted_tells_least(fitted: QuickFit) -> None:
    known = knowledge(fitted, [400.0, 6.0, 6.5], np.linspace(5, 7, 20).tolist())
    assert most_informative([known], EVEN, 3)[-1] == 0


def test_the_second_point_is_not_beside_the_first(fitted: QuickFit) -> None:
    known = knowledge(fitted, [6.0, 6.001, 9.0], [*np.linspace(5, 7, 20), *np.linspace(8, 10, 15)])
    assert 2 in most_informative([known], EVEN, 2)


def test_of_two_that_tell_the_same_the_quicker_comes_first(fitted: QuickFit) -> None:
    known = knowledge(fitted, [6.0, 6.0], np.linspace(5, 7, 20).tolist())
    assert most_informative([known], np.array([2.0, 1.0]), 1) == [1]


def test_no_candidate_is_chosen_twice_and_no_more_than_there_are(fitted: QuickFit) -> None:
    known = knowledge(fitted, [5.0, 6.0, 7.0], [5.5, 6.5])
    assert sorted(most_informative([known], EVEN, 10)) == [0, 1, 2]


def test_what_a_candidate_is_said_to_lower_the_variance_by_is_what_it_lowers() -> None:
    fitted = QuickFit.of(table_of(np.linspace(1, 3, 12).tolist()), seed=0)
    population = np.linspace(4, 6, 9)
    known = knowledge(fitted, [5.0], population.tolist())
    process = fitted.process
    scaled = process.scaled(population[:, None])

    def variance(told: np.ndarray[tuple[int, int], np.dtype[np.float64]]) -> float:
        return float((process.found.variance - (told**2).sum(axis=0)).mean() * process.size**2)

    before = process.explained(scaled)
    at = process.scaled(np.array([[5.0]]))
    told = process.explained(at)
    left = process.covariance(at, scaled) - told.T @ before
    rest = float((process.covariance(at, at) - told.T @ told)[0, 0] + process.found.noise)
    after = np.vstack([before, left / np.sqrt(rest)])
    assert known.gains()[0] == pytest.approx(variance(before) - variance(after))
