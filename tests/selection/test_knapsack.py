"""The knapsack against trying everything."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medn.core.table import Array
from medn.selection.knapsack import Items, Picks, nearest_limits, solve, tradeoffs
from medn.selection.pareto import nondominated

NUMBERS = st.integers(0, 12).map(float)


@st.composite
def problems(draw: st.DrawFn, most_resources: int = 3) -> tuple[list[Items], Array]:
    """Small whole numbers, so that ties and sums equal to a limit are common."""
    resources = draw(st.integers(0, most_resources))
    classes = []
    for count in draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)):
        values = draw(st.lists(NUMBERS, min_size=count, max_size=count))
        amounts = draw(st.lists(NUMBERS, min_size=count * resources, max_size=count * resources))
        classes.append(Items(np.array(values), np.array(amounts).reshape(count, resources)))
    limits = draw(st.lists(st.integers(1, 30).map(float), min_size=resources, max_size=resources))
    return classes, np.array(limits)


def everything(classes: list[Items]) -> Iterator[tuple[Picks, float, Array]]:
    for picks in itertools.product(*(range(len(items.values)) for items in classes)):
        value = sum(float(items.values[pick]) for items, pick in zip(classes, picks, strict=True))
        amounts = [items.amounts[pick] for items, pick in zip(classes, picks, strict=True)]
        yield picks, value, np.sum(amounts, axis=0)


@settings(max_examples=200, deadline=None)
@given(problems())
def test_the_least_value_within_the_limits_is_found(problem: tuple[list[Items], Array]) -> None:
    classes, limits = problem
    fitting = {picks: value for picks, value, amounts in everything(classes) if (amounts <= limits).all()}
    found = solve(classes, limits)
    if not fitting:
        assert found is None
    else:
        assert found is not None
        assert fitting[found] == min(fitting.values())


@settings(max_examples=100, deadline=None)
@given(problems(most_resources=2))
def test_the_front_is_all_that_nothing_beats(problem: tuple[list[Items], Array]) -> None:
    classes, _ = problem
    points = {(value, *amounts) for _, value, amounts in everything(classes)}
    best = {
        point
        for point in points
        if not any(other != point and all(map(float.__le__, other, point)) for other in points)
    }
    totals = {picks: (value, *amounts) for picks, value, amounts in everything(classes)}
    found = [totals[picks] for picks in tradeoffs(classes)]
    assert set(found) == best
    assert len(found) == len(best)


@settings(max_examples=100, deadline=None)
@given(problems(most_resources=1).filter(lambda problem: len(problem[1]) == 1))
def test_the_nearest_limit_is_the_least_that_can_be_met(problem: tuple[list[Items], Array]) -> None:
    classes, limits = problem
    assert nearest_limits(classes, limits)[0] == min(amounts[0] for _, _, amounts in everything(classes))


@settings(max_examples=100, deadline=None)
@given(problems().filter(lambda problem: len(problem[1]) > 0))
def test_the_nearest_limits_can_be_met(problem: tuple[list[Items], Array]) -> None:
    classes, limits = problem
    assert solve(classes, np.maximum(nearest_limits(classes, limits), 1e-9)) is not None


@pytest.mark.parametrize("seed", range(30))
def test_numbers_far_apart_are_chosen_from_exactly(seed: int) -> None:
    """Values and amounts over eighteen orders of magnitude, and limits that some choice just meets."""
    random = np.random.default_rng(seed)
    classes = [Items(10 ** random.uniform(-6, 12, 4), 10 ** random.uniform(-6, 12, (4, 2))) for _ in range(4)]
    limits = np.sum([items.amounts[random.integers(4)] for items in classes], axis=0)
    fitting = {picks: value for picks, value, amounts in everything(classes) if (amounts <= limits).all()}
    found = solve(classes, limits)
    assert found is not None
    assert fitting[found] == min(fitting.values())


def test_many_classes_with_three_limits_are_solved_at_once() -> None:
    random = np.random.default_rng(0)
    classes = []
    for _ in range(20):
        quality = np.sort(random.random(12))[::-1] ** 2
        amounts = np.exp(random.normal(size=(12, 3))) / quality[:, None] ** 0.7
        classes.append(Items(0.03 + 0.3 * quality, amounts))
    limits = np.sum([np.median(items.amounts, axis=0) for items in classes], axis=0)
    found = solve(classes, limits)
    assert found is not None
    assert (np.sum([items.amounts[pick] for items, pick in zip(classes, found, strict=True)], axis=0) <= limits).all()


@pytest.mark.parametrize("columns", [1, 2, 3, 4])
def test_what_another_row_beats_is_dominated(columns: int) -> None:
    points = np.random.default_rng(columns).integers(0, 5, size=(60, columns)).astype(float)
    expected = [
        not any(
            (other <= point).all() and ((other < point).any() or place < index) for place, other in enumerate(points)
        )
        for index, point in enumerate(points)
    ]
    assert nondominated(points).tolist() == expected
