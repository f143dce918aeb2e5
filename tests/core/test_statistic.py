"""Statistics: definitions, repeatability, and the choice of the target."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medn.core.statistic import (
    LOADED_STATISTIC,
    NoiseFloor,
    Statistic,
    Target,
    choose_target,
    noise_floors,
    ordered_quantile,
    split_half_difference,
    tail_latency_s,
)
from medn.core.values import Condition, Layer, Measurement, Point, Samples, Visit, freeze


def make_visit(wall_s: list[float], preempted: list[bool] | None = None, pass_number: int = 0) -> Visit:
    marks = np.array(preempted if preempted else [False] * len(wall_s))
    samples = Samples(np.array(wall_s), np.array(wall_s), marks)
    return Visit("key", pass_number, "here", 0.0, "ok", samples=samples)


def make_measurement(visits: list[Visit], utilization: float = 0.0, size: int = 1) -> Measurement:
    point = Point(Layer("linear", freeze({"size": size})), Condition(utilization=utilization), "torch")
    return Measurement(point, tuple(visits))


@given(st.lists(st.floats(1e-9, 1e3), min_size=1, max_size=50), st.floats(0, 1))
def test_ordered_quantile_agrees_with_numpy(values: list[float], fraction: float) -> None:
    assert ordered_quantile(sorted(values), fraction) == pytest.approx(np.quantile(values, fraction), rel=1e-9)


def test_a_statistic_takes_a_quantile_within_and_one_across_visits() -> None:
    visits = [make_visit([1.0, 2.0, 3.0]), make_visit([4.0, 5.0, 6.0])]
    assert Statistic(0.5, 0.0, undisturbed=True).latency_s(visits) == 2.0
    assert Statistic(0.0, 1.0, undisturbed=True).latency_s(visits) == 4.0


def test_disturbed_samples_are_dropped_when_idle_and_kept_under_load() -> None:
    visit = make_visit([1.0, 9.0, 9.0], [False, True, True])
    assert Statistic(0.5, 0.5, undisturbed=True).latency_s([visit]) == 1.0
    assert LOADED_STATISTIC.latency_s([visit]) == 9.0


def test_a_visit_with_nothing_but_disturbed_samples_still_counts() -> None:
    assert Statistic(0.0, 0.0, undisturbed=True).latency_s([make_visit([5.0, 7.0], [True, True])]) == 5.0


def test_split_half_compares_every_other_visit() -> None:
    visits = [make_visit([1.0]), make_visit([1.1]), make_visit([1.0]), make_visit([1.1])]
    difference = split_half_difference(visits, Statistic(0.0, 0.0, undisturbed=True))
    assert difference == pytest.approx(0.1 / 1.05)


def test_one_visit_has_no_split_half() -> None:
    assert split_half_difference([make_visit([1.0])], LOADED_STATISTIC) is None


def test_the_statistic_that_repeats_best_becomes_the_target() -> None:
    random = np.random.default_rng(1)
    measurements = []
    for size in range(40):
        # The fastest sample of a visit is the same each time; everything above it is noise.
        visits = [make_visit([1.0, *(1.0 + random.exponential(1.0, 30))], pass_number=n) for n in range(6)]
        measurements.append(make_measurement(visits, size=size))
    target, repeatability = choose_target(measurements)
    assert target.idle.within == 0.0
    assert repeatability[str(target.idle)].mean == 0.0
    assert repeatability["median over visits of the median within a visit"].mean > 0.05


def test_without_data_the_default_target_holds() -> None:
    assert choose_target([]) == (Target(), {})


def test_under_load_the_target_is_the_median() -> None:
    loaded = make_measurement([make_visit([1.0, 2.0, 9.0])], utilization=0.5)
    assert Target().latency_s(loaded) == 2.0


def test_a_target_is_restored_from_its_definition() -> None:
    target = Target(idle=Statistic(0.25, 0.5, undisturbed=True, processor_time=True))
    assert Target.from_definition(target.definition) == target


def test_a_definition_of_before_counts_by_wall_time() -> None:
    part = {"within": 0.1, "across": 0.0, "undisturbed": True}
    assert Target.from_definition({"idle": part, "loaded": part}).idle == Statistic(0.1, 0.0, undisturbed=True)


def test_noise_floors_are_kept_apart_by_load() -> None:
    steady = make_measurement([make_visit([1.0]), make_visit([1.0])])
    shaky = make_measurement([make_visit([1.0]), make_visit([3.0])], utilization=0.5)
    floors = noise_floors([steady, shaky], Target())
    assert floors["torch", "linear", False] == NoiseFloor(1, 0.0, 0.0)
    assert floors["torch", "linear", True].median == pytest.approx(1.0)


def test_tails_count_disturbed_samples() -> None:
    measurement = make_measurement([make_visit([1.0] * 80 + [50.0] * 20, [False] * 80 + [True] * 20)])
    assert [tail_latency_s(measurement, share) for share in (0.9, 0.99)] == [50.0, 50.0]


def test_few_samples_tell_no_tail() -> None:
    assert tail_latency_s(make_measurement([make_visit([1.0] * 9)]), 0.9) is None
    assert tail_latency_s(make_measurement([make_visit([1.0] * 99)]), 0.9) == 1.0
    assert tail_latency_s(make_measurement([make_visit([1.0] * 99)]), 0.99) is None
