"""Ensembles by greedy selection, and how sure a gain is."""

from __future__ import annotations

import numpy as np
import pytest

from medn.core.metrics import relative_errors, score
from medn.selection.ensembles import choose_weights, ensemble_name, mixed, offered
from medn.selection.gain import Judged, bootstrap, mean_difference

RANDOM = np.random.default_rng(0)
MEASURED = np.exp(RANDOM.normal(size=200))
LAYERS = np.repeat([f"layer {number}" for number in range(50)], 4)
LOGS = {
    name: np.log(MEASURED) + RANDOM.normal(0, spread, 200)
    for name, spread in (("cheap", 0.3), ("fair", 0.12), ("good", 0.1), ("better", 0.09))
}
COSTS = {"cheap": 1.0, "fair": 10.0, "good": 20.0, "better": 100.0}


def error(weights: dict[str, float]) -> float:
    return float(relative_errors(np.exp(mixed(LOGS, weights)), MEASURED).mean())


def test_independent_members_beat_the_best_of_them() -> None:
    weights = dict(choose_weights(LOGS, MEASURED, layers=50))
    assert error(weights) < 0.9 * error({"better": 1.0})
    assert sum(weights.values()) == pytest.approx(1)


def test_on_few_layers_shares_are_spread_over_what_is_nearly_as_good() -> None:
    """Four alike, so that whatever looks better does so by luck."""
    alike = {name: np.log(MEASURED) + RANDOM.normal(0, 0.1, 200) for name in "abcd"}
    few, many = (choose_weights(alike, MEASURED, layers=layers) for layers in (40, 40_000))
    assert len(few) == 4
    assert sum(share**2 for share in few.values()) < sum(share**2 for share in many.values())


def test_what_is_far_worse_gets_no_share_on_few_layers_either() -> None:
    assert "far" not in choose_weights({**LOGS, "far": LOGS["good"] + np.log(3)}, MEASURED, layers=20)


@pytest.mark.parametrize("most", [1, 2, 3])
def test_an_ensemble_has_no_more_members_than_allowed(most: int) -> None:
    assert 1 <= len(choose_weights(LOGS, MEASURED, layers=50, most=most)) <= most


def test_offered_ensembles_get_better_as_they_get_dearer() -> None:
    found = [dict(weights) for weights in offered(LOGS, MEASURED, COSTS, 50)]
    errors = [error(weights) for weights in found]
    costs = [sum(COSTS[name] for name in weights) for weights in found]
    assert len(found) > 1
    assert errors == sorted(errors, reverse=True)
    assert costs == sorted(costs)
    assert all(len(weights) > 1 for weights in found)


def test_a_single_candidate_makes_no_ensemble() -> None:
    assert offered({"good": LOGS["good"]}, MEASURED, COSTS, 50) == []


def test_no_members_are_offered_twice() -> None:
    names = [frozenset(weights) for weights in offered(LOGS, MEASURED, COSTS, 50)]
    assert len(names) == len(set(names))
    assert "+" in ensemble_name(dict.fromkeys(names[0], 0.5))


def judged(weight: float = 1.0, **logs: np.ndarray[tuple[int], np.dtype[np.float64]]) -> Judged:
    return Judged(MEASURED, LAYERS, {name: np.exp(own) for name, own in logs.items()}, weight)


def test_scores_of_a_bootstrap_are_those_of_the_rows() -> None:
    found = bootstrap([judged(good=LOGS["good"])], draws=50)
    expected = score(np.exp(LOGS["good"]), MEASURED)
    assert found.accuracy_of("good").value == pytest.approx(expected.accuracy)
    assert found.r2_of("good").value == pytest.approx(expected.r2)
    assert found.accuracy_of("good").low < expected.accuracy < found.accuracy_of("good").high


def test_overall_is_the_weighted_mean_over_places() -> None:
    places = [judged(3.0, all=LOGS["good"]), judged(1.0, all=LOGS["cheap"])]
    expected = [score(np.exp(LOGS[name]), MEASURED).accuracy for name in ("good", "cheap")]
    assert bootstrap(places, draws=2).accuracy_of("all").value == pytest.approx(0.75 * expected[0] + 0.25 * expected[1])


def test_the_interval_of_a_clear_gain_excludes_zero() -> None:
    gain = bootstrap([judged(good=LOGS["good"], cheap=LOGS["cheap"])]).accuracy_gain("good", "cheap")
    assert 0 < gain.low < gain.value < gain.high


def test_the_interval_of_no_gain_holds_zero() -> None:
    other = np.log(MEASURED) + RANDOM.normal(0, 0.1, 200)
    gain = bootstrap([judged(good=LOGS["good"], other=other)]).accuracy_gain("good", "other")
    assert gain.low < 0 < gain.high


def test_the_same_seed_gives_the_same_interval() -> None:
    first, second = (bootstrap([judged(good=LOGS["good"])], seed=3, draws=20).accuracy for _ in range(2))
    assert (first == second).all()


def test_a_scheme_that_one_place_lacks_is_left_out() -> None:
    places = [judged(good=LOGS["good"], fair=LOGS["fair"]), judged(good=LOGS["good"])]
    assert bootstrap(places, draws=2).schemes == ("good",)


def test_rows_of_a_layer_are_drawn_together() -> None:
    """Four equal rows say as much as one, so the interval must not shrink."""
    first, second = (RANDOM.normal(size=50) for _ in range(2))
    one = mean_difference(first, second, np.arange(50).astype(str), 0.9)
    four = mean_difference(np.repeat(first, 4), np.repeat(second, 4), np.repeat(np.arange(50), 4).astype(str), 0.9)
    assert four.value == pytest.approx(one.value)
    assert four.high - four.low == pytest.approx(one.high - one.low, rel=0.15)


def test_a_hopeless_member_is_in_no_ensemble_that_is_offered() -> None:
    """On ten layers a share would be spread to it, as a mean of more is believed more."""
    random = np.random.default_rng(3)
    measured = np.exp(random.normal(size=10))
    members = {name: np.log(measured) + random.normal(0, 0.15, 10) for name in ("one", "other")}
    members["hopeless"] = np.log(measured) + random.choice([-0.5, 0.5], 10)
    found = offered(members, measured, dict.fromkeys(members, 1.0), layers=10)
    assert found
    assert all("hopeless" not in weights for weights in found)
