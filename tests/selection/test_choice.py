"""Choosing within a budget, on options whose errors and costs are made up."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from medn.core.errors import UsageError
from medn.selection.budget import Budget
from medn.selection.choice import choose, overall_error, shares, total_cost, whole_front
from medn.selection.option import Cost, Option, Selection
from medn.selection.pareto import front
from medn.selection.schemes import BEST, CHOSEN, EFFICIENT, ENSEMBLE, schemes

LAYERS = np.array([f"layer {number}" for number in range(50)])


def option(place: str, name: str, error: float, us: float, size: float, load_ms: float = 1.0, **more: object) -> Option:
    """Errors that vary from layer to layer around their mean, in the same way for every option."""
    pattern = 1 + 0.5 * np.sin(np.arange(50))
    return Option(place, name, error * pattern / pattern.mean(), LAYERS, Cost(us, size, load_ms), **more)  # type: ignore[arg-type]


OPTIONS = [
    *(option(place, "good", 0.05, 100, 1_000_000, 20) for place in ("conv", "linear")),
    *(option(place, "middle", 0.06, 20, 100_000, 5) for place in ("conv", "linear")),
    *(option(place, "quick", 0.09, 5, 50_000, 2) for place in ("conv", "linear")),
    *(option(place, "tiny", 0.085, 15, 1_000, 2) for place in ("conv", "linear")),
    *(option(place, "useless", 0.2, 200, 2_000_000, 50) for place in ("conv", "linear")),
]
SHARE = shares({"conv": 1.0, "linear": 1.0})


def names(selection: Selection) -> list[str]:
    return [selection[place].name for place in sorted(selection)]


@pytest.mark.parametrize(
    ("mode", "expected"), [("accuracy", "good"), ("fast", "middle"), ("small", "middle"), ("balanced", "good")]
)
def test_a_mode_picks_what_it_is_for(mode: str, expected: str) -> None:
    assert names(choose(OPTIONS, Budget(mode), SHARE)) == [expected] * 2


def test_fast_and_small_differ_where_both_are_near_enough() -> None:
    near = [
        option("conv", "best", 0.06, 100, 1_000_000),
        option("conv", "quick", 0.07, 5, 500_000),
        option("conv", "tiny", 0.07, 50, 1_000),
    ]
    alone = shares({"conv": 1.0})
    assert names(choose(near, Budget("fast"), alone)) == ["quick"]
    assert names(choose(near, Budget("small"), alone)) == ["tiny"]


def test_limits_are_kept_and_used_up_where_it_pays() -> None:
    chosen = choose(OPTIONS, Budget(max_us=60), SHARE)
    assert sorted(names(chosen)) == ["good", "middle"]
    assert total_cost(chosen, SHARE).us == 60


@pytest.mark.parametrize(
    "limits", [{"max_us": 16}, {"max_kb": 150}, {"max_load_ms": 9}, {"max_us": 18, "max_kb": 120, "max_load_ms": 8}]
)
def test_no_selection_within_the_limits_is_more_accurate(limits: dict[str, float]) -> None:
    budget = Budget(**limits)  # type: ignore[arg-type]
    chosen = choose(OPTIONS, budget, SHARE)
    places = [[each for each in OPTIONS if each.place == place] for place in ("conv", "linear")]
    possible = []
    for first, second in itertools.product(*places):
        selection = {"conv": first, "linear": second}
        cost, most = total_cost(selection, SHARE), budget.limits
        if cost.us <= most.us and cost.bytes <= most.bytes and cost.load_ms <= most.load_ms:
            possible.append(overall_error(selection, SHARE))
    assert overall_error(chosen, SHARE) == pytest.approx(min(possible))


def test_a_kind_that_is_asked_more_often_counts_more() -> None:
    share = shares({"conv": 9.0, "linear": 1.0})
    chosen = choose(OPTIONS, Budget(max_us=93), share)
    assert names(chosen) == ["good", "middle"]
    assert total_cost(chosen, share).us == pytest.approx(92)


def test_what_cannot_be_told_apart_goes_to_the_faster_then_the_smaller() -> None:
    errors = 0.05 * np.random.default_rng(0).lognormal(0, 1, 50)
    worse = errors[::-1] * 1.001
    tied = [
        Option("conv", "slow", errors, LAYERS, Cost(100, 10, 1)),
        Option("conv", "fast", worse, LAYERS, Cost(10.0, 1000, 1)),
        Option("conv", "as fast and smaller", worse, LAYERS, Cost(10.1, 900, 1)),
    ]
    alone = shares({"conv": 1.0})
    assert names(choose(tied, Budget(), alone)) == ["as fast and smaller"]
    faster = Option("conv", "faster", worse, LAYERS, Cost(8.0, 5000, 1))
    assert names(choose([*tied, faster], Budget(), alone)) == ["faster"]


def test_a_cheap_option_is_not_taken_for_the_best_because_layers_are_few() -> None:
    """Such errors say little about which is better; the larger one is believed to be larger all the same."""
    errors = 0.05 * np.random.default_rng(0).lognormal(0, 1, 50)
    options = [
        Option("conv", "best", errors, LAYERS, Cost(100, 10, 1)),
        Option("conv", "cheap", 1.05 * errors[::-1], LAYERS, Cost(1, 10, 1)),
    ]
    assert names(choose(options, Budget(), {"conv": 1.0})) == ["best"]


@pytest.mark.parametrize(("layers", "expected"), [(50, "a+b"), (50_000, "a")])
def test_a_mean_of_several_is_believed_more_than_a_single_one_on_few_layers(layers: int, expected: str) -> None:
    groups = np.arange(layers).astype(str)
    options = [
        Option("conv", "a", np.full(layers, 0.050), groups, Cost(10, 10, 1)),
        Option("conv", "a+b", np.full(layers, 0.052), groups, Cost(20, 10, 1), {"a": 0.5, "b": 0.5}),
    ]
    assert names(choose(options, Budget(), {"conv": 1.0})) == [expected]


def test_a_small_but_steady_difference_is_no_tie() -> None:
    assert names(
        choose([option("conv", "a", 0.050, 100, 10), option("conv", "b", 0.051, 1, 10)], Budget(), {"conv": 1.0})
    ) == ["a"]


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"max_us": 3}, "no selection keeps within 3 us a row. The nearest possible: 5 us a row"),
        ({"max_kb": 1}, "no selection keeps within 1 kB. The nearest possible: 2 kB"),
        ({"max_us": 6, "max_kb": 10}, "no selection keeps within 6 us a row and 10 kB. The nearest possible: "),
    ],
)
def test_an_impossible_budget_is_refused_with_the_nearest_possible_one(limits: dict[str, float], words: str) -> None:
    with pytest.raises(UsageError) as refused:
        choose(OPTIONS, Budget(**limits), SHARE)  # type: ignore[arg-type]
    assert words in str(refused.value)


def test_the_nearest_possible_budget_is_possible() -> None:
    with pytest.raises(UsageError) as refused:
        choose(OPTIONS, Budget(max_us=6, max_kb=10, max_load_ms=1), SHARE)
    offered = str(refused.value).split(": ")[1].replace(" us a row", "").replace(" kB", "").replace(" ms to load", "")
    us, kb, load_ms = map(float, offered.split(" and "))
    assert choose(OPTIONS, Budget(max_us=us, max_kb=kb, max_load_ms=load_ms), SHARE)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"mode": "acuracy"}, "no mode named 'acuracy'. Did you mean 'accuracy'?"),
        ({"rows": 7}, "times are measured for 1, 100, 10000 rows (got 7)"),
        ({"max_us": 0}, "max_us must be above 0 (got 0)"),
        ({"max_kb": float("nan")}, "max_kb must be above 0 (got nan)"),
        ({"weights": {"conv": -1.0}}, "the weight of conv must be above 0 (got -1)"),
    ],
)
def test_a_wrong_budget_is_one_sentence(wrong: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError) as refused:
        Budget(**wrong)  # type: ignore[arg-type]
    assert words in str(refused.value)


def test_dominated_options_are_not_on_the_front() -> None:
    found = front([each for each in OPTIONS if each.place == "conv"])
    assert {each.name for each in found} == {"good", "middle", "quick", "tiny"}


@pytest.mark.parametrize("resource", ["us", "bytes"])
def test_the_whole_front_runs_from_the_best_to_the_cheapest(resource: str) -> None:
    found = whole_front(OPTIONS, SHARE, resource)
    errors = [overall_error(selection, SHARE) for selection in found]
    costs = [getattr(total_cost(selection, SHARE), resource) for selection in found]
    assert errors == sorted(errors)
    assert costs == sorted(costs, reverse=True)
    assert names(found[0]) == ["good", "good"]


def test_schemes_are_every_single_regressor_and_the_ways_to_select() -> None:
    mixture = option("conv", "good+middle", 0.04, 120, 1_100_000, members={"good": 0.5, "middle": 0.5})
    lonely = option("linear", "lonely", 0.01, 1000, 10)
    options = [*OPTIONS, mixture, lonely]
    chosen = choose(options, Budget("fast"), SHARE)
    found = {scheme.name: scheme for scheme in schemes(options, chosen, Budget("fast"), SHARE)}
    assert list(found)[-4:] == [BEST, EFFICIENT, ENSEMBLE, CHOSEN]
    assert {name for name, scheme in found.items() if scheme.is_single} == {
        f"only {name}" for name in ("good", "middle", "quick", "tiny", "useless")
    }
    assert names(found[BEST].selection) == ["good", "lonely"]
    assert names(found[ENSEMBLE].selection) == ["good+middle", "lonely"]
    assert found[CHOSEN].selection is chosen
