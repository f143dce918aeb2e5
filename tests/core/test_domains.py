"""Domains: the forms a config writes, what they draw, and the sentences for those that are none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medn.core.domains import (
    Choices,
    Domain,
    Fixed,
    LogRange,
    OneOf,
    PowersOfTwo,
    Range,
    log_range,
    one_of,
    parse_domain,
    weighted,
    wrong_parts,
)

EXAMPLES: list[Domain] = [
    Fixed(3),
    Fixed("relu"),
    one_of(1, 3, 5),
    one_of("add", "mul"),
    Range((7, 56), 7),
    Range((0.0, 0.9), 0.1),
    Range((0.0, 0.9)),
    log_range(8, 500, multiple_of=8),
    log_range(9, 16, multiple_of=8),
    PowersOfTwo((1, 64)),
    PowersOfTwo((3, 9)),
    weighted({1: 0.8, 2: 0.2}),
    weighted({True: 1, False: 3}),
]


@pytest.mark.parametrize("domain", EXAMPLES, ids=str)
@given(fraction=st.floats(0, 1))
def test_a_drawn_value_belongs_to_its_domain(domain: Domain, fraction: float) -> None:
    value = domain.at(fraction)
    assert domain.nearest(value) == value


@pytest.mark.parametrize("domain", EXAMPLES, ids=str)
def test_every_grid_value_belongs_to_its_domain_and_stands_once(domain: Domain) -> None:
    grid = domain.grid()
    assert [domain.nearest(value) for value in grid] == grid
    assert len(set(grid)) == len(grid)


@pytest.mark.parametrize("domain", EXAMPLES, ids=str)
def test_the_ends_of_a_domain_are_its_first_and_last_fraction(domain: Domain) -> None:
    assert domain.at(0.0) == domain.grid()[0]
    assert domain.at(1.0) == domain.grid()[-1]


@given(low=st.integers(1, 500), more=st.integers(0, 500), multiple=st.integers(1, 64), fraction=st.floats(0, 1))
def test_a_log_range_draws_multiples_inside_its_ends(low: int, more: int, multiple: int, fraction: float) -> None:
    high = (low + more + multiple - 1) // multiple * multiple
    value = LogRange((low, high), multiple).at(fraction)
    assert isinstance(value, int)
    assert low <= value <= high
    assert value % multiple == 0


@pytest.mark.parametrize(
    ("written", "domain"),
    [
        (3, Fixed(3)),
        (True, Fixed(True)),
        ("relu", Fixed("relu")),
        ([1, 3], OneOf((1, 3))),
        ({"range": [7, 56], "step": 7}, Range((7, 56), 7)),
        ({"log_range": [8, 64], "multiple_of": 8}, LogRange((8, 64), 8)),
        ({"powers_of_two": [1, 64]}, PowersOfTwo((1, 64))),
        ({"choices": {1: 0.8, 2: 0.2}}, Choices({1: 0.8, 2: 0.2})),
    ],
)
def test_every_written_form_is_read(written: object, domain: Domain) -> None:
    assert parse_domain(written) == domain


@pytest.mark.parametrize(
    ("written", "sentence"),
    [
        ([], "a list of values must not be empty"),
        ([[1]], "must be a number, a string, or true or false (got [1])"),
        (float("nan"), "must be a number, a string, or true or false (got nan)"),
        ({}, "needs exactly one of range, log_range, powers_of_two, choices (got nothing)."),
        ({"log_rang": [1, 2]}, "(got log_rang). Did you mean 'log_range'?"),
        ({"range": [1, 2], "log_range": [1, 2]}, "needs exactly one of"),
        ({"range": [1, 2], "stepp": 1}, "range knows no 'stepp'. Did you mean 'step'? Known: range, step"),
        ({"range": [1]}, "range needs its two ends, as in [1, 64] (got (1,))"),
        ({"range": 5}, "range needs its two ends, as in [1, 64] (got 5)"),
        ({"range": [5, 1]}, "range must end at or above its start (got 5 to 1)"),
        ({"range": [1, 5], "step": 0}, "step must be above 0 (got 0)"),
        ({"range": [1, "x"]}, "range needs numbers (got 'x')"),
        ({"range": [1, True]}, "range needs numbers (got True)"),
        ({"log_range": [0, 5]}, "log_range must start at 1 or more (got 0)"),
        ({"log_range": [1.5, 5]}, "log_range needs whole numbers (got 1.5)"),
        ({"log_range": [9, 15], "multiple_of": 8}, "log_range 9 to 15 holds no multiple of 8"),
        ({"log_range": [1, 5], "multiple_of": 0}, "multiple_of must be at least 1 (got 0)"),
        ({"powers_of_two": [5, 7]}, "powers_of_two 5 to 7 holds no power of two"),
        ({"choices": {}}, "choices needs values with their weights"),
        ({"choices": [1, 2]}, "choices needs values with their weights"),
        ({"choices": {1: 0}}, "every weight of choices must be above 0 (got 0 for 1)"),
        ({"choices": {1: "x"}}, "choices needs numbers (got 'x')"),
    ],
)
def test_what_is_no_domain_is_told_in_a_sentence(written: object, sentence: str) -> None:
    with pytest.raises(ValueError, match=r"\w") as caught:
        parse_domain(written)
    assert sentence in str(caught.value)


def test_whole_ends_give_whole_numbers() -> None:
    assert Range((1, 4)).grid() == [1, 2, 3, 4]
    assert all(isinstance(value, int) for value in Range((1, 4)).grid())


def test_fractional_ends_without_a_step_still_reach_the_end() -> None:
    assert Range((0.0, 0.7)).grid() == [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7]


def test_weights_decide_how_often_a_value_is_drawn() -> None:
    drawn = [weighted({"often": 3, "seldom": 1}).at(index / 100) for index in range(100)]
    assert drawn.count("often") == 75


@pytest.mark.parametrize(
    ("domain", "wanted", "nearest"),
    [
        (one_of(1, 3, 7), 6, 7),
        (log_range(8, 64, multiple_of=8), 1000, 64),
        (log_range(8, 64, multiple_of=8), 21, 24),
        (Range((0, 10), 5), 6, 5),
        (one_of("relu", "gelu"), "gelu", "gelu"),
        (one_of("relu", "gelu"), "tanh", None),
        (Fixed(3), 99, 3),
    ],
)
def test_the_nearest_value_lies_inside_the_domain(domain: Domain, wanted: int | str, nearest: object) -> None:
    assert domain.nearest(wanted) == nearest


@pytest.mark.parametrize(
    ("written", "paths"),
    [
        (0, [()]),
        ([1, 0], [(1,)]),
        ({"range": [0, 5]}, [("range", 0)]),
        ({"range": [1, 5], "step": 0.5}, [("step",)]),
        ({"choices": {1: 1, 0: 1}}, [("choices", "0")]),
        ({"log_range": [1, 5]}, []),
    ],
)
def test_a_wrong_value_is_told_with_its_place(written: object, paths: list[tuple[object, ...]]) -> None:
    def at_least_one(value: object) -> str | None:
        return None if isinstance(value, int) and value >= 1 else "must be a whole number of at least 1"

    assert [path for path, _ in wrong_parts(parse_domain(written), at_least_one)] == paths
